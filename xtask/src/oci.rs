//! OCI image archives, written without a daemon or a registry.
//!
//! ```ignore
//! let base = Layer::base();                              // /etc/passwd, /etc/group, /tmp
//! let app = Layer::new()
//!     .copy("usr/bin/sealane-sidecar", 0o755, "target/debug/sealane-sidecar")
//!     .file("etc/sealane/defaults.json", 0o644, b"{}".to_vec())
//!     .link("sidecar", "usr/bin/sealane-sidecar")
//!     .tree("opt/python", "/usr/lib/python3", |path| !path.ends_with("__pycache__"))?;
//! let digest = Image::new("localhost/sealane-sidecar:0.1.0")
//!     .layer(base)
//!     .layer(app)
//!     .entrypoint(["/usr/bin/sealane-sidecar"])
//!     .cmd(["run"])
//!     .env("RUST_LOG", "info")
//!     .user("65532:65532")
//!     .workdir("/")
//!     .label("org.opencontainers.image.version", "0.1.0")
//!     .write(Path::new("sealane-sidecar.tar"))?;
//! ```
//!
//! Invariant: the same inputs give the same bytes, hence the same digest. Entries are sorted, times and owners are
//! zero, and nothing from the machine (umask, user, clock, locale) enters the archive. Missing parent folders are
//! added with mode 0755.
//!
//! Deliberately absent: compression (archives only travel to a containerd on the same machine), whiteouts, and any
//! platform but the one this was compiled for.

mod archive;
mod layer;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use aws_lc_rs::digest;
use serde_json::{Value, json};

pub use archive::{Archive, inspect};
pub use layer::Layer;

const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// Digits of the digest in a tag by content: 48 bits, never shared by chance among one project's images.
const TAG_LENGTH: usize = 12;
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// A SHA-256 digest in the form the OCI specification writes it: `sha256:<64 hex digits>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    fn of(bytes: &[u8]) -> Self {
        Self::from_hash(digest::digest(&digest::SHA256, bytes).as_ref())
    }

    fn from_hash(hash: &[u8]) -> Self {
        Self(format!("sha256:{}", hex::encode(hash)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn blob_path(&self) -> String {
        format!("blobs/{}", self.0.replacen(':', "/", 1))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An image to be written: layers from the bottom up, and how a container of it starts.
#[derive(Debug)]
pub struct Image {
    name: String,
    layers: Vec<Layer>,
    entrypoint: Vec<String>,
    cmd: Vec<String>,
    env: BTreeMap<String, String>,
    user: String,
    workdir: String,
    labels: BTreeMap<String, String>,
}

impl Image {
    /// `name` is the full reference a pod uses, with host and tag: `localhost/pause:1`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            layers: Vec::new(),
            entrypoint: Vec::new(),
            cmd: Vec::new(),
            env: BTreeMap::from([("PATH".to_owned(), DEFAULT_PATH.to_owned())]),
            user: String::new(),
            workdir: "/".to_owned(),
            labels: BTreeMap::new(),
        }
    }

    pub fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    pub fn entrypoint<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.entrypoint = words.into_iter().map(Into::into).collect();
        self
    }

    pub fn cmd<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.cmd = words.into_iter().map(Into::into).collect();
        self
    }

    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// `uid`, `uid:gid`, or a name that the image's `/etc/passwd` knows.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    pub fn workdir(mut self, folder: impl Into<String>) -> Self {
        self.workdir = folder.into();
        self
    }

    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Writes the archive and returns the manifest's digest, which is what containerd lists for the image. The file
    /// appears under its name only when it is complete.
    pub fn write(&self, out: &Path) -> Result<Digest> {
        let tag = self.name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
        tag.with_context(|| format!("image name {} has no tag", self.name))?;
        let content = self.content(folder_of(out))?;
        content.write(&self.name, out)?;
        Ok(content.digest)
    }

    /// Like [`Self::write`], for an image whose name has no tag: its content gives the tag, so that equal content
    /// has an equal name and a changed one is never mistaken for what a node already holds. The archive is
    /// `FOLDER/<last part of the name>-<tag>.tar`.
    pub fn write_by_content(&self, folder: &Path) -> Result<ByContent> {
        let content = self.content(folder)?;
        let tag: String = content.digest.as_str().chars().skip("sha256:".len()).take(TAG_LENGTH).collect();
        let short = self.name.rsplit('/').next().unwrap_or_default();
        let archive = folder.join(format!("{short}-{tag}.tar"));
        content.write(&format!("{}:{tag}", self.name), &archive)?;
        Ok(ByContent { tag, digest: content.digest, archive })
    }

    /// Everything but the name. Layers wait as temporary files in `folder`.
    fn content(&self, folder: &Path) -> Result<Content> {
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let layers = self
            .layers
            .iter()
            .map(|layer| layer.write(folder))
            .collect::<Result<Vec<_>>>()
            .with_context(|| format!("layers of {}", self.name))?;
        let diff_ids: Vec<_> = layers.iter().map(|layer| layer.digest.as_str()).collect();
        let config = self.config(&diff_ids).to_string();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": descriptor(CONFIG_TYPE, &Digest::of(config.as_bytes()), config.len() as u64),
            "layers": layers.iter().map(|l| descriptor(LAYER_TYPE, &l.digest, l.size)).collect::<Vec<_>>(),
        })
        .to_string();
        Ok(Content { digest: Digest::of(manifest.as_bytes()), layers, config, manifest })
    }

    fn config(&self, diff_ids: &[&str]) -> Value {
        let env: Vec<_> = self.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut run = json!({"Env": env, "WorkingDir": self.workdir});
        if !self.entrypoint.is_empty() {
            run["Entrypoint"] = json!(self.entrypoint);
        }
        if !self.cmd.is_empty() {
            run["Cmd"] = json!(self.cmd);
        }
        if !self.user.is_empty() {
            run["User"] = json!(self.user);
        }
        if !self.labels.is_empty() {
            run["Labels"] = json!(self.labels);
        }
        json!({
            "architecture": architecture(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        })
    }
}

/// An image named by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByContent {
    pub tag: String,
    pub digest: Digest,
    pub archive: PathBuf,
}

/// An image's blobs, before it has a name.
struct Content {
    digest: Digest,
    layers: Vec<layer::Written>,
    config: String,
    manifest: String,
}

impl Content {
    fn write(&self, name: &str, out: &Path) -> Result<()> {
        let (_, tag) = name.rsplit_once(':').unwrap_or_default();
        let mut entry = descriptor(MANIFEST_TYPE, &self.digest, self.manifest.len() as u64);
        entry["annotations"] = json!({
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": tag,
        });
        let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}).to_string();

        let mut file = tempfile::Builder::new().prefix(".image-").tempfile_in(folder_of(out))?;
        let mut tar = tar::Builder::new(BufWriter::new(file.as_file_mut()));
        put(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        put(&mut tar, "index.json", index.as_bytes())?;
        put(&mut tar, &self.digest.blob_path(), self.manifest.as_bytes())?;
        put(&mut tar, &Digest::of(self.config.as_bytes()).blob_path(), self.config.as_bytes())?;
        let mut seen = std::collections::BTreeSet::new();
        for layer in &self.layers {
            if seen.insert(&layer.digest) {
                let blob = File::open(layer.file.path())?;
                tar.append_data(&mut layer::file_header(layer.size, 0o644), layer.digest.blob_path(), blob)?;
            }
        }
        tar.into_inner()?.flush()?;
        std::fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.persist(out).with_context(|| format!("write {}", out.display()))?;
        Ok(())
    }
}

fn descriptor(media_type: &str, digest: &Digest, size: u64) -> Value {
    json!({"mediaType": media_type, "digest": digest.as_str(), "size": size})
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The OCI specification uses Go's names of architectures.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn put(tar: &mut tar::Builder<impl Write>, path: &str, bytes: &[u8]) -> io::Result<()> {
    tar.append_data(&mut layer::file_header(bytes.len() as u64, 0o644), path, bytes)
}

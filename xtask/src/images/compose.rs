//! What each image consists of, and the memory of what was composed last time.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{
    Image, Programs, Workspace, binaries,
    debian::Extent,
    layers::{self, Layers, USER},
    python,
    timer::Timer,
    tree::{self, Key},
};
use crate::{bench::facts, oci, progress::note};

const BENCH: &str = "sealane-bench";
const DEMO: &str = "sealane-demo";
const TORCH: &str = "sealane-torch";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where the sources of the demo image's own layer lie, and where they go. All must be there.
const SOURCES: [(&str, &str); 2] = [("clients/python/src/sealane", "sealane"), ("examples/demo", "demo")];

/// Builds `names` in one go: one cargo call, one look at the packages.
pub(super) fn all(workspace: &Workspace, names: &[&str]) -> Result<Vec<Image>> {
    if names.contains(&DEMO) {
        ensure_sources(&workspace.root)?;
    }
    let programs: Vec<_> = names.iter().copied().filter(|name| extent(name) == Extent::Os).collect();
    let built = match workspace.programs {
        _ if programs.is_empty() => BTreeMap::new(),
        Programs::AsBuilt => binaries::built(&workspace.root, &programs)?,
        Programs::Dev => binaries::build(&workspace.root, &programs, false, |_| {})?,
        Programs::Release => binaries::build(&workspace.root, &programs, true, |_| {})?,
    };
    let folder = workspace.images();
    let layers = layers(workspace, names)?;
    let mut images = Vec::new();
    for name in names {
        let key = Key::new(&[name, VERSION])
            .with_file(&crate::process::own_program())?
            .with(layers::base_name(&layers.os));
        images.push(match built.get(*name) {
            Some(program) => {
                let facts = (*name == BENCH).then(|| bench_facts(workspace)).transpose()?;
                let key = key.with_file(program)?.with(facts.as_deref().unwrap_or_default());
                remembered(&folder, name, key, || program_image(&folder, name, program, facts, &layers))?
            }
            None if *name == TORCH => {
                let key = layers.torch()?.key(key);
                remembered(&folder, name, key, || torch_image(&layers))?
            }
            None => {
                let key = demo_key(&workspace.root, key, &layers)?;
                remembered(&folder, name, key, || demo_image(&workspace.root, &layers))?
            }
        });
    }
    Ok(images)
}

/// The layers below ours, as many as `names` need.
pub(super) fn layers(workspace: &Workspace, names: &[&str]) -> Result<Layers> {
    let extent = names.iter().map(|name| extent(name)).max().unwrap_or(Extent::Os);
    Layers::take(&workspace.images(), extent)
}

/// An image of one of our programs: nothing but it, what it says of itself, and the OS layer.
fn program_image(
    folder: &Path,
    name: &str,
    program: &Path,
    facts: Option<String>,
    layers: &Layers,
) -> Result<oci::Image> {
    binaries::check_simulation(name, program)?;
    let stripped = binaries::strip(program, &folder.join("bin"))?;
    binaries::check(&stripped, &layers.os)?;
    let path = format!("/usr/bin/{name}");
    let mut ours = oci::Layer::new().copy(&path, 0o755, stripped);
    if let Some(facts) = facts {
        ours = ours.file(format!("/usr/bin/{}", facts::FILE), 0o644, facts);
    }
    Ok(named(name, layers)?.layer(ours).entrypoint([path]))
}

/// What `sealane-bench` reads beside itself and tells with its figures.
fn bench_facts(workspace: &Workspace) -> Result<String> {
    let profile = if workspace.programs == Programs::Release {
        "release: optimised, thin LTO, portable (no target-cpu)"
    } else {
        "dev: hardly optimised, with debug assertions; figures mean nothing"
    };
    facts::told(&workspace.root, profile)
}

/// Python with numpy, tokenizers and MiniLM's weights, gRPC, our client, and the demo's programs.
fn demo_image(root: &Path, layers: &Layers) -> Result<oci::Image> {
    let python = layers.python()?;
    let mut ours = oci::Layer::new();
    for (source, package) in SOURCES {
        ours = layers::sources(ours, &format!("{}/{package}", python::PACKAGES), &root.join(source))?;
    }
    let image = interpreted(DEMO, layers)?.layer(python.wheels()?).layer(ours);
    Ok(image.label("dev.sealane.wheels", python.wheels_label()?))
}

/// Python with torch, and nothing of ours.
fn torch_image(layers: &Layers) -> Result<oci::Image> {
    Ok(interpreted(TORCH, layers)?.layer(layers.torch()?.layer()?))
}

/// The layers that `name` stands on.
fn extent(name: &str) -> Extent {
    match name {
        TORCH => Extent::Torch,
        DEMO => Extent::Python,
        _ => Extent::Os,
    }
}

fn interpreted(name: &str, layers: &Layers) -> Result<oci::Image> {
    Ok(named(name, layers)?
        .layer(layers.python()?.interpreter()?)
        .entrypoint([format!("/{}", python::INTERPRETER)])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUNBUFFERED", "1"))
}

fn named(name: &str, layers: &Layers) -> Result<oci::Image> {
    Ok(oci::Image::new(format!("localhost/{name}"))
        .layer(layers.os()?)
        .user(USER)
        // Debian's libraries look elsewhere when the package openssl is absent.
        .env("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
        .label("org.opencontainers.image.title", name)
        .label("org.opencontainers.image.version", VERSION)
        .label("org.opencontainers.image.licenses", "Apache-2.0")
        .label("dev.sealane.debian", layers.packages(extent(name))))
}

fn ensure_sources(root: &Path) -> Result<()> {
    for (source, _) in SOURCES {
        let mut files = tree::files(&root.join(source)).unwrap_or_default().into_iter();
        let found = files.any(|file| file.extension().is_some_and(|end| end == "py"));
        ensure!(found, "{DEMO} needs the Python programs in {source}, and there are none");
    }
    Ok(())
}

fn demo_key(root: &Path, key: Key, layers: &Layers) -> Result<Key> {
    let mut key = layers.python()?.key(key);
    for (source, _) in SOURCES {
        let folder = root.join(source);
        for file in tree::files(&folder)?.into_iter().filter(|file| layers::is_source(file)) {
            key = key.with(file.strip_prefix(&folder)?.as_os_str().as_encoded_bytes()).with_file(&file)?;
        }
    }
    Ok(key)
}

/// What the last build of an image gave, beside its archive.
#[derive(Serialize, Deserialize)]
struct Record {
    key: String,
    tag: String,
    digest: String,
    archive: PathBuf,
}

/// The image that `make` describes, or the one of last time if `key` is the same. Archives of the same image with
/// other tags are removed: nothing names them any more.
fn remembered(
    folder: &Path,
    name: &str,
    key: Key,
    make: impl FnOnce() -> Result<oci::Image>,
) -> Result<Image> {
    let key = key.finish();
    let path = folder.join(format!("{name}.json"));
    if let Some(image) = recall(&path, name, &key) {
        note(&format!("images: {} unchanged", image.reference()));
        return Ok(image);
    }
    let timer = Timer::start();
    let oci::ByContent { tag, digest, archive } = make()?.write_by_content(folder)?;
    let record = Record { key, tag: tag.clone(), digest: digest.to_string(), archive: archive.clone() };
    let image = Image { name: format!("localhost/{name}"), tag, archive, digest };
    forget(folder, &image)?;
    fs::write(&path, serde_json::to_string_pretty(&record)?)
        .with_context(|| format!("write {}", path.display()))?;
    timer.done(image.reference(), image.size()?);
    Ok(image)
}

/// The recorded image, if its archive is still what the record says. A record that cannot be read counts as none.
fn recall(path: &Path, name: &str, key: &str) -> Option<Image> {
    let record: Record = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let held = oci::inspect(&record.archive).ok()?;
    let image = Image {
        name: format!("localhost/{name}"),
        tag: record.tag,
        archive: record.archive,
        digest: held.digest,
    };
    let same = record.key == key && held.name == image.reference() && image.digest.as_str() == record.digest;
    same.then_some(image)
}

fn forget(folder: &Path, image: &Image) -> Result<()> {
    let tag_length = image.tag.len();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let tag =
            file.strip_prefix(&format!("{}-", image.short_name())).and_then(|rest| rest.strip_suffix(".tar"));
        // `sealane-sidecar-` also begins the archives of `sealane-sidecar-sim`: only a tag may follow.
        let ours = tag
            .is_some_and(|tag| tag.len() == tag_length && tag.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if ours && path != image.archive {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &'static str) -> oci::Image {
        oci::Image::new("localhost/sealane-sidecar").layer(oci::Layer::new().file("a", 0o644, text))
    }

    #[test]
    fn the_tag_follows_the_content_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let build = |key: &str, text| {
            remembered(folder.path(), "sealane-sidecar", Key::new(&[key]), || Ok(image(text)))
        };
        let first = build("1", "one").unwrap();
        assert_eq!(first.tag.len(), 12);
        assert!(first.digest.as_str().starts_with(&format!("sha256:{}", first.tag)));
        assert_eq!(oci::inspect(&first.archive).unwrap().name, first.reference());

        assert_eq!(build("2", "one").unwrap(), first, "another key, the same content");
        let second = build("3", "two").unwrap();
        assert_ne!(second.tag, first.tag);
        assert!(second.archive.exists() && !first.archive.exists());
    }

    #[test]
    fn an_unchanged_image_is_not_composed_again_unless_its_archive_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let build = |made: &mut u32| {
            remembered(folder.path(), "sealane-sidecar", Key::new(&["1"]), || {
                *made += 1;
                Ok(image("one"))
            })
        };
        let mut made = 0;
        let first = build(&mut made).unwrap();
        assert_eq!(build(&mut made).unwrap(), first);
        assert_eq!(made, 1);
        fs::write(&first.archive, "not an archive").unwrap();
        assert_eq!(build(&mut made).unwrap(), first);
        assert_eq!(made, 2);
    }

    #[test]
    fn an_image_never_removes_those_of_a_longer_name() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("sealane-sidecar-sim-0123456789ab.tar");
        let old = folder.path().join("sealane-sidecar-0123456789ab.tar");
        fs::write(&other, "").unwrap();
        fs::write(&old, "").unwrap();
        remembered(folder.path(), "sealane-sidecar", Key::new(&["1"]), || Ok(image("one"))).unwrap();
        assert!(other.exists() && !old.exists());
    }
}

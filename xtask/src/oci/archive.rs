//! Reading back which image an archive holds.

use std::{fs::File, io::Read, path::Path};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::Digest;

/// An index names a handful of manifests; anything larger is not one of ours.
const INDEX_BYTES_MAX: u64 = 64 * 1024;

/// What an archive offers to containerd.
#[derive(Debug, PartialEq, Eq)]
pub struct Archive {
    pub name: String,
    pub digest: Digest,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Manifest>,
}

#[derive(Deserialize)]
struct Manifest {
    digest: String,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "io.containerd.image.name")]
    name: Option<String>,
}

/// The image's name and manifest digest, from the archive's index alone.
pub fn inspect(path: &Path) -> Result<Archive> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut tar = tar::Archive::new(file);
    for entry in tar.entries_with_seek()? {
        let entry = entry.with_context(|| format!("{} is not a tar archive", path.display()))?;
        if entry.path()?.as_ref() != Path::new("index.json") {
            continue;
        }
        ensure!(entry.size() <= INDEX_BYTES_MAX, "index of {} is too large", path.display());
        let mut text = String::new();
        entry.take(INDEX_BYTES_MAX).read_to_string(&mut text)?;
        let index: Index =
            serde_json::from_str(&text).with_context(|| format!("index of {}", path.display()))?;
        let [manifest] = index.manifests.as_slice() else {
            anyhow::bail!("{} holds {} images instead of one", path.display(), index.manifests.len());
        };
        let name = manifest.annotations.name.clone();
        let name = name.with_context(|| format!("{} does not name its image", path.display()))?;
        return Ok(Archive { name, digest: Digest(manifest.digest.clone()) });
    }
    anyhow::bail!("{} is not an OCI image archive: it has no index.json", path.display())
}

//! The blobs of an OCI archive, read where they lie.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, SeekFrom, Take},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// A manifest lists a handful of layers; anything larger is not one of ours.
const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;

/// Where each blob begins in the archive and how long it is, by digest.
#[derive(Debug)]
pub(super) struct Blobs {
    path: PathBuf,
    places: BTreeMap<String, (u64, u64)>,
}

/// A manifest as it must be sent, and the digests it needs to be there before.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) bytes: Vec<u8>,
    pub(super) media_type: String,
    pub(super) blobs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    media_type: String,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
}

impl Blobs {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let mut places = BTreeMap::new();
        for entry in tar::Archive::new(file).entries_with_seek()? {
            let entry = entry.with_context(|| format!("{} is not a tar archive", path.display()))?;
            let name = entry.path()?.to_string_lossy().into_owned();
            if let Some(hash) = name.strip_prefix("blobs/sha256/") {
                places.insert(format!("sha256:{hash}"), (entry.raw_file_position(), entry.size()));
            }
        }
        Ok(Self { path: path.to_owned(), places })
    }

    pub(super) fn reader(&self, digest: &str) -> Result<(Take<File>, u64)> {
        let (start, length) =
            self.places.get(digest).with_context(|| format!("no {digest} in the archive"))?;
        let mut file = File::open(&self.path).with_context(|| format!("open {}", self.path.display()))?;
        file.seek(SeekFrom::Start(*start))?;
        Ok((file.take(*length), *length))
    }

    pub(super) fn manifest(&self, digest: &str) -> Result<Manifest> {
        let (mut reader, length) = self.reader(digest)?;
        ensure!(length <= MANIFEST_BYTES_MAX, "the manifest is too large");
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        let fields: Fields =
            serde_json::from_slice(&bytes).context("the manifest is not what the archive promises")?;
        let blobs = fields.layers.into_iter().chain([fields.config]).map(|blob| blob.digest).collect();
        Ok(Manifest { bytes, media_type: fields.media_type, blobs })
    }
}

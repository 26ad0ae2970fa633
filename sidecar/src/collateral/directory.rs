//! Bundles in a directory: a mounted ConfigMap, or a folder of whoever runs a sidecar by hand.
//!
//! It is looked at every few seconds rather than watched: a mounted ConfigMap changes by a link that is replaced, other
//! file systems tell of changes in other ways, and a bundle is not that urgent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sealane_attestation::bundle::BundleError;
use sealane_attestation::limits::BUNDLE_FILE_BYTES_MAX;
use sealane_types::{Digest, PublicKey};

use super::keeper::CollateralKeeper;
use crate::policy::PolicyKeeper;

/// How often the directory is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Files that are looked at; the rest, by name, is not.
const FILES_MAX: usize = 16;
/// What bundles are called.
const SUFFIX: &str = ".json";

/// A directory of bundles.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// What became of each file, by what it held and who the owners were.
    seen: BTreeMap<PathBuf, (Digest, BTreeSet<PublicKey>)>,
}

impl Directory {
    #[must_use]
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, seen: BTreeMap::new() }
    }

    /// Takes every bundle that comes, for the life of the process. Without a policy nobody is an owner yet.
    pub(crate) async fn watch(mut self, keeper: Arc<CollateralKeeper>, policy: Arc<PolicyKeeper>) {
        let mut standing = policy.subscribe();
        loop {
            let owners = standing
                .borrow_and_update()
                .held()
                .ok()
                .map(|held| held.policy.document().authorities.keys.clone());
            if let Some(owners) = owners {
                let keeper = Arc::clone(&keeper);
                let looked = tokio::task::spawn_blocking(move || {
                    self.look(&keeper, &owners);
                    self
                });
                match looked.await {
                    Ok(looked) => self = looked,
                    Err(failed) => std::panic::resume_unwind(failed.into_panic()),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                changed = standing.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Takes what is new.
    fn look(&mut self, keeper: &CollateralKeeper, owners: &BTreeSet<PublicKey>) {
        let files = match bundles(&self.path) {
            Ok(files) => files,
            // An optional ConfigMap that is not there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(directory = %self.path.display(), %error, "bundles of collateral cannot be looked for");
                return;
            }
        };
        self.seen.retain(|path, _| files.contains(path));
        for path in files {
            let bytes = match read(&path) {
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "a bundle of collateral cannot be read");
                    continue;
                }
            };
            let seen = (sealane_policy::digest_of(&bytes), owners.clone());
            if self.seen.get(&path) == Some(&seen) {
                continue;
            }
            match keeper.adopt(&bytes, owners) {
                Ok(()) => {}
                // Several files, of which one is the newest.
                Err(error @ BundleError::RolledBack { .. }) => {
                    tracing::info!(file = %path.display(), "a bundle of collateral is passed over: {error}");
                }
                Err(error) => {
                    tracing::error!(file = %path.display(), "a bundle of collateral is refused: {error}");
                }
            }
            self.seen.insert(path, seen);
        }
    }
}

/// The first files by name that may be bundles.
fn bundles(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names: BTreeSet<PathBuf> = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        // A mounted ConfigMap keeps its versions beside the links to them, under names with dots in front.
        if text.ends_with(SUFFIX) && !text.starts_with('.') {
            names.insert(directory.join(&name));
        }
        // The directory may hold anything.
        if names.len() > FILES_MAX {
            names.pop_last();
        }
    }
    Ok(names.into_iter().collect())
}

/// Reads a file of at most a bundle's size. A mounted ConfigMap is made of links, so they are followed; a pipe is not
/// waited for.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(BUNDLE_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > BUNDLE_FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for a bundle"));
    }
    Ok(bytes)
}

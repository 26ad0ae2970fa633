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
use std::time::{Duration, Instant};

use sealane_attestation::bundle::BundleError;
use sealane_attestation::limits::BUNDLE_FILE_BYTES_MAX;
use sealane_attestation::{Adoption, Rejection};
use sealane_types::{Digest, PublicKey};

use super::keeper::CollateralKeeper;
use crate::policy::PolicyKeeper;

/// How often the directory is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How often a file is looked at again that was refused for its dates: the clock may be set right.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Files that are looked at; the rest, by name, is not.
const FILES_MAX: usize = 16;
/// What bundles are called.
const SUFFIX: &str = ".json";

/// A directory of bundles.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    seen: BTreeMap<PathBuf, Seen>,
}

/// What became of a file.
#[derive(Debug)]
struct Seen {
    /// What it held, and who the owners were.
    what: (Digest, BTreeSet<PublicKey>),
    /// What was wrong with it, in words.
    problems: String,
    /// When it may be found in order although nothing about it changed.
    again: Option<Instant>,
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
                    self.look(&keeper, &owners, Instant::now());
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

    /// Takes what is new at `moment`, and what was too new before.
    fn look(&mut self, keeper: &CollateralKeeper, owners: &BTreeSet<PublicKey>, moment: Instant) {
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
            let what = (sealane_policy::digest_of(&bytes), owners.clone());
            let before = self.seen.get(&path).filter(|seen| seen.what == what);
            if before.is_some_and(|seen| seen.again.is_none_or(|again| moment < again)) {
                continue;
            }
            let outcome = keeper.adopt(&bytes, owners);
            let problems = problems(&outcome);
            if before.is_none_or(|seen| seen.problems != problems) {
                keeper.found_bundle(outcome.is_ok());
                tell(&path, &outcome);
            }
            let again = is_too_new(&outcome).then(|| moment + LOOK_AGAIN);
            self.seen.insert(path, Seen { what, problems, again });
        }
    }
}

/// Whether something was refused that may be in order at another time.
fn is_too_new(outcome: &Result<Adoption, BundleError>) -> bool {
    match outcome {
        Ok(adoption) => {
            adoption.refused.iter().any(|(_, rejection)| matches!(rejection, Rejection::Expired(_)))
        }
        Err(error) => matches!(error, BundleError::FromTheFuture { .. }),
    }
}

fn problems(outcome: &Result<Adoption, BundleError>) -> String {
    match outcome {
        Ok(adoption) => {
            adoption.refused.iter().map(|(place, rejection)| format!("{place}: {rejection}\n")).collect()
        }
        Err(error) => error.to_string(),
    }
}

fn tell(path: &Path, outcome: &Result<Adoption, BundleError>) {
    let file = path.display();
    match outcome {
        Ok(adoption) => {
            for (place, rejection) in &adoption.refused {
                let reason = rejection.reason();
                tracing::warn!(%file, place, %reason, "a piece of the bundle is not taken: {rejection}");
            }
            tracing::info!(%file, new = adoption.new, "a bundle of collateral is taken");
        }
        // Several files, of which one is the newest.
        Err(error @ BundleError::RolledBack { .. }) => {
            tracing::info!(%file, "a bundle of collateral is passed over: {error}");
        }
        Err(error) => tracing::error!(%file, "a bundle of collateral is refused: {error}"),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sealane_attestation::VendorRoots;
    use sealane_attestation::bundle::Bundle;
    use sealane_policy::SigningKey;
    use sealane_types::UnixSeconds;
    use serde_json::json;

    use super::*;
    use crate::context::tests::{context, permit};
    use crate::metrics::Metrics;
    use crate::metrics::labels::OutcomeLabel;
    use crate::session::clock::Clock;

    #[test]
    fn a_bundle_that_is_ahead_of_the_clock_is_taken_once_the_clock_is_right() {
        /// 2027-01-01, by a clock that is two days late.
        static WALL: AtomicU64 = AtomicU64::new(1_798_761_600);
        let clock = Clock::reading(|| UnixSeconds(WALL.load(Ordering::Relaxed)));
        let metrics = Metrics::new(UnixSeconds(0));
        let keeper =
            CollateralKeeper::new(VendorRoots::pinned(), Arc::new(clock), None, metrics.collateral.clone());
        let owner = SigningKey::from_seed(&[1; 32]).unwrap();
        let owners = [owner.public_key()].into();
        let issued = UnixSeconds(1_798_761_600 + 2 * 86_400);
        let bundle = Bundle { issued, min_tcb_evaluation: None, pieces: vec![] };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("bundle.json"), bundle.sign(&owner).unwrap()).unwrap();
        let mut directory = Directory::new(folder.path().to_owned());
        let found = |taken| {
            let outcome = if taken { "taken" } else { "refused" };
            metrics.collateral.bundles.get_or_create(&OutcomeLabel { outcome }).get()
        };
        let begin = Instant::now();
        directory.look(&keeper, &owners, begin);
        directory.look(&keeper, &owners, begin + LOOK_AGAIN);
        assert_eq!((found(true), found(false)), (0, 1), "the same problem is told once");
        WALL.fetch_add(2 * 86_400, Ordering::Relaxed);
        directory.look(&keeper, &owners, begin + LOOK_AGAIN + LOOK);
        assert_eq!(found(true), 0, "not at every look");
        directory.look(&keeper, &owners, begin + 2 * LOOK_AGAIN);
        assert_eq!((found(true), found(false)), (1, 1));
        directory.look(&keeper, &owners, begin + 9 * LOOK_AGAIN);
        assert_eq!((found(true), found(false)), (1, 1), "it is done with");
    }

    /// Sessions hear of a revocation as soon as a bundle is taken.
    #[tokio::test(start_paused = true)]
    async fn a_bundle_is_taken_at_the_next_look() {
        let context = context(None);
        permit(&context, 1, &json!({}), &json!([]));
        let (metrics, clock) = (Metrics::new(UnixSeconds(0)), Arc::clone(&context.clock));
        let issued = clock.unix();
        let keeper = CollateralKeeper::new(VendorRoots::pinned(), clock, None, metrics.collateral.clone());
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path().to_owned());
        let watch = tokio::spawn(directory.watch(Arc::new(keeper), Arc::clone(&context.policy)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let bundle = Bundle { issued, min_tcb_evaluation: None, pieces: vec![] };
        let owner = SigningKey::from_seed(&[1; 32]).unwrap();
        fs::write(folder.path().join("bundle.json"), bundle.sign(&owner).unwrap()).unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let taken = OutcomeLabel { outcome: "taken" };
        assert_eq!(metrics.collateral.bundles.get_or_create(&taken).get(), 1);
        watch.abort();
    }
}

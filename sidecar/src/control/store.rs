//! The last configuration, kept on the door's volume.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::desired::Desired;
use crate::volume;

const NAME: &str = "last-config.json";
/// Largest file that is read back.
const BYTES_MAX: u64 = 16 << 20;

/// Where the last configuration is kept.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
}

impl Store {
    pub(super) fn beside(door: &Path) -> Self {
        Self { path: door.with_file_name(NAME) }
    }

    /// The kept configuration, as unsigned as it came. Roots in it are dropped: containers of the pod can write this
    /// file, and only the webhook, a file of the image or a live operator may say where trust starts.
    pub(super) fn load(&self) -> Option<Desired> {
        let unreadable = |error: &dyn std::fmt::Display| {
            tracing::warn!(path = %self.path.display(), %error, "the kept configuration is not readable");
        };
        let bytes = match volume::read(&self.path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                unreadable(&error);
                return None;
            }
        };
        let mut desired: Desired =
            serde_json::from_slice(&bytes).inspect_err(|error| unreadable(error)).ok()?;
        if let Some(policy) = &mut desired.policy {
            policy.roots = None;
        }
        Some(desired)
    }

    /// Keeps a configuration; a failure costs only the next restart without an operator.
    pub(super) fn save(&self, desired: &Desired) {
        let kept = serde_json::to_vec(desired)
            .map_err(Into::into)
            .and_then(|bytes| volume::replace(&self.path, &bytes));
        if let Err(error) = kept {
            tracing::warn!(path = %self.path.display(), %error, "the configuration cannot be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use sealane_types::{Namespace, PolicyName, Provider, PublicKey, Roots, SignedChain};

    use super::*;
    use crate::desired::PolicyProposal;

    fn desired() -> Desired {
        let name = PolicyName::new("demo").unwrap();
        let roots = Roots {
            namespace: Namespace::new("demo").unwrap(),
            policy: name.clone(),
            threshold: 1,
            keys: vec![PublicKey::new([1; 32])],
            minimum_epoch: 1,
        };
        let chain = SignedChain { document: String::new(), signatures: vec![], rotations: vec![] };
        Desired {
            generation: 7,
            peer: None,
            reason: None,
            provider: Provider::Auto,
            reattest_seconds: 600,
            policy: Some(PolicyProposal { name, chain, roots: Some(roots) }),
            sessions: vec![],
        }
    }

    #[test]
    fn what_is_kept_reads_back_without_roots() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::beside(&directory.path().join("door.sock"));
        assert!(store.load().is_none());
        store.save(&desired());
        let kept = store.load().unwrap();
        assert_eq!(kept.generation, 7);
        assert_eq!(kept.policy.unwrap().roots, None, "a file in the pod is no place for trust to start");
    }

    #[test]
    fn a_damaged_file_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::beside(&directory.path().join("door.sock"));
        std::fs::write(directory.path().join(NAME), b"{").unwrap();
        assert!(store.load().is_none());
    }

    #[test]
    fn only_a_plain_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let (elsewhere, here) = (directory.path().join("elsewhere"), directory.path().join(NAME));
        std::fs::write(&elsewhere, serde_json::to_vec(&desired()).unwrap()).unwrap();
        let store = Store::beside(&directory.path().join("door.sock"));
        std::os::unix::fs::symlink(&elsewhere, &here).unwrap();
        assert!(store.load().is_none(), "a link leads out of the volume");
        std::fs::remove_file(&here).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &here, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(store.load().is_none(), "a pipe would be waited for");
    }

    #[test]
    fn a_link_in_the_way_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, b"untouched").unwrap();
        for name in ["last-config.json", "last-config.json.new"] {
            std::os::unix::fs::symlink(&elsewhere, directory.path().join(name)).unwrap();
        }
        let store = Store::beside(&directory.path().join("door.sock"));
        store.save(&desired());
        assert_eq!(store.load().unwrap().generation, 7);
        assert_eq!(std::fs::read(&elsewhere).unwrap(), b"untouched");
    }
}

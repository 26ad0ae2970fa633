//! The last configuration, kept on the door's volume.

use std::io;
use std::path::{Path, PathBuf};

use crate::desired::Desired;

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
        let length = std::fs::metadata(&self.path).ok()?.len();
        if length > BYTES_MAX {
            return None;
        }
        let bytes = std::fs::read(&self.path).ok()?;
        let mut desired: Desired = match serde_json::from_slice(&bytes) {
            Ok(desired) => desired,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "the kept configuration is not readable");
                return None;
            }
        };
        if let Some(policy) = &mut desired.policy {
            policy.roots = None;
        }
        Some(desired)
    }

    /// Keeps a configuration; a failure costs only the next restart without an operator.
    pub(super) fn save(&self, desired: &Desired) {
        if let Err(error) = self.write(desired) {
            tracing::warn!(path = %self.path.display(), %error, "the configuration cannot be kept");
        }
    }

    fn write(&self, desired: &Desired) -> io::Result<()> {
        let bytes = serde_json::to_vec(desired)?;
        let fresh = self.path.with_extension("json.new");
        std::fs::write(&fresh, bytes)?;
        std::fs::rename(&fresh, &self.path)
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
}

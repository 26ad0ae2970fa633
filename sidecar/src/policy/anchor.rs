//! Which roots a policy is verified from.

use sealane_attestation::TrustConfiguration;
use sealane_types::{Namespace, PolicyName, RootSource, Roots};

use crate::config::Anchors;

/// The roots of this process. Those it was started with are final; without any, the first that are offered for a
/// policy are kept for the life of the process, so that the control plane cannot exchange them later.
#[derive(Debug)]
pub(super) struct Anchor {
    namespace: Namespace,
    source: RootSource,
    /// Whether they count: those of initdata do once it is known to have been measured.
    proven: bool,
    fixed: bool,
    roots: Vec<Roots>,
    simulation: bool,
}

/// Policies whose first offered roots are kept.
const KEPT_MAX: usize = 16;

impl Anchor {
    pub(super) fn new(namespace: Namespace, anchors: Anchors, simulation: bool) -> Self {
        let Anchors { roots, source } = anchors;
        let proven = source != RootSource::Initdata;
        Self { namespace, source, proven, fixed: !roots.is_empty(), roots, simulation }
    }

    pub(super) fn source(&self) -> RootSource {
        self.source
    }

    pub(super) const fn is_proven(&self) -> bool {
        self.proven
    }

    /// Own evidence shows that the guest was started with what the roots are from.
    pub(super) const fn prove(&mut self) {
        self.proven = true;
    }

    /// What this process states when it follows the policy of `roots`.
    pub(super) fn configuration(&self, roots: &Roots) -> TrustConfiguration {
        TrustConfiguration { source: self.source, roots: roots.clone(), simulation: self.simulation }
    }

    /// The roots of `policy` in this pod's namespace.
    pub(super) fn roots(&mut self, policy: &PolicyName, offered: Option<&Roots>) -> Option<Roots> {
        if !self.proven {
            return None;
        }
        let ours = |roots: &&Roots| roots.namespace == self.namespace && roots.policy == *policy;
        if let Some(roots) = self.roots.iter().find(ours) {
            return Some(roots.clone());
        }
        let offered = offered.filter(ours)?;
        if self.fixed || self.roots.len() >= KEPT_MAX {
            return None;
        }
        self.roots.push(offered.clone());
        Some(offered.clone())
    }
}

#[cfg(test)]
mod tests {
    use sealane_types::PublicKey;

    use super::*;

    fn roots(namespace: &str, key: u8) -> Roots {
        Roots {
            namespace: Namespace::new(namespace).unwrap(),
            policy: PolicyName::new("demo").unwrap(),
            threshold: 1,
            keys: vec![PublicKey::new([key; 32])],
            minimum_epoch: 1,
        }
    }

    fn anchor(given: Vec<Roots>) -> Anchor {
        let namespace = Namespace::new("demo").unwrap();
        Anchor::new(namespace, Anchors { roots: given, source: RootSource::Injected }, false)
    }

    #[test]
    fn the_first_offered_roots_are_kept() {
        let policy = PolicyName::new("demo").unwrap();
        let mut anchor = anchor(vec![]);
        assert_eq!(anchor.roots(&policy, None), None);
        assert_eq!(anchor.roots(&policy, Some(&roots("demo", 1))), Some(roots("demo", 1)));
        assert_eq!(anchor.roots(&policy, Some(&roots("demo", 2))), Some(roots("demo", 1)));
    }

    #[test]
    fn roots_given_at_start_are_final() {
        let other = PolicyName::new("other").unwrap();
        let mut anchor = anchor(vec![roots("demo", 1)]);
        let mut offered = roots("demo", 2);
        offered.policy = other.clone();
        assert_eq!(anchor.roots(&other, Some(&offered)), None);
    }

    #[test]
    fn roots_of_initdata_count_once_they_are_proven_and_no_others_do_meanwhile() {
        let policy = PolicyName::new("demo").unwrap();
        let anchors = Anchors { roots: vec![roots("demo", 1)], source: RootSource::Initdata };
        let mut anchor = Anchor::new(Namespace::new("demo").unwrap(), anchors, false);
        assert_eq!(anchor.roots(&policy, Some(&roots("demo", 2))), None);
        anchor.prove();
        assert_eq!(anchor.roots(&policy, Some(&roots("demo", 2))), Some(roots("demo", 1)));
    }

    #[test]
    fn roots_of_another_namespace_are_not_ours() {
        let policy = PolicyName::new("demo").unwrap();
        assert_eq!(anchor(vec![]).roots(&policy, Some(&roots("elsewhere", 1))), None);
    }
}

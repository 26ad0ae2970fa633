//! The policy that evidence is judged by, and why it is trusted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use kube::Client;
use sealane_attestation::TrustConfiguration;
use sealane_operator_api::TrustPolicy;
use sealane_policy::{Document, VerifiedPolicy, verify};
use sealane_protocol::connection::PolicyView;
use sealane_protocol::handshake::Floor;
use sealane_types::{Reason, RootSource, Roots, SignedChain};

use crate::clock;
use crate::objects;
use crate::policy::reference::Reference;
use crate::source::{Source, shown};

/// Who says which owners count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Vouched {
    /// `--roots`.
    Roots(PathBuf),
    /// The policy that the user named, by its own roots.
    Policy(PathBuf),
    /// The control plane.
    Cluster,
}

impl Vouched {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Roots(path) => format!("the roots of {}", shown(path)),
            Self::Policy(path) => format!("the owners that {} names", shown(path)),
            Self::Cluster => "the roots that the cluster holds".to_owned(),
        }
    }

    /// What the cluster had a say in. `named`: the policy is the user's own.
    pub(super) const fn warning(&self, named: bool) -> Option<&'static str> {
        match self {
            Self::Cluster => Some(
                "policy and owners are those that the cluster names, so this trusts its control plane. --policy FILE --roots FILE judge by what the owners gave you.",
            ),
            Self::Roots(_) if !named => Some(
                "the cluster chose which signed epoch this judges by, and may hold back a newer one. --policy FILE names yours.",
            ),
            Self::Roots(_) | Self::Policy(_) => None,
        }
    }
}

/// A policy that is in force, its roots, and where they are from.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    pub(super) policy: VerifiedPolicy,
    pub(super) roots: Roots,
    pub(super) vouched: Vouched,
}

/// What the command line names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) policy: Option<&'a Path>,
    pub(super) roots: Option<&'a Path>,
}

impl Files<'_> {
    /// Whether the files alone say everything.
    pub(super) fn suffice(&self) -> bool {
        self.policy.is_some()
    }

    pub(super) fn read(&self) -> Result<Trust> {
        let path = self.policy.context("no policy is named")?;
        let source = Source::read(path)?;
        ensure!(source.is_signed(), "{} holds no signed policy", shown(path));
        self.trust(source, Vouched::Policy(path.to_owned()))
    }

    /// The policy `name` of the cluster, unless a file is named.
    pub(super) async fn read_with(&self, client: Client, namespace: &str, name: &str) -> Result<Trust> {
        if self.suffice() {
            return self.read();
        }
        let found = objects::named::<TrustPolicy>(&client, namespace, name, "TrustPolicies").await?;
        let manifest = found.with_context(|| {
            format!("there is no TrustPolicy {name} in namespace {namespace}; name a signed policy with --policy FILE")
        })?;
        self.trust(Source::from_manifest(&manifest)?, Vouched::Cluster)
    }

    fn trust(&self, source: Source, otherwise: Vouched) -> Result<Trust> {
        let chain = source.chain.clone();
        let (roots, vouched) = match self.roots {
            Some(path) => (Reference::read(path)?.roots, Vouched::Roots(path.to_owned())),
            None => (Reference::from_source(source)?.roots, otherwise),
        };
        let policy = verify(&chain, &roots, clock::now(), None)
            .with_context(|| format!("the policy does not hold against {}", vouched.words()))?;
        Ok(Trust { policy, roots, vouched })
    }
}

impl Trust {
    /// What the protocol needs to know of the policy.
    pub(super) fn view(&self) -> PolicyView {
        let Document { floors, limits, .. } = self.policy.document();
        PolicyView {
            epoch: self.policy.epoch(),
            digest: self.policy.digest(),
            floor: Floor {
                post_quantum: floors.post_quantum,
                ciphers: floors.ciphers.iter().copied().collect(),
            },
            life_micros: limits.session_seconds.saturating_mul(1_000_000),
        }
    }

    /// What an auditor states of itself. Nobody relies on an auditor: it proves nothing and gets no data.
    pub(super) fn configuration(&self) -> Arc<TrustConfiguration> {
        let source = match self.vouched {
            Vouched::Roots(_) | Vouched::Policy(_) => RootSource::File,
            Vouched::Cluster => RootSource::Injected,
        };
        Arc::new(TrustConfiguration { source, roots: self.roots.clone(), simulation: false })
    }

    /// Takes a newer policy, which a replica handed over, in place of this one: signed on from it, under the same roots.
    pub(super) fn adopt(&mut self, chain: &[u8]) -> Result<PolicyView, Reason> {
        let chain: SignedChain = serde_json::from_slice(chain).map_err(|_| Reason::PolicyMalformed)?;
        let newer = verify(&chain, &self.roots, clock::now(), Some(&self.policy));
        self.policy = newer.map_err(|error| error.reason())?;
        Ok(self.view())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cluster_chose_is_said() {
        let roots = Vouched::Roots("roots.json".into());
        assert!(roots.warning(false).unwrap().contains("which signed epoch"));
        assert_eq!(roots.warning(true), None);
        assert_eq!(Vouched::Policy("policy.json".into()).warning(true), None);
        assert!(Vouched::Cluster.warning(false).unwrap().contains("control plane"));
    }
}

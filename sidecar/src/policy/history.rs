//! What this process has adopted, policy by policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealane_attestation::TrustConfiguration;
use sealane_policy::{PolicyError, VerifiedPolicy};
use sealane_protocol::Moment;
use sealane_types::{PolicyName, SignedChain};

use super::{Adoption, Held};

/// The highest epoch of every policy that was ever adopted, for the life of the process: who may name another policy
/// in between must not thereby bring an older epoch back. Bounded, because a policy is adopted only from roots, of
/// which the anchor keeps few.
#[derive(Debug, Default)]
pub(super) struct History {
    records: BTreeMap<PolicyName, Record>,
    /// The one that is acted on.
    followed: Option<PolicyName>,
}

#[derive(Debug)]
struct Record {
    held: Arc<Held>,
    /// A second document of the held epoch, and what that means: kept as proof until a later epoch settles it.
    fork: Option<(SignedChain, PolicyError)>,
}

impl History {
    /// The name of the policy that is followed.
    pub(super) fn followed(&self) -> Option<&PolicyName> {
        self.followed.as_ref()
    }

    /// The policy that is followed; with a fork it is not acted on.
    pub(super) fn held(&self) -> Option<&Arc<Held>> {
        self.record().map(|record| &record.held)
    }

    /// Why the followed policy is not acted on, if its owners signed two documents of one epoch.
    pub(super) fn fork(&self) -> Option<&PolicyError> {
        self.record().and_then(|record| record.fork.as_ref()).map(|(_, error)| error)
    }

    /// The highest epoch of `name`.
    pub(super) fn highest(&self, name: &PolicyName) -> Option<&Arc<Held>> {
        self.records.get(name).map(|record| &record.held)
    }

    /// Follows `policy`, which was verified against [`Self::highest`].
    ///
    /// # Errors
    /// It is one side of a fork.
    pub(super) fn adopt(
        &mut self,
        name: &PolicyName,
        policy: VerifiedPolicy,
        trust: TrustConfiguration,
        now: Moment,
    ) -> Result<Adoption, PolicyError> {
        let again = self.followed.as_ref() == Some(name);
        match self.records.get_mut(name) {
            Some(record) if record.held.policy.digest() == policy.digest() => {
                if let Some((_, error)) = &record.fork {
                    return Err(error.clone());
                }
                if again {
                    return Ok(Adoption::Unchanged);
                }
            }
            Some(record) => {
                *record = Record { held: Arc::new(Held::after(&record.held, policy, now)), fork: None };
            }
            None => {
                let held = Arc::new(Held { policy, trust: Arc::new(trust), superseded: Vec::new() });
                self.records.insert(name.clone(), Record { held, fork: None });
            }
        }
        self.followed = Some(name.clone());
        Ok(Adoption::Adopted)
    }

    /// Keeps the proof that the owners of `name` signed `offered` besides what is held.
    pub(super) fn forked(&mut self, name: &PolicyName, offered: &SignedChain, error: &PolicyError) {
        if let Some(record) = self.records.get_mut(name)
            && record.fork.is_none()
        {
            record.fork = Some((offered.clone(), error.clone()));
        }
    }

    fn record(&self) -> Option<&Record> {
        self.followed.as_ref().and_then(|name| self.records.get(name))
    }
}

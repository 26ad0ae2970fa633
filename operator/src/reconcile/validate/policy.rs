//! A TrustPolicy: what goes to sidecars, and the operator's own verdict, made the way a sidecar makes it.

use std::sync::Arc;

use sealane_operator_api::TrustPolicy;
use sealane_policy::{Timestamp, VerifiedPolicy, verify};
use sealane_types::{Reason, Roots, SignedChain, UnixSeconds};

use crate::desired::PolicyWire;
use crate::spec::{Problem, Snapshot, ValidPolicy, word};

/// Sidecars get whatever can be read, even what the operator would refuse: the verdict is theirs.
pub(super) fn check(index: usize, policy: &TrustPolicy, snapshot: &Snapshot) -> ValidPolicy {
    let name = policy.metadata.name.as_deref().unwrap_or_default();
    let uid = policy.metadata.uid.clone().unwrap_or_default();
    let parts =
        policy.spec.roots(&snapshot.namespace, name).and_then(|roots| Ok((roots, policy.spec.chain()?)));
    match parts {
        Ok((roots, chain)) => {
            let held = snapshot.held.get(&uid).map(AsRef::as_ref);
            let verdict = verdict(policy, &roots, &chain, held, snapshot.now);
            ValidPolicy { index, uid, wire: wire(&roots, &chain), verdict }
        }
        Err(error) => {
            let problem = Problem { reason: word::SPEC_INVALID, message: error.to_string() };
            ValidPolicy { index, uid, wire: Err(problem.clone()), verdict: Err(problem) }
        }
    }
}

fn wire(roots: &Roots, chain: &SignedChain) -> Result<Arc<PolicyWire>, Problem> {
    let json = |result: Result<String, serde_json::Error>| {
        result.map_err(|error| Problem { reason: word::SPEC_INVALID, message: error.to_string() })
    };
    let (chain, roots) = (json(serde_json::to_string(chain))?, json(serde_json::to_string(roots))?);
    Ok(Arc::new(PolicyWire { chain, roots }))
}

fn verdict(
    policy: &TrustPolicy,
    roots: &Roots,
    chain: &SignedChain,
    held: Option<&VerifiedPolicy>,
    now: UnixSeconds,
) -> Result<Arc<VerifiedPolicy>, Problem> {
    let verified = verify(chain, roots, Timestamp::from(now), held)
        .map_err(|error| Problem::new(error.reason(), error.to_string()))?;
    // An operator that was restarted holds nothing, but its status remembers.
    let seen =
        policy.status.as_ref().and_then(|status| status.epoch).and_then(|epoch| u64::try_from(epoch).ok());
    match seen {
        Some(seen) if verified.epoch() < seen => Err(Problem::new(
            Reason::PolicyRolledBack,
            format!("epoch {} is older than epoch {seen}, which was in effect", verified.epoch()),
        )),
        Some(_) | None => Ok(Arc::new(verified)),
    }
}

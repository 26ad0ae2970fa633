//! Step five: hands the plan to the streams of the sidecars.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealane_policy::VerifiedPolicy;

use super::Context;
use super::resources::{Applied, Planned, Resources};
use crate::spec::Valid;

/// Pushes what changed, forgets what is gone, and keeps verified policies for the next verdict.
#[must_use]
pub fn apply(context: &Context, valid: &Valid, planned: Resources<Planned>) -> Resources<Applied> {
    let mut pushed = 0;
    let applied = planned.apply(
        |uid, desired| pushed += usize::from(context.registry.push(uid, desired)),
        |uid| context.registry.remove(uid),
    );
    context.metrics.pushed(pushed);
    let live: BTreeSet<&str> = valid.sessions.values().map(|session| session.uid.as_str()).collect();
    context.registry.keep_sessions(&valid.snapshot.namespace, |uid| live.contains(uid));
    context.hold(&valid.snapshot.namespace, held(valid));
    applied
}

/// The newest verified policy of each TrustPolicy: a document that fails now does not erase what was known.
fn held(valid: &Valid) -> BTreeMap<String, Arc<VerifiedPolicy>> {
    valid
        .policies
        .values()
        .filter_map(|policy| {
            let newest = policy.verdict.as_ref().ok().or_else(|| valid.snapshot.held.get(&policy.uid))?;
            Some((policy.uid.clone(), Arc::clone(newest)))
        })
        .collect()
}

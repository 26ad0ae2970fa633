//! Step five: hands the plan to the streams of the sidecars.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealane_operator_api::TransferSessionStatus;
use sealane_policy::VerifiedPolicy;

use super::Context;
use super::counted::Ledger;
use super::resources::{Applied, Planned, Resources};
use crate::spec::{Valid, ValidSession};

/// Pushes what changed, forgets what is gone, and keeps verified policies for the next verdict.
#[must_use]
pub fn apply(context: &Context, valid: &Valid, planned: Resources<Planned>) -> Resources<Applied> {
    let mut pushed = 0;
    let applied = planned.apply(
        |uid, desired| pushed += usize::from(context.registry.push(uid, desired)),
        |uid| context.registry.remove(uid),
    );
    context.metrics.pushed(pushed);
    let statuses = statuses(valid);
    context.registry.keep_retired(&valid.snapshot.namespace, |session, process, totals| {
        statuses.get(session).is_some_and(|status| !status.has(process, totals))
    });
    context.hold(&valid.snapshot.namespace, held(valid));
    applied
}

/// By uid of a session: what its status remembers.
fn statuses(valid: &Valid) -> BTreeMap<&str, Ledger> {
    let none = TransferSessionStatus::default();
    let ledger = |session: &ValidSession| {
        let object = valid.snapshot.sessions.get(session.index);
        let status = object.and_then(|object| object.status.as_ref()).unwrap_or(&none);
        Ledger::read(status, &BTreeMap::new())
    };
    valid.sessions.values().map(|session| (session.uid.as_str(), ledger(session))).collect()
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

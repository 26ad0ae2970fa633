//! Forwards of one Peer that want to listen on one port: the oldest keeps it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use k8s_openapi::jiff::Timestamp;
use sealane_operator_api::{Forward, TransferSession};
use sealane_types::{PeerName, Reason, SessionName};

use crate::ports::{listened, shared};
use crate::spec::{PodView, Problem, Snapshot, ValidSession};

/// A forward that can be told to sidecars, unless an older one holds its ports.
struct Claim {
    made: Option<Timestamp>,
    name: SessionName,
    from: PeerName,
    ports: RangeInclusive<u32>,
}

/// Refuses every forward that would listen where an older one of the same Peer does. The younger one loses, so that
/// a new object never breaks what works.
pub(super) fn refuse_conflicts(
    sessions: &mut BTreeMap<SessionName, ValidSession>,
    snapshot: &Snapshot,
    memberships: &BTreeMap<String, PeerName>,
) {
    let mut claims: Vec<Claim> = sessions
        .iter()
        .filter_map(|(name, session)| {
            let object = snapshot.sessions.get(session.index)?;
            claim(name, session, object, |peer| highest_ordinal(peer, &snapshot.pods, memberships))
        })
        .collect();
    claims.sort_by(|left, right| (left.made, &left.name).cmp(&(right.made, &right.name)));
    let mut kept: Vec<Claim> = Vec::new();
    for claim in claims {
        let older = kept.iter().filter(|older| older.from == claim.from);
        let conflict =
            older.filter_map(|older| Some((&older.name, shared(&older.ports, &claim.ports)?))).next();
        let Some((older, port)) = conflict else {
            kept.push(claim);
            continue;
        };
        if let Some(session) = sessions.get_mut(&claim.name) {
            session.shape = Err(Problem::new(
                Reason::PortConflict,
                format!(
                    "pods of Peer `{}` listen on port {port} for TransferSession `{older}` already; choose another spec.forward.listen",
                    claim.from
                ),
            ));
        }
    }
}

fn claim(
    name: &SessionName,
    session: &ValidSession,
    object: &TransferSession,
    highest: impl Fn(&PeerName) -> Option<u32>,
) -> Option<Claim> {
    let shape = session.shape.as_ref().ok()?;
    let forward: &Forward = object.spec.forward.as_ref()?;
    let highest = shape.to.first().and_then(highest);
    Some(Claim {
        made: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
        name: name.clone(),
        from: shape.from.clone(),
        ports: listened(forward, highest),
    })
}

fn highest_ordinal(
    peer: &PeerName,
    pods: &[PodView],
    memberships: &BTreeMap<String, PeerName>,
) -> Option<u32> {
    let replica = |pod: &&PodView| pod.is_wanted() && memberships.get(&pod.uid) == Some(peer);
    pods.iter().filter(replica).filter_map(PodView::ordinal).max()
}

//! More sessions than a sidecar holds: the oldest are kept, so that a new one never breaks what works.

use std::collections::BTreeMap;

use sealane_types::{PeerName, Reason, SessionName};

use crate::limits::PEER_SESSIONS_MAX;
use crate::spec::{Problem, Snapshot, ValidSession};

/// Refuses sessions beyond the bound of any Peer that takes part in them.
pub(super) fn refuse_surplus(sessions: &mut BTreeMap<SessionName, ValidSession>, snapshot: &Snapshot) {
    if sessions.len() <= PEER_SESSIONS_MAX {
        return;
    }
    let made = |session: &ValidSession| {
        let object = snapshot.sessions.get(session.index)?;
        object.metadata.creation_timestamp.as_ref().map(|time| time.0)
    };
    let mut oldest_first: Vec<(&SessionName, &mut ValidSession)> = sessions.iter_mut().collect();
    oldest_first.sort_by_key(|(name, session)| (made(session), *name));
    let mut taking_part: BTreeMap<PeerName, usize> = BTreeMap::new();
    for (_, session) in oldest_first {
        let Ok(shape) = &session.shape else { continue };
        let peers: Vec<PeerName> = std::iter::once(&shape.from).chain(&shape.to).cloned().collect();
        let full =
            peers.iter().find(|peer| taking_part.get(*peer).is_some_and(|count| *count >= PEER_SESSIONS_MAX));
        if let Some(full) = full {
            let message = format!(
                "Peer `{full}` takes part in {PEER_SESSIONS_MAX} older TransferSessions already, and its sidecars hold no more"
            );
            session.shape = Err(Problem::new(Reason::LimitExceeded, message));
            continue;
        }
        for peer in peers {
            *taking_part.entry(peer).or_default() += 1;
        }
    }
}

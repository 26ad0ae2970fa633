//! Which replicas a tensor goes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealane_types::{Delivery, PeerName};

use super::Entry;
use super::association::Association;
use super::ledger::{Held, Ledger};
use crate::handoff::{Parcel, ReplicaId};

/// A way to a receiving process: the process, and the generation of the stream within the lane. The client remembers it
/// across restarts of this sidecar as a [`ReplicaId`] whose last byte is the generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) process: ReplicaId,
    pub(super) generation: u8,
}

impl Route {
    pub(super) fn id(self) -> ReplicaId {
        let ReplicaId(mut bytes) = self.process;
        bytes[15] = self.generation;
        ReplicaId(bytes)
    }

    pub(super) fn of(id: ReplicaId) -> Self {
        let ReplicaId(mut bytes) = id;
        let generation = std::mem::take(&mut bytes[15]);
        Self { process: ReplicaId(bytes), generation }
    }
}

/// An association that has promised room to a tensor.
#[derive(Debug, Clone)]
pub(super) struct Promised {
    pub(super) association: Arc<Association>,
    pub(super) route: Route,
}

/// The answer of [`Schedule::choose`].
#[derive(Debug)]
pub(super) enum Choice {
    To(Vec<Promised>),
    /// Nowhere yet; ask again when the session has news.
    Wait,
    /// A process that may have the tensor is gone.
    Uncertain,
}

/// Tensors of a lane, and bytes, that replicas of a Peer may hold together without taking them, as long as there are
/// several: half of what a client usually has under way, so that those which take nothing leave room for the others.
const SHARED_TENSORS: u64 = 512;
const SHARED_BYTES: u64 = 32 << 20;

/// Whether a replica, one of `count`, may hold more. One tensor it may always hold, whatever its size.
fn within_share(held: Held, count: u64) -> bool {
    count < 2
        || held.tensors == 0
        || (held.tensors < SHARED_TENSORS / count && held.bytes < SHARED_BYTES / count)
}

/// Remembers whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    turns: BTreeMap<PeerName, usize>,
}

impl Schedule {
    /// Finds room for `parcel` at every `to` Peer; a new tensor travels in streams of `generation`.
    pub(super) fn choose(
        &mut self,
        delivery: Delivery,
        entries: &[Entry],
        parcel: &Parcel,
        generation: u8,
        ledger: &Ledger,
    ) -> Choice {
        if !parcel.assigned.is_empty() {
            return again(entries, parcel);
        }
        let chosen = match delivery {
            Delivery::RoundRobin => self.next_of_each(entries, ledger),
            Delivery::Broadcast => all_connected(entries),
        };
        match chosen {
            Some(chosen) => promise(chosen, parcel.length, generation),
            None => Choice::Wait,
        }
    }

    /// The next replica with room of every Peer, or None while one Peer has none.
    fn next_of_each(&mut self, entries: &[Entry], ledger: &Ledger) -> Option<Vec<Arc<Association>>> {
        let chosen: Vec<_> = entries
            .iter()
            .map(|entry| {
                let turn = self.turns.get(&entry.peer).copied().unwrap_or(0);
                let count = entry.associations.len();
                let connected = entry.associations.iter().filter(|one| one.is_established()).count() as u64;
                let order = (0..count).map(|step| (turn + step) % count);
                order
                    .filter_map(|index| Some((index, entry.associations.get(index)?)))
                    .find(|(_, association)| {
                        association.has_room() && within_share(ledger.held(association.serial()), connected)
                    })
                    .map(|(index, association)| (entry.peer.clone(), index, Arc::clone(association)))
            })
            .collect::<Option<_>>()?;
        if chosen.is_empty() {
            return None;
        }
        let advance = |(peer, index, association)| {
            self.turns.insert(peer, index + 1);
            association
        };
        Some(chosen.into_iter().map(advance).collect())
    }
}

/// Every connected replica, once all of them have room and every Peer has one.
fn all_connected(entries: &[Entry]) -> Option<Vec<Arc<Association>>> {
    let mut chosen = Vec::new();
    for entry in entries {
        let connected: Vec<_> =
            entry.associations.iter().filter(|association| association.takes_broadcasts()).collect();
        if connected.is_empty() || !connected.iter().all(|association| association.has_room()) {
            return None;
        }
        chosen.extend(connected.into_iter().cloned());
    }
    (!chosen.is_empty()).then_some(chosen)
}

/// Drops receivers that keep a broadcast from everyone else. One that is alone with its Peer is waited for.
pub(super) fn drop_stalled(entries: &[Entry]) {
    for entry in entries {
        let taking: Vec<_> =
            entry.associations.iter().filter(|association| association.takes_broadcasts()).collect();
        if taking.iter().any(|association| association.has_room()) {
            for association in taking.iter().filter(|association| !association.has_room()) {
                association.drop_if_stalled();
            }
        }
    }
}

fn promise(chosen: Vec<Arc<Association>>, length: u64, generation: u8) -> Choice {
    let mut promised: Vec<Promised> = Vec::with_capacity(chosen.len());
    for association in chosen {
        match association.promise(length) {
            Some(process) => promised.push(Promised { association, route: Route { process, generation } }),
            None => {
                // Another lane was faster.
                promised.iter().for_each(|other| other.association.forgo(length));
                return Choice::Wait;
            }
        }
    }
    Choice::To(promised)
}

/// A tensor that an earlier life of this sidecar may have sent goes to the same processes or nowhere.
fn again(entries: &[Entry], parcel: &Parcel) -> Choice {
    let associations = || entries.iter().flat_map(|entry| &entry.associations);
    let mut promised: Vec<Promised> = Vec::new();
    for route in parcel.assigned.iter().map(|id| Route::of(*id)) {
        let found =
            associations().find(|association| association.promise_again(route.process, parcel.length));
        if let Some(association) = found {
            promised.push(Promised { association: Arc::clone(association), route });
            continue;
        }
        promised.iter().for_each(|other| other.association.forgo(parcel.length));
        // A replica that has not answered yet may be the one, for a while; and one that is known may reconnect.
        let hope = |association: &Arc<Association>| association.may_hold(route.process);
        let any_known = associations().next().is_some();
        return if any_known && !associations().any(hope) { Choice::Uncertain } else { Choice::Wait };
    }
    Choice::To(promised)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_replica_has_all_and_several_share() {
        let held = |tensors, bytes| Held { tensors, bytes };
        assert!(within_share(held(100_000, u64::MAX), 1));
        assert!(within_share(held(0, 0), 10_000), "one tensor, whatever its size");
        assert!(within_share(held(SHARED_TENSORS / 2 - 1, SHARED_BYTES / 2 - 1), 2));
        assert!(!within_share(held(SHARED_TENSORS / 2, 0), 2));
        assert!(!within_share(held(1, SHARED_BYTES / 2), 2));
    }

    #[test]
    fn routes_read_back() {
        let mut bytes = [7; 16];
        bytes[15] = 0;
        let route = Route { process: ReplicaId(bytes), generation: 3 };
        assert_eq!(Route::of(route.id()), route);
    }
}

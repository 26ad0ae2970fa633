//! A desired state as it goes to sidecars: encoded once, however many are told it, and so is what changed in it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sealane_sidecar_api::control::Configuration;
use sealane_sidecar_api::delta::{Bytes, Part, Sequence, diff, parts, split};
use sealane_types::PeerName;

use super::convert::configuration;
use crate::desired::Desired;
use crate::limits::RENDERED_CHANGES_MAX;

/// One desired state, shared by every stream that tells it.
#[derive(Debug)]
pub struct Rendered {
    desired: Desired,
    pool: Arc<Pool>,
    /// Made when the first stream needs it; none of one that is too long to be sent as a change.
    sequence: OnceLock<Option<Sequence>>,
    /// Those that were asked for last.
    changes: Mutex<Vec<Arc<Change>>>,
}

/// What leads to a desired state from another, or from nothing.
#[derive(Debug)]
pub(super) struct Change {
    /// Digest of what it changes; empty: it is the whole.
    pub(super) base: Vec<u8>,
    pub(super) digest: Vec<u8>,
    pub(super) parts: Vec<Part>,
}

impl Rendered {
    #[must_use]
    pub const fn desired(&self) -> &Desired {
        &self.desired
    }

    /// All of it, for a sidecar that knows no changes.
    pub(super) fn configuration(&self, generation: u64) -> Configuration {
        configuration(&self.desired, generation)
    }

    /// Whether it can be sent as a change.
    pub(super) fn is_divisible(&self) -> bool {
        self.sequence().is_some()
    }

    /// The change from `base`, or the whole where there is no base that a change could name.
    pub(super) fn change(&self, base: Option<&Self>) -> Option<Arc<Change>> {
        let next = self.sequence()?;
        let base = base.and_then(Self::sequence);
        let named = base.map(|base| base.digest().to_vec()).unwrap_or_default();
        // Streams that need the same change wait for the first of them to make it.
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = changes.iter().find(|change| change.base == named) {
            return Some(Arc::clone(known));
        }
        let nothing = Sequence::default();
        let encoded = Bytes::from(diff(base.unwrap_or(&nothing), next));
        let change = Arc::new(Change {
            base: named,
            digest: next.digest().to_vec(),
            parts: parts(&encoded).collect(),
        });
        if changes.len() >= RENDERED_CHANGES_MAX {
            changes.remove(0);
        }
        changes.push(Arc::clone(&change));
        Some(change)
    }

    fn sequence(&self) -> Option<&Sequence> {
        let make = || split(self.configuration(0), |item| self.pool.share(item)).ok();
        self.sequence.get_or_init(make).as_ref()
    }
}

/// The newest rendering of what each Peer's sidecars are told.
#[derive(Debug, Default)]
pub(super) struct Renderings {
    pool: Arc<Pool>,
    newest: HashMap<(String, Option<PeerName>), Newest>,
    looked_through_at: usize,
}

#[derive(Debug)]
struct Newest {
    /// As it was planned last: equal to what is rendered, and compared by its address with what the next sidecar of the Peer
    /// is to be told.
    desired: Desired,
    rendered: Arc<Rendered>,
}

impl Renderings {
    /// The one rendering of `desired` as long as it is the newest of its Peer.
    pub(super) fn of(&mut self, namespace: &str, desired: &Desired) -> Arc<Rendered> {
        let peer = match desired {
            Desired::NoPeer => None,
            Desired::Member(member) => Some(member.peer.clone()),
        };
        let key = (namespace.to_owned(), peer);
        match self.newest.get_mut(&key) {
            Some(newest) if newest.desired == *desired => {
                newest.desired.clone_from(desired);
                Arc::clone(&newest.rendered)
            }
            Some(_) | None => {
                self.look_through();
                let rendered = Rendered::new(desired.clone(), Arc::clone(&self.pool));
                let newest = Newest { desired: desired.clone(), rendered: Arc::new(rendered) };
                let rendered = Arc::clone(&newest.rendered);
                self.newest.insert(key, newest);
                rendered
            }
        }
    }

    /// Forgets those that no stream tells, each time that their number has doubled.
    fn look_through(&mut self) {
        if self.newest.len() >= self.looked_through_at {
            self.newest.retain(|_, newest| Arc::strong_count(&newest.rendered) > 1);
            self.looked_through_at = 2 * self.newest.len() + POOL_MIN;
        }
    }
}

impl Rendered {
    fn new(desired: Desired, pool: Arc<Pool>) -> Self {
        Self { desired, pool, sequence: OnceLock::new(), changes: Mutex::default() }
    }
}

/// Fewer than this are not worth looking through.
const POOL_MIN: usize = 64;

/// Encoded items: a replica stands in as many configurations as its Peer has sessions, and in memory once.
#[derive(Debug, Default)]
struct Pool(Mutex<Items>);

#[derive(Debug, Default)]
struct Items {
    items: HashSet<Bytes>,
    looked_through_at: usize,
}

impl Pool {
    fn share(&self, item: Vec<u8>) -> Bytes {
        let mut pool = self.lock();
        if let Some(known) = pool.items.get(item.as_slice()) {
            return known.clone();
        }
        if pool.items.len() >= pool.looked_through_at {
            pool.items.retain(|item| !item.is_unique());
            pool.looked_through_at = 2 * pool.items.len() + POOL_MIN;
        }
        let item = Bytes::from(item);
        pool.items.insert(item.clone());
        item
    }

    fn lock(&self) -> MutexGuard<'_, Items> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::desired::{Membership, PolicyWire};

    /// A state whose policy has this chain.
    pub(in crate::control) fn with_chain(chain: &str) -> Desired {
        let wire = PolicyWire { chain: chain.to_owned(), roots: String::new() };
        Desired::Member(Membership {
            peer: "embedder".parse().unwrap(),
            provider: sealane_types::Provider::Auto,
            reattest_seconds: 600,
            policy: Some(("demo".parse().unwrap(), Arc::new(wire))),
            sessions: Arc::default(),
        })
    }

    #[test]
    fn equal_states_of_a_peer_are_rendered_once() {
        let mut renderings = Renderings::default();
        let first = renderings.of("demo", &with_chain("1"));
        // As the next reconciliation plans it: equal, and made anew.
        assert!(Arc::ptr_eq(&first, &renderings.of("demo", &with_chain("1"))));
        assert!(!Arc::ptr_eq(&first, &renderings.of("other", &with_chain("1"))));
        let second = renderings.of("demo", &with_chain("2"));
        let change = second.change(Some(&first)).unwrap();
        assert!(Arc::ptr_eq(&change, &second.change(Some(&first)).unwrap()), "encoded once");
        assert_eq!(change.base, first.change(None).unwrap().digest);
    }

    #[test]
    fn what_no_stream_tells_is_forgotten() {
        let mut renderings = Renderings::default();
        let kept = renderings.of("kept", &with_chain("1"));
        assert!(kept.is_divisible());
        for number in 0..10 * POOL_MIN {
            assert!(
                renderings.of(&format!("gone-{number}"), &with_chain(&number.to_string())).is_divisible()
            );
        }
        assert!(renderings.newest.len() <= 2 * POOL_MIN + 2, "{}", renderings.newest.len());
        assert!(Arc::ptr_eq(&kept, &renderings.of("kept", &with_chain("1"))));
        assert!(renderings.pool.lock().items.len() < 10 * POOL_MIN);
    }
}

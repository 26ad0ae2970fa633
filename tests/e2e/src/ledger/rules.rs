//! What a test knows that ledgers do not show.

use std::collections::{BTreeMap, BTreeSet};

/// As the session says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// One replica of every receiving Peer takes each tensor.
    #[default]
    RoundRobin,
    /// Every replica takes it.
    Broadcast,
}

/// What the test did, and what therefore may be told.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub delivery: Delivery,
    /// Pods that were deleted: their last process is dead too, if it did not end.
    pub gone: BTreeSet<String>,
    /// Receiving pods that lost a sidecar, or were given up by a broadcast: what they had may be uncertain. A pod with
    /// a dead process needs no mention.
    pub lost: BTreeSet<String>,
    /// Sending pods that were away for longer than a receiver waits: how many interruptions each receiver may be told
    /// of, besides those of dead processes.
    pub away: BTreeMap<String, usize>,
    /// Tensors of a lost receiver that found another one may arrive there behind later ones.
    pub redirected: bool,
    /// Errors that may end a process, as `kind` or `kind/reason`.
    pub errors: BTreeSet<String>,
    /// Whether tensors may be refused with a `Timeout`.
    pub refusals: bool,
}

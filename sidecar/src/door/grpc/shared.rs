//! What the calls of all clients share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::fault::Fault;
use super::listing::Listing;
use super::notes::Notes;
use crate::door::budget::Budget;
use crate::handoff::Lanes;
use crate::metrics::Door as Metrics;
use crate::metrics::labels::KindLabel;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) lanes: Lanes,
    pub(super) budget: Arc<Budget>,
    pub(super) process: [u8; 16],
    pub(super) listing: Listing,
    pub(super) notes: Arc<Notes>,
    pub(super) metrics: Metrics,
    pub(super) draining: CancellationToken,
}

impl Shared {
    /// Counts calls that ended because their clients broke a rule.
    pub(super) fn count(&self, fault: &Fault) {
        if let Some(kind) = fault.rule() {
            self.metrics.faults.get_or_create(&KindLabel { kind }).inc();
        }
    }
}

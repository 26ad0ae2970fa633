//! What the calls of all clients share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::notes::Notes;
use crate::door::budget::Budget;
use crate::handoff::{Lanes, Sessions};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) lanes: Lanes,
    pub(super) budget: Arc<Budget>,
    pub(super) process: [u8; 16],
    pub(super) sessions: Arc<dyn Sessions>,
    pub(super) notes: Arc<Notes>,
    pub(super) draining: CancellationToken,
}

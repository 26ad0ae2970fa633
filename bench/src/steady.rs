//! Messages one way without an end, so that what arrives within a time can be counted: a burst that is waited for ends in a round
//! trip in which nothing flows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use crate::message::{Inbox, Payloads};
use crate::wire::Wire;

/// What both ends and whoever measures know of such a flow.
#[derive(Debug)]
pub(crate) struct SteadyFlow {
    /// Messages in the receiver's memory, earlier ones of the same connection among them.
    arrived: Arc<AtomicU64>,
    over: CancellationToken,
}

impl SteadyFlow {
    /// Of a connection that carried `first` messages so far.
    pub(crate) fn new(first: u64) -> Self {
        Self { arrived: Arc::new(AtomicU64::new(first)), over: CancellationToken::new() }
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Both ends leave the connection where it is: what a sender has in its buffers may take a lossy link minutes.
    pub(crate) fn stop(&self) {
        self.over.cancel();
    }

    /// The sender's part, from message `first` on.
    pub(crate) async fn put(&self, wire: &mut impl Wire, payloads: &Payloads, first: u64) -> Result<()> {
        let endless = async {
            for number in first.. {
                wire.put(payloads.message(number)).await?;
            }
            Ok(())
        };
        self.over.run_until_cancelled(endless).await.unwrap_or(Ok(()))
    }

    /// The receiver's part.
    pub(crate) async fn take(&self, wire: &mut impl Wire, inbox: &mut Inbox) -> Result<()> {
        inbox.be_thorough(false);
        inbox.count_into(Arc::clone(&self.arrived));
        self.over.run_until_cancelled(wire.take(inbox, u64::MAX)).await.unwrap_or(Ok(()))
    }
}

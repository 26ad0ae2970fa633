//! Tensors whose bytes come over further links of their connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;
use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord, Sink};
use sealane_protocol::frame::{Frame, StreamId};
use sealane_protocol::transfer::Stripe;
use sealane_types::Reason;

use super::Receiving;
use super::stream::{Attachment, Brought, Stream};
use crate::metrics::labels::SessionLabels;
use crate::session::joins::{Carried, Carry};

/// Streams of one connection that have such tensors.
pub(super) struct Stripes {
    session: Arc<Receiving>,
    /// Bytes that such links have brought.
    received: Counter,
    streams: Mutex<HashMap<StreamId, (Arc<Stream>, Attachment)>>,
}

impl Stripes {
    pub(super) fn new(session: Arc<Receiving>) -> Self {
        let labels = SessionLabels::of(&session.key);
        let received = session.context.metrics.traffic.striped.get_or_create(&labels).clone();
        Self { session, received, streams: Mutex::default() }
    }

    /// A stream has such a tensor.
    pub(super) fn open(&self, id: StreamId, stream: &Arc<Stream>, attachment: Attachment) {
        self.lock().entry(id).or_insert_with(|| (Arc::clone(stream), attachment));
    }

    /// It is over. Its number is not used again on this connection; what still comes of it is dropped.
    pub(super) fn close(&self, id: StreamId) {
        self.lock().remove(&id);
    }

    fn find(&self, id: StreamId) -> Option<(Arc<Stream>, Attachment)> {
        self.lock().get(&id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, (Arc<Stream>, Attachment)>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Carry for Stripes {
    fn sink(self: Arc<Self>, stripe: Stripe) -> Box<dyn Carried> {
        Box::new(Bringing { stripes: self, stripe, partly: None })
    }
}

/// What one link brings.
struct Bringing {
    stripes: Arc<Stripes>,
    stripe: Stripe,
    /// The stream of a tensor that it has brought in part.
    partly: Option<StreamId>,
}

impl Sink for Bringing {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        Err(Reason::FrameMalformed)
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let id = record.range().stream;
        let Some((stream, attachment)) = self.stripes.find(id) else {
            self.partly = None;
            return Ok(record.open()?.1);
        };
        let bytes = record.range().length as u64;
        let (brought, opened) = stream.open_stripe(attachment, self.stripe, record)?;
        self.stripes.received.inc_by(bytes);
        self.partly = (brought == Brought::Part).then_some(id);
        if brought == Brought::Tensor {
            self.stripes.session.deliver(&stream);
        }
        Ok(opened)
    }
}

impl Carried for Bringing {
    fn is_between(&self) -> bool {
        // Of a stream that was aborted nothing is missed.
        self.partly.is_none_or(|id| self.stripes.find(id).is_none())
    }
}

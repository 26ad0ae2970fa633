//! The life of a lane, as metrics and traces show it.

use std::fmt;
use std::sync::Arc;

use sealane_types::Reason;

use crate::context::Context;
use crate::desired::{Direction, SessionKey};
use crate::metrics::labels::{LaneFailureLabels, SessionLabels};
use crate::trace::{self, OpenSpan};

/// A lane that is open; dropping it says that it is over.
pub(crate) struct LaneLife {
    context: Arc<Context>,
    labels: SessionLabels,
    direction: Direction,
    span: OpenSpan,
}

impl fmt::Debug for LaneLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneLife").field("labels", &self.labels).finish_non_exhaustive()
    }
}

impl LaneLife {
    pub(crate) fn begin(context: &Arc<Context>, key: &SessionKey) -> Self {
        let labels = SessionLabels::of(key);
        context.metrics.lanes.opened.get_or_create(&labels).inc();
        context.metrics.lanes.open.get_or_create(&labels).inc();
        let span = context.tracer.open("lane", || {
            let direction = match key.direction {
                Direction::Sending => "sending",
                Direction::Receiving => "receiving",
            };
            vec![trace::session(&key.name), trace::word("sealane.direction", direction)]
        });
        Self { context: Arc::clone(context), labels, direction: key.direction, span }
    }

    /// It ends with an error.
    pub(crate) fn fail(&mut self, reason: Reason) {
        count_failed(&self.context, self.direction, reason);
        self.span.fail(reason);
    }
}

impl Drop for LaneLife {
    fn drop(&mut self) {
        // A session that is long gone has no series any more.
        if let Some(open) = self.context.metrics.lanes.open.get(&self.labels) {
            open.dec();
        }
    }
}

/// A lane did not open, or ended with an error.
pub(crate) fn count_failed(context: &Context, direction: Direction, reason: Reason) {
    context.metrics.lanes.failed.get_or_create(&LaneFailureLabels::new(direction, reason)).inc();
}

//! Spans for an OTLP collector: how connections come about and end, lanes, and configurations. Off unless a collector
//! is configured.
//!
//! A span holds names of Kubernetes objects, reason words and times. It never holds a tensor's name, shape or content,
//! nor a key. Nothing waits for a collector: spans that find no place in the queue are dropped and counted.

mod connection;
mod export;
mod otlp;
mod span;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sealane_types::PodIdentity;
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::connection::{ConnectionTrace, Step};
pub(crate) use self::export::TraceError;
use self::export::{Exporter, QUEUED_MAX, Queued};
use self::span::{Attribute, Kind, Span, SpanId, TraceId, Value};
use crate::config::Traces;
use crate::metrics::Spans;
use crate::metrics::labels::OutcomeLabel;
use crate::session::clock::Clock;

/// Hands spans to the exporter. Clones share its queue; without a collector all of it does nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracer(Option<Arc<Queue>>);

#[derive(Debug)]
struct Queue {
    spans: mpsc::Sender<Queued>,
    clock: Arc<Clock>,
    metrics: Spans,
}

impl Tracer {
    /// Starts exporting to `traces`, if there is one, in the name of `pod`.
    ///
    /// # Errors
    /// [`TraceError`] when the collector's address cannot be used.
    pub(crate) fn start(
        traces: Option<&Traces>,
        pod: &PodIdentity,
        clock: Arc<Clock>,
        metrics: Spans,
    ) -> Result<Self, TraceError> {
        let Some(traces) = traces else { return Ok(Self(None)) };
        let (spans, queued) = mpsc::channel(QUEUED_MAX);
        tokio::spawn(Exporter::new(traces, pod, metrics.clone())?.run(queued));
        Ok(Self(Some(Arc::new(Queue { spans, clock, metrics }))))
    }

    /// The trace of a connection that was dialled for as long as `dialled`, or accepted.
    pub(crate) fn connection(&self, role: &'static str, dialled: Option<Duration>) -> ConnectionTrace {
        ConnectionTrace::begin(self, role, dialled)
    }

    /// A span of its own, from now until it is dropped.
    pub(crate) fn open(&self, name: &'static str, attributes: impl FnOnce() -> Vec<Attribute>) -> OpenSpan {
        OpenSpan(self.0.as_ref().map(|queue| {
            let start = queue.clock.wall();
            let (trace, id) = (TraceId::random(), SpanId::random());
            let attributes = attributes();
            let span = Span {
                trace,
                id,
                parent: None,
                name,
                kind: Kind::Internal,
                start,
                end: start,
                attributes,
                failure: None,
            };
            (self.clone(), span)
        }))
    }

    /// Exports what is queued, for as long as whoever waits for it cares.
    pub(crate) async fn flush(&self) {
        let Some(queue) = &self.0 else { return };
        let (flushed, done) = oneshot::channel();
        if queue.spans.send(Queued::Flush(flushed)).await.is_ok() {
            // An error means that the exporter is gone, and everything with it.
            let _ = done.await;
        }
    }

    fn now(&self) -> Option<SystemTime> {
        self.0.as_ref().map(|queue| queue.clock.wall())
    }

    fn record(&self, span: Span) {
        if let Some(queue) = &self.0
            && queue.spans.try_send(Queued::Span(Box::new(span))).is_err()
        {
            queue.metrics.ended.get_or_create(&OutcomeLabel { outcome: "dropped" }).inc();
        }
    }
}

/// A span that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct OpenSpan(Option<(Tracer, Span)>);

impl OpenSpan {
    /// It did not end well.
    pub(crate) fn fail(&mut self, reason: sealane_types::Reason) {
        if let Some((_, span)) = &mut self.0 {
            span.failure = Some(reason.as_str());
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if let Some((tracer, mut span)) = self.0.take()
            && let Some(now) = tracer.now()
        {
            span.end = now;
            tracer.record(span);
        }
    }
}

/// An attribute with the name of a session.
pub(crate) fn session(name: &sealane_types::SessionName) -> Attribute {
    ("sealane.session", Value::Text(name.to_string()))
}

/// An attribute with a word of this program.
pub(crate) const fn word(key: &'static str, word: &'static str) -> Attribute {
    (key, Value::Word(word))
}

/// An attribute with a number.
pub(crate) fn number(key: &'static str, number: u64) -> Attribute {
    (key, Value::Number(i64::try_from(number).unwrap_or(i64::MAX)))
}

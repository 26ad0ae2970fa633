//! The trace of one connection, which both sidecars write.
//!
//! Nothing about it travels between them: both take the trace's name and the name of the initiator's first span from
//! the handshake hash, which only these two connections have in common. The span that covers the beginning goes out as
//! soon as both sides are verified, or have failed; another one covers the rest of the connection's life.

use std::fmt;
use std::time::{Duration, SystemTime};

use sealane_protocol::connection::{ClosedBy, Introduction};
use sealane_protocol::handshake::Suite;
use sealane_types::Reason;

use super::Tracer;
use super::span::{Attribute, Kind, Span, SpanId, TraceId, Value};

/// A part of a connection's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Dial,
    /// Until keys are shared and confirmed.
    Handshake,
    /// The verification of a policy that the remote handed over.
    Policy,
    /// The quote, with the wait for it.
    Evidence,
    /// The verification of the remote's evidence.
    Verification,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Dial => "dial",
            Self::Handshake => "handshake",
            Self::Policy => "policy",
            Self::Evidence => "evidence",
            Self::Verification => "verification",
        }
    }
}

/// What both sides call it.
#[derive(Debug, Clone, Copy)]
struct Names {
    trace: TraceId,
    /// The initiator's span that covers the beginning.
    first: SpanId,
}

impl Names {
    /// From what both sides derive; a connection that never got that far has a trace of its own.
    fn new(public: Option<[u8; 32]>) -> Self {
        let parts = public.and_then(|public| {
            let (trace, rest) = public.split_first_chunk()?;
            Some(Self { trace: TraceId(*trace), first: SpanId(*rest.first_chunk()?) })
        });
        parts.unwrap_or_else(|| Self { trace: TraceId::random(), first: SpanId::random() })
    }
}

/// A step that is over.
#[derive(Debug)]
struct Part {
    step: Step,
    start: SystemTime,
    end: SystemTime,
    failure: Option<&'static str>,
}

/// Follows one connection. Does nothing without a collector.
pub(crate) struct ConnectionTrace(Option<Box<Inner>>);

struct Inner {
    tracer: Tracer,
    initiator: bool,
    started: SystemTime,
    names: Option<Names>,
    /// Steps that run.
    running: Vec<(Step, SystemTime)>,
    parts: Vec<Part>,
    attributes: Vec<Attribute>,
    /// When both sides were verified, and this side's first span.
    established: Option<(SystemTime, SpanId)>,
}

impl fmt::Debug for ConnectionTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectionTrace").field(&self.0.is_some()).finish()
    }
}

impl ConnectionTrace {
    pub(super) fn begin(tracer: &Tracer, role: &'static str, dialled: Option<Duration>) -> Self {
        Self(tracer.now().map(|now| {
            let started = dialled.and_then(|dialled| now.checked_sub(dialled)).unwrap_or(now);
            let dial = Part { step: Step::Dial, start: started, end: now, failure: None };
            Box::new(Inner {
                tracer: tracer.clone(),
                initiator: role == "initiator",
                started,
                names: None,
                running: vec![(Step::Handshake, now)],
                parts: dialled.map(|_| dial).into_iter().collect(),
                attributes: vec![("sealane.role", Value::Word(role))],
                established: None,
            })
        }))
    }

    /// Keys are shared: what both sides call this connection, and who the remote says it is.
    pub(crate) fn introduced(&mut self, public: Option<[u8; 32]>, remote: &Introduction) {
        let Some(inner) = &mut self.0 else { return };
        inner.names = Some(Names::new(public));
        inner.attributes.extend([
            ("sealane.session", Value::Text(remote.session.to_string())),
            ("sealane.peer", Value::Text(remote.peer.to_string())),
            ("sealane.replica", Value::Text(remote.pod.pod().to_owned())),
        ]);
        self.end(Step::Handshake, None);
    }

    pub(crate) fn start(&mut self, step: Step) {
        let Some(inner) = self.0.as_mut().filter(|inner| inner.established.is_none()) else { return };
        if let Some(now) = inner.tracer.now() {
            inner.running.push((step, now));
        }
    }

    pub(crate) fn end(&mut self, step: Step, failure: Option<Reason>) {
        let Some(inner) = &mut self.0 else { return };
        let Some(index) = inner.running.iter().position(|(running, _)| *running == step) else { return };
        let (_, start) = inner.running.swap_remove(index);
        if let Some(end) = inner.tracer.now() {
            inner.parts.push(Part { step, start, end, failure: failure.map(Reason::as_str) });
        }
    }

    /// Both sides are verified.
    pub(crate) fn established(&mut self, suite: Suite, resumed: bool) {
        let Some(inner) = &mut self.0 else { return };
        let Some(now) = inner.tracer.now() else { return };
        inner.attributes.extend([
            ("sealane.cipher", Value::Word(suite.cipher.as_str())),
            ("sealane.post_quantum", Value::Word(if suite.post_quantum() { "true" } else { "false" })),
            ("sealane.resumed", Value::Word(if resumed { "true" } else { "false" })),
        ]);
        let first = inner.tell_beginning(now, None);
        inner.established = Some((now, first));
    }

    /// The connection is over.
    pub(crate) fn ended(&mut self, by: ClosedBy, reason: Reason) {
        let Some(mut inner) = self.0.take() else { return };
        let Some(now) = inner.tracer.now() else { return };
        inner.attributes.extend([
            ("sealane.closed_by", Value::Word(closed_by(by))),
            ("sealane.reason", Value::Word(reason.as_str())),
        ]);
        let Some((since, first)) = inner.established else {
            inner.tell_beginning(now, Some(reason.as_str()));
            return;
        };
        let names = inner.names();
        let span = Span {
            trace: names.trace,
            id: SpanId::random(),
            parent: Some(first),
            name: "connection",
            kind: Kind::Internal,
            start: since,
            end: now,
            attributes: inner.attributes,
            // What is closed with a reason ended as somebody wanted it; a cut is what nobody asked for.
            failure: (by == ClosedBy::Cut).then_some(reason.as_str()),
        };
        inner.tracer.record(span);
    }
}

impl Inner {
    fn names(&mut self) -> Names {
        *self.names.get_or_insert_with(|| Names::new(None))
    }

    /// The span of the beginning and those of its steps.
    fn tell_beginning(&mut self, end: SystemTime, failure: Option<&'static str>) -> SpanId {
        let names = self.names();
        let (id, parent, name, kind) = if self.initiator {
            (names.first, None, "connect", Kind::Client)
        } else {
            (SpanId::random(), Some(names.first), "accept", Kind::Server)
        };
        let unfinished = self.running.drain(..).map(|(step, start)| Part { step, start, end, failure });
        let parts: Vec<_> = self.parts.drain(..).chain(unfinished).collect();
        for Part { step, start, end, failure } in parts {
            self.tracer.record(Span {
                trace: names.trace,
                id: SpanId::random(),
                parent: Some(id),
                name: step.name(),
                kind: Kind::Internal,
                start,
                end,
                attributes: Vec::new(),
                failure,
            });
        }
        let attributes = self.attributes.clone();
        let (trace, start) = (names.trace, self.started);
        self.tracer.record(Span { trace, id, parent, name, kind, start, end, attributes, failure });
        id
    }
}

const fn closed_by(by: ClosedBy) -> &'static str {
    match by {
        ClosedBy::Local => "local",
        ClosedBy::Remote => "remote",
        ClosedBy::Unauthenticated => "unauthenticated",
        ClosedBy::Cut => "cut",
    }
}

//! What a span is, apart from how it travels.

use std::time::SystemTime;

/// Sixteen bytes that the spans of one trace share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceId(pub(super) [u8; 16]);

/// Eight bytes that name a span within its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanId(pub(super) [u8; 8]);

impl TraceId {
    pub(super) fn random() -> Self {
        Self(random())
    }
}

impl SpanId {
    pub(super) fn random() -> Self {
        Self(random())
    }
}

/// Without random numbers nothing works; a span is not the one to say so.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes
}

/// What a span says about itself.
pub(crate) type Attribute = (&'static str, Value);

/// Values are names of Kubernetes objects, words of this program, and numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Word(&'static str),
    Number(i64),
}

/// Which side of something remote it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal,
    Server,
    Client,
}

/// A span that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    pub(super) attributes: Vec<Attribute>,
    /// A reason word.
    pub(super) failure: Option<&'static str>,
}

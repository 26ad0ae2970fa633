//! OTLP messages, as far as spans need them. The numbers are those of `opentelemetry/proto/trace/v1/trace.proto` and its
//! neighbours; a test reads them back with the types that OpenTelemetry publishes.

use std::time::SystemTime;

use super::span::{Attribute, Kind, Value};

/// The method that takes them.
pub(super) const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

impl Response {
    /// Spans that the collector did not take.
    pub(super) fn rejected(&self) -> u64 {
        self.partial_success.as_ref().map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or(0))
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

/// Who speaks.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

impl Resource {
    pub(super) fn new(attributes: Vec<Attribute>) -> Self {
        Self { attributes: attributes.into_iter().map(KeyValue::from).collect() }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 3")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// `STATUS_CODE_ERROR`.
const ERROR: i32 = 2;

impl Request {
    pub(super) fn new(resource: Resource, spans: Vec<super::span::Span>) -> Self {
        let scope = Scope { name: "sealane".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let spans = spans.into_iter().map(Span::from).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        Self { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] }
    }
}

impl From<super::span::Span> for Span {
    fn from(span: super::span::Span) -> Self {
        let super::span::Span { trace, id, parent, name, kind, start, end, attributes, failure } = span;
        Self {
            trace_id: trace.0.to_vec(),
            span_id: id.0.to_vec(),
            parent_span_id: parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
            name: name.to_owned(),
            kind: match kind {
                Kind::Internal => 1,
                Kind::Server => 2,
                Kind::Client => 3,
            },
            start_time_unix_nano: nanos(start),
            end_time_unix_nano: nanos(end),
            attributes: attributes.into_iter().map(KeyValue::from).collect(),
            status: failure.map(|reason| Status { message: reason.to_owned(), code: ERROR }),
        }
    }
}

impl From<Attribute> for KeyValue {
    fn from((key, value): Attribute) -> Self {
        let value = match value {
            Value::Text(text) => Any::Text(text),
            Value::Word(word) => Any::Text(word.to_owned()),
            Value::Number(number) => Any::Number(number),
        };
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }
}

/// Since 1970; a clock before that reads as 1970.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

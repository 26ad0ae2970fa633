//! Spans, as a collector gets them. What it reads them with is OpenTelemetry's own code, not ours.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use sealane_sidecar::config::Traces;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::support::{Plan, document, signed, tell, until, within};

/// A span and the pod that wrote it.
#[derive(Debug, Clone)]
struct Written {
    pod: String,
    span: Span,
}

impl Written {
    fn attribute(&self, key: &str) -> Option<String> {
        attribute(&self.span.attributes, key)
    }

    /// Of the trace that holds it.
    fn trace(&self) -> Vec<u8> {
        self.span.trace_id.clone()
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

/// Keeps what it gets.
#[derive(Debug, Clone, Default)]
struct Collector(Arc<Mutex<Vec<Written>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let pod = attribute(&resource.resource.unwrap().attributes, "k8s.pod.name").unwrap();
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans.map(|span| Written { pod: pod.clone(), span }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn start() -> (Self, SocketAddr) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let collector = Self::default();
        let service = TraceServiceServer::new(collector.clone());
        let incoming = TcpListenerStream::new(listener);
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        (collector, address)
    }

    fn spans(&self, name: &str) -> Vec<Written> {
        self.0.lock().unwrap().iter().filter(|written| written.span.name == name).cloned().collect()
    }

    async fn first(&self, name: &str) -> Written {
        until(&format!("a span `{name}`"), || !self.spans(name).is_empty()).await;
        self.spans(name).remove(0)
    }
}

fn to(address: SocketAddr) -> Option<Traces> {
    Some(Traces { endpoint: format!("http://{address}"), authorities: None })
}

#[tokio::test]
async fn both_sidecars_write_one_trace_that_nothing_on_the_wire_names() {
    let (collector, address) = Collector::start().await;
    let receiver = Plan { traces: to(address), ..Plan::receiver() }.start();
    let sender_plan = Plan { traces: to(address), ..Plan::sender(&[receiver.address]) };
    let sending = sender_plan.start();
    let (lane, events) = sender(&sending.lanes).await;
    passing_on(events);
    let mut taking = Receiver::open(&receiver.lanes, 1 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(taking.next_taken().await, 0);
    within("the end", lane.close()).await.unwrap();

    let connect = collector.first("connect").await;
    let accept = collector.first("accept").await;
    assert_eq!((connect.pod.as_str(), accept.pod.as_str()), ("embedder-0", "ranker-0"));
    assert_eq!(connect.trace(), accept.trace(), "both sides derive the trace from the handshake");
    assert_eq!(accept.span.parent_span_id, connect.span.span_id);
    assert!(connect.span.parent_span_id.is_empty());
    assert_eq!(connect.attribute("sealane.session").as_deref(), Some("activations"));
    assert_eq!(connect.attribute("sealane.replica").as_deref(), Some("ranker-0"));
    assert_eq!(accept.attribute("sealane.peer").as_deref(), Some("embedder"));
    for side in [&connect, &accept] {
        let of_it = |name: &str| {
            let child = |written: &Written| written.span.parent_span_id == side.span.span_id;
            collector.spans(name).into_iter().find(child)
        };
        for step in ["handshake", "evidence", "verification"] {
            until(step, || of_it(step).is_some()).await;
            let step = of_it(step).unwrap();
            assert_eq!(step.trace(), side.trace());
            assert!(step.span.start_time_unix_nano >= side.span.start_time_unix_nano);
            assert!(step.span.end_time_unix_nano <= side.span.end_time_unix_nano);
            assert_eq!(step.span.status, None);
        }
    }
    let lane = collector.first("lane").await;
    assert_eq!(lane.attribute("sealane.session").as_deref(), Some("activations"));

    sending.drain();
    let ended = collector.first("connection").await;
    assert_eq!(ended.trace(), connect.trace());
    until("the ends of both sides", || collector.spans("connection").len() == 2).await;
    let by: BTreeSet<_> =
        collector.spans("connection").iter().filter_map(|span| span.attribute("sealane.closed_by")).collect();
    assert_eq!(by, ["local".to_owned(), "remote".to_owned()].into());
    let everything = format!("{:?}", collector.0.lock().unwrap());
    assert!(!everything.contains("layer0"), "a tensor's name is in the spans");
}

#[tokio::test]
async fn a_refused_handshake_is_a_span_with_its_reason() {
    let (collector, address) = Collector::start().await;
    let receiver = Plan { traces: to(address), ..Plan::receiver() }.start();
    // Its evidence is that of another Peer.
    let imposter =
        Plan { proves: "ranker", traces: to(address), ..Plan::sender(&[receiver.address]) }.start();
    let connect = collector.first("connect").await;
    let status = connect.span.status.clone().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "HostDataMismatch"));
    let verdict = collector.first("verification").await;
    assert_eq!(verdict.pod, "ranker-0");
    assert_eq!(verdict.span.status.unwrap().message, "HostDataMismatch");
    drop((imposter, receiver));
}

#[tokio::test]
async fn a_collector_that_never_answers_slows_nothing_and_what_it_misses_is_counted() {
    // Accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let away = Some(Traces { endpoint: "http://127.0.0.1:9".to_owned(), authorities: None });
    let receiver = Plan { traces: to(silent.local_addr().unwrap()), ..Plan::receiver() }.start();
    let sending = Plan { traces: away, ..Plan::sender(&[receiver.address]) }.start();
    let (lane, events) = sender(&sending.lanes).await;
    passing_on(events);
    let mut taking = Receiver::open(&receiver.lanes, 1 << 20).await;
    for sequence in 0..20 {
        lane.offer(parcel(sequence, 1000)).await.unwrap();
        assert_eq!(taking.next_taken().await, sequence);
    }
    let failed = |text: &str| text.contains("sealane_trace_spans_total{outcome=\"failed\"}");
    until("a count of spans that nobody took", || failed(&sending.node.render_metrics().unwrap())).await;
    within("the end", lane.close()).await.unwrap();
    // A policy that both follow closes and opens connections; none of it waits for the collector.
    sending.propose(signed(&document(2), &[1, 2]));
    until("the next epoch", || receiver.node.policy_epoch() == Some(2)).await;
    let began = Instant::now();
    within("the end of its drain", sending.drain()).await.unwrap();
    tell(&format!("a drain without a collector: {:?}", began.elapsed()));
}

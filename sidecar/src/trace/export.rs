//! Brings spans to a collector, in batches, by OTLP over gRPC.

use std::time::Duration;

use sealane_types::PodIdentity;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic_prost::ProstCodec;

use super::otlp::{EXPORT, Request, Resource, Response};
use super::span::{Span, Value};
use crate::config::Traces;
use crate::metrics::Spans;
use crate::metrics::labels::OutcomeLabel;

/// Spans that wait for a collector. Those of hundreds of connections that begin at once find a place.
pub(super) const QUEUED_MAX: usize = 4096;
/// Spans of one message.
const BATCH_MAX: usize = 512;
/// How long the first span of a batch waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(2);
/// How long a collector may take.
const EXPORT_DEADLINE: Duration = Duration::from_secs(10);
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// A collector has little to answer.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// The collector's address or certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error(
        "the address or the certificates of the OTLP collector cannot be used; see SEALANE_OTLP_ENDPOINT"
    )]
    Endpoint(#[from] tonic::transport::Error),
}

/// What waits.
#[derive(Debug)]
pub(super) enum Queued {
    Span(Box<Span>),
    /// Answer when everything before it was exported, or could not be.
    Flush(oneshot::Sender<()>),
}

pub(super) struct Exporter {
    channel: Channel,
    resource: Resource,
    metrics: Spans,
    /// Whether the last batch was taken, so that a collector that is away is told of once.
    reached: bool,
}

impl Exporter {
    /// Connects when there is something to say.
    pub(super) fn new(traces: &Traces, pod: &PodIdentity, metrics: Spans) -> Result<Self, TraceError> {
        let mut endpoint = Endpoint::from_shared(traces.endpoint.clone())?.connect_timeout(CONNECT_DEADLINE);
        if let Some(authorities) = &traces.authorities {
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities));
            endpoint = endpoint.tls_config(tls)?;
        }
        let resource = Resource::new(vec![
            ("service.name", Value::Word("sealane-sidecar")),
            ("service.version", Value::Word(env!("CARGO_PKG_VERSION"))),
            ("service.instance.id", Value::Text(pod.uid().to_owned())),
            ("k8s.namespace.name", Value::Text(pod.namespace().to_owned())),
            ("k8s.pod.name", Value::Text(pod.pod().to_owned())),
            ("k8s.pod.uid", Value::Text(pod.uid().to_owned())),
        ]);
        Ok(Self { channel: endpoint.connect_lazy(), resource, metrics, reached: true })
    }

    /// Exports until every tracer is gone.
    pub(super) async fn run(mut self, mut queued: mpsc::Receiver<Queued>) {
        while let Some(first) = queued.recv().await {
            let mut spans = Vec::new();
            let mut flushed = None;
            let fill = async {
                let mut next = Some(first);
                while let Some(one) = next {
                    match one {
                        Queued::Span(span) => spans.push(*span),
                        Queued::Flush(answer) => return flushed = Some(answer),
                    }
                    if spans.len() == BATCH_MAX {
                        return;
                    }
                    next = queued.recv().await;
                }
            };
            // A batch that is not full goes out all the same.
            let _ = timeout(BATCH_WAIT, fill).await;
            if !spans.is_empty() {
                self.export(spans).await;
            }
            if let Some(flushed) = flushed {
                // Whoever asked may not wait any longer.
                let _ = flushed.send(());
            }
        }
    }

    async fn export(&mut self, spans: Vec<Span>) {
        let all = spans.len() as u64;
        let request = Request::new(self.resource.clone(), spans);
        let outcome = timeout(EXPORT_DEADLINE, send(self.channel.clone(), request)).await;
        let (exported, error) = match outcome {
            Ok(Ok(rejected)) => (all.saturating_sub(rejected), None),
            Ok(Err(status)) => (0, Some(status.message().to_owned())),
            Err(_) => (0, Some("it did not answer in time".to_owned())),
        };
        self.count("exported", exported);
        self.count("failed", all.saturating_sub(exported));
        let before = std::mem::replace(&mut self.reached, error.is_none());
        match error {
            Some(error) if before => {
                tracing::warn!(error, "the OTLP collector takes no spans; they are dropped until it does");
            }
            None if !before => tracing::info!("the OTLP collector takes spans again"),
            _ => {}
        }
    }

    fn count(&self, outcome: &'static str, spans: u64) {
        if spans > 0 {
            self.metrics.ended.get_or_create(&OutcomeLabel { outcome }).inc_by(spans);
        }
    }
}

/// Spans that the collector rejected.
async fn send(channel: Channel, request: Request) -> Result<u64, tonic::Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(RESPONSE_BYTES_MAX);
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<Request, Response>::default();
    let path = PathAndQuery::from_static(EXPORT);
    grpc.unary(tonic::Request::new(request), path, codec).await.map(|response| response.get_ref().rejected())
}

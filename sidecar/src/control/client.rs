//! Keeps the stream to the operator open.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sealane_sidecar_api::control as wire;
use sealane_sidecar_api::control::control_client::ControlClient;
use sealane_sidecar_api::control::from_operator::Message as FromOperator;
use sealane_sidecar_api::control::from_sidecar::Message as FromSidecar;
use sealane_sidecar_api::delta::{self, Follower};
use sealane_types::Reason;
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Request, Status, Streaming};

use super::convert;
use super::obstacle::{Causes, Obstacle};
use super::report::conditions;
use super::store::Store;
use crate::config::{Config, Control};
use crate::metrics::{self, labels::OutcomeLabel};
use crate::node::Shared;
use crate::trace;

/// First wait before another attempt.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
/// Longest wait before another attempt.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
/// Changes within this time go out as one report.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// Counters alone go out this often.
const COUNTERS_INTERVAL: Duration = Duration::from_secs(15);
/// How often the operator is asked for a sign of life, and how long it has for it: a node that was cut off says nothing
/// else, and another operator may lead meanwhile.
const PING_INTERVAL: Duration = Duration::from_secs(4);
const PING_TIMEOUT: Duration = Duration::from_secs(4);
/// A projected token is about a kilobyte.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// Largest configuration: thousands of replicas and a policy.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Reports on their way; when the operator takes none, the newest replaces those that wait here.
const OUTGOING_MAX: usize = 4;

/// How the operator is to be reached cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("SEALANE_CONTROL_ADDRESS or SEALANE_CONTROL_CA cannot be used")]
    Endpoint(#[from] tonic::transport::Error),
}

/// Why a stream to the operator ended.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error("the token cannot be read")]
    Token(#[source] std::io::Error),
    #[error("the token is not one")]
    TokenMalformed,
    #[error("the operator cannot be reached")]
    Connect(#[from] tonic::transport::Error),
    #[error("the operator ended the stream")]
    Status(#[from] Box<Status>),
    #[error("the operator refused this sidecar: {message} ({reason})")]
    Refused { reason: String, message: String },
    #[error("the operator closed the stream")]
    Closed,
}

/// The client side of the control channel.
pub(super) struct Client {
    endpoint: Endpoint,
    /// As it was configured, with the name that its certificate has to be for if that is another.
    address: String,
    token: std::path::PathBuf,
    register: wire::Register,
    shared: Arc<Shared>,
    store: Store,
    backoff: Duration,
}

impl Client {
    pub(super) fn new(
        config: &Config,
        control: &Control,
        data_port: u16,
        shared: Arc<Shared>,
        store: Store,
    ) -> Result<Self, ControlError> {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&control.authorities));
        let (tls, address) = match &control.server_name {
            Some(name) => (tls.domain_name(name), format!("{} as {name}", control.address)),
            None => (tls, control.address.clone()),
        };
        let endpoint = Endpoint::from_shared(control.address.clone())?
            .tls_config(tls)?
            .connect_timeout(CONNECT_DEADLINE)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let context = shared.context();
        let register = wire::Register {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            namespace: config.pod.namespace().to_owned(),
            pod: config.pod.pod().to_owned(),
            uid: config.pod.uid().to_owned(),
            node: config.node.clone(),
            addresses: config.addresses.iter().map(ToString::to_string).collect(),
            data_port: data_port.into(),
            static_key: context.static_key.public().to_vec(),
            incarnation: context.process().0.to_vec(),
            features: vec![delta::FEATURE.to_owned()],
        };
        let token = control.token.clone();
        Ok(Self { endpoint, address, token, register, shared, store, backoff: BACKOFF_MIN })
    }

    /// Stays connected for the life of the process.
    pub(super) async fn run(mut self) {
        loop {
            let ended = self.attach().await;
            self.metrics().connected.set(0);
            if let Err(error) = ended {
                self.metrics().streams.get_or_create(&OutcomeLabel { outcome: "ended" }).inc();
                self.tell(&error);
            }
            if self.shared.reporter.is_finished() {
                return;
            }
            tokio::time::sleep(jittered(self.backoff)).await;
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// A person who reads this has nothing else to go by: the address, the step that failed, and every cause.
    fn tell(&self, error: &StreamError) {
        let (address, causes) = (&self.address, Causes(error));
        if matches!(error, StreamError::Connect(_)) {
            let obstacle = Obstacle::of(error);
            tracing::warn!(
                %address,
                error = %causes,
                "no operator at {address} ({obstacle}); sessions go on as configured"
            );
        } else {
            tracing::warn!(%address, error = %causes, "no operator: {error}; sessions go on as configured");
        }
    }

    async fn attach(&mut self) -> Result<(), StreamError> {
        let token = self.bearer()?;
        let channel = self.endpoint.connect().await?;
        let (outgoing, messages) = mpsc::channel(OUTGOING_MAX);
        let register = wire::FromSidecar { message: Some(FromSidecar::Register(self.register.clone())) };
        // The channel is empty, so there is room.
        let _ = outgoing.try_send(register);
        let mut request = Request::new(ReceiverStream::new(messages));
        request.metadata_mut().insert("authorization", token);
        let mut client = ControlClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let stream = client.attach(request).await.map_err(Box::new)?.into_inner();
        self.metrics().connected.set(1);
        self.metrics().streams.get_or_create(&OutcomeLabel { outcome: "attached" }).inc();
        self.exchange(stream, &outgoing).await
    }

    async fn exchange(
        &mut self,
        mut stream: Streaming<wire::FromOperator>,
        outgoing: &mpsc::Sender<wire::FromSidecar>,
    ) -> Result<(), StreamError> {
        let reporter = Arc::clone(&self.shared.reporter);
        let changed = reporter.changed();
        let mut sent = wire::Report::default();
        let mut counters = tokio::time::interval(COUNTERS_INTERVAL);
        let mut due: Option<Pin<Box<Sleep>>> = None;
        // Of this stream: what another one told is no base here.
        let mut follower = Follower::default();
        loop {
            tokio::select! {
                message = stream.message() => match message.map_err(Box::new)? {
                    Some(message) => self.receive(message, &mut follower)?,
                    None => return Err(StreamError::Closed),
                },
                Ok(place) = outgoing.reserve(), if follower.wants_whole() => {
                    place.send(wire::FromSidecar { message: Some(FromSidecar::Resend(wire::Resend {})) });
                    follower.asked();
                }
                () = changed.notified(), if due.is_none() => {
                    let wait = if reporter.is_finished() { Duration::ZERO } else { DEBOUNCE };
                    due = Some(Box::pin(sleep(wait)));
                }
                () = passed(&mut due) => {
                    due = None;
                    let report = reporter.report();
                    if conditions(&report) != conditions(&sent) && send(outgoing, &report) {
                        sent = report;
                    }
                }
                _ = counters.tick() => {
                    let report = reporter.report();
                    if report != sent && send(outgoing, &report) {
                        sent = report;
                    }
                }
            }
        }
    }

    fn receive(&mut self, message: wire::FromOperator, follower: &mut Follower) -> Result<(), StreamError> {
        match message.message {
            Some(FromOperator::Configuration(configuration)) => {
                follower.forget();
                self.configure(configuration);
                Ok(())
            }
            Some(FromOperator::Delta(delta)) => {
                let generation = delta.generation;
                match follower.take(delta) {
                    Ok(Some(configuration)) => self.configure(configuration),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(
                            generation,
                            "a change of the configuration was refused, the one before stays: {error}"
                        );
                        self.count("refused");
                    }
                }
                Ok(())
            }
            Some(FromOperator::Refusal(wire::Refusal { reason, message })) => {
                Err(StreamError::Refused { reason, message })
            }
            // A newer operator may say what this sidecar does not know.
            None => Ok(()),
        }
    }

    /// Follows a configuration if it converts.
    fn configure(&mut self, configuration: wire::Configuration) {
        self.backoff = BACKOFF_MIN;
        let generation = configuration.generation;
        let mut span = self
            .shared
            .context()
            .tracer
            .open("configuration", || vec![trace::number("sealane.generation", generation)]);
        match convert::desired(configuration) {
            Ok(desired) => {
                tracing::info!(generation, sessions = desired.sessions.len(), "configuration received");
                self.store.save(&desired);
                self.shared.apply(desired);
                self.count("applied");
            }
            Err(error) => {
                tracing::error!(generation, "a configuration was refused, the one before stays: {error}");
                self.count("refused");
                span.fail(Reason::FrameMalformed);
            }
        }
    }

    fn metrics(&self) -> &metrics::Control {
        &self.shared.context().metrics.control
    }

    fn count(&self, outcome: &'static str) {
        self.metrics().configurations.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Read again for every stream: the kubelet rotates it.
    fn bearer(&self) -> Result<MetadataValue<Ascii>, StreamError> {
        let length = std::fs::metadata(&self.token).map_err(StreamError::Token)?.len();
        if length > TOKEN_BYTES_MAX {
            return Err(StreamError::TokenMalformed);
        }
        let token = std::fs::read_to_string(&self.token).map_err(StreamError::Token)?;
        let mut value: MetadataValue<Ascii> =
            format!("Bearer {}", token.trim()).parse().map_err(|_| StreamError::TokenMalformed)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Resolves when the debounce is over; never while nothing waits for it.
async fn passed(due: &mut Option<Pin<Box<Sleep>>>) {
    match due {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// False when the operator takes no reports at the moment; the next look sends a newer one.
fn send(outgoing: &mpsc::Sender<wire::FromSidecar>, report: &wire::Report) -> bool {
    outgoing.try_send(wire::FromSidecar { message: Some(FromSidecar::Report(report.clone())) }).is_ok()
}

/// Between half of `wait` and all of it: thousands of sidecars lose one operator at one moment.
fn jittered(wait: Duration) -> Duration {
    let mut byte = [0];
    let _ = aws_lc_rs::rand::fill(&mut byte);
    wait / 2 + wait / 2 * u32::from(byte[0]) / 255
}

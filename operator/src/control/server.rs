//! The gRPC side of the control channel.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use sealane_sidecar_api::control::control_server::{Control, ControlServer};
use sealane_sidecar_api::control::{
    FromOperator, FromSidecar, Refusal, Register, from_operator, from_sidecar,
};
use sealane_types::{PodIdentity, Reason};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, Streaming};

use super::authenticate::{AuthenticationError, Authenticator, Cluster};
use super::listener::{Admission, Listener};
use super::outgoing::{Room, configurations};
use super::registry::{Attachment, Change, Registry};
use super::report::{Registration, bounded};
use crate::causes::Causes;
use crate::limits::{
    CONTROL_HEADER_BYTES_MAX, CONTROL_STREAMS_MAX, CONTROL_WINDOW_BYTES, COUNTERS_PERIOD, DEBOUNCE,
    DETACHED_GRACE, REGISTER_TIME, SIDECAR_MESSAGE_BYTES_MAX,
};
use crate::metrics::{Metrics, Outcome};
use crate::queue::Queue;

/// A sidecar that does not answer pings for this long is gone.
const PING_INTERVAL: Duration = Duration::from_secs(15);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The control service.
#[derive(Debug)]
pub struct Server<C> {
    authenticator: Authenticator<C>,
    registry: Arc<Registry>,
    queue: Arc<Queue>,
    metrics: Arc<Metrics>,
    room: Room,
}

/// Serves sidecars until `stop`; ending every stream is the registry's part.
///
/// # Errors
/// The transport's errors.
pub async fn serve<C: Cluster>(
    listener: Listener,
    server: Server<C>,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let service = ControlServer::new(server).max_decoding_message_size(SIDECAR_MESSAGE_BYTES_MAX);
    tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .http2_max_header_list_size(CONTROL_HEADER_BYTES_MAX)
        .max_concurrent_streams(CONTROL_STREAMS_MAX)
        .initial_stream_window_size(CONTROL_WINDOW_BYTES)
        .initial_connection_window_size(CONTROL_STREAMS_MAX * CONTROL_WINDOW_BYTES)
        .add_service(service)
        .serve_with_incoming_shutdown(listener.into_stream(), stop.cancelled_owned())
        .await
}

impl<C: Cluster> Server<C> {
    #[must_use]
    pub fn new(cluster: C, registry: Arc<Registry>, queue: Arc<Queue>, metrics: Arc<Metrics>) -> Self {
        Self { authenticator: Authenticator::new(cluster), registry, queue, metrics, room: Room::default() }
    }

    /// Authenticates and registers: the beginning of every stream. Tells also whether the sidecar understands changes.
    async fn open(
        &self,
        header: Option<&str>,
        messages: &mut Streaming<FromSidecar>,
    ) -> Result<(PodIdentity, Attachment, bool), Turned> {
        let identity = self.authenticator.authenticate(header).await.map_err(Turned::from)?;
        let register = first_message(messages).await?;
        let registration = Registration::new(register, &identity).map_err(Turned::away)?;
        let deltas = registration.deltas;
        let attachment = self
            .registry
            .attach(identity.clone(), registration)
            .map_err(|error| Turned::Status(Status::unavailable(error.to_string())))?;
        Ok((identity, attachment, deltas))
    }

    /// Reads reports until the stream ends, in a task of its own.
    fn listen(
        &self,
        identity: PodIdentity,
        id: u64,
        ended: CancellationToken,
        admission: Option<Admission>,
        mut messages: Streaming<FromSidecar>,
    ) {
        let (registry, queue, metrics) =
            (Arc::clone(&self.registry), Arc::clone(&self.queue), Arc::clone(&self.metrics));
        tokio::spawn(async move {
            let namespace = identity.namespace();
            loop {
                let message = tokio::select! {
                    () = ended.cancelled() => break,
                    message = messages.message() => message,
                };
                let report = match message {
                    Ok(Some(FromSidecar { message: Some(from_sidecar::Message::Report(report)) })) => report,
                    Ok(Some(FromSidecar { message: Some(from_sidecar::Message::Resend(_)) })) => {
                        registry.resend(identity.uid(), id);
                        continue;
                    }
                    // A newer sidecar may say what this operator does not know.
                    Ok(Some(FromSidecar { message: None })) => continue,
                    Ok(Some(FromSidecar { message: Some(from_sidecar::Message::Register(_)) }) | None) => {
                        break;
                    }
                    Err(status) => {
                        if status.code() == Code::InvalidArgument {
                            let error = status.message();
                            tracing::warn!(pod = %identity, %error, "a sidecar's message was refused");
                        }
                        break;
                    }
                };
                let report = match bounded(report) {
                    Ok(report) => report,
                    Err(error) => {
                        tracing::warn!(pod = %identity, %error, "a sidecar's report was refused");
                        break;
                    }
                };
                if let Some(after) = registry.applied(identity.uid(), id, report.generation) {
                    metrics.applied(after);
                }
                match registry.report(identity.uid(), id, report) {
                    Change::Nothing => {}
                    Change::Counters => queue.request(namespace, COUNTERS_PERIOD),
                    Change::State => queue.request(namespace, DEBOUNCE),
                }
            }
            registry.detach(identity.uid(), id);
            metrics.attached(registry.attached());
            queue.request(namespace, DEBOUNCE);
            queue.request(namespace, DETACHED_GRACE + DEBOUNCE);
            tracing::info!(pod = %identity, "a sidecar's control stream ended");
            if let Some(admission) = admission {
                admission.over().await;
            }
        });
    }
}

/// How a caller is turned away before its stream is open.
enum Turned {
    /// With a message that the sidecar shows, because trying again changes nothing.
    Refusal(Refusal),
    Status(Status),
}

impl Turned {
    fn away(error: impl std::error::Error) -> Self {
        Self::Refusal(Refusal {
            reason: Reason::FrameMalformed.as_str().to_owned(),
            message: error.to_string(),
        })
    }
}

impl From<AuthenticationError> for Turned {
    fn from(error: AuthenticationError) -> Self {
        Self::Status(match &error {
            AuthenticationError::NoToken | AuthenticationError::Token(_) => {
                Status::unauthenticated(error.to_string())
            }
            AuthenticationError::PodGone(_) => Status::permission_denied(error.to_string()),
            AuthenticationError::Unavailable(source) => {
                tracing::warn!(error = %Causes(source), "cannot authenticate a sidecar");
                Status::unavailable(error.to_string())
            }
        })
    }
}

async fn first_message(messages: &mut Streaming<FromSidecar>) -> Result<Register, Turned> {
    let late = || Turned::Status(Status::deadline_exceeded("no registration in time"));
    let first = tokio::time::timeout(REGISTER_TIME, messages.message()).await.map_err(|_| late())?;
    match first.map_err(Turned::Status)? {
        Some(FromSidecar { message: Some(from_sidecar::Message::Register(register)) }) => Ok(register),
        Some(_) | None => Err(Turned::Status(Status::invalid_argument("the first message must be Register"))),
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<FromOperator, Status>> + Send>>;

fn refused(refusal: Refusal) -> Answers {
    let message = FromOperator { message: Some(from_operator::Message::Refusal(refusal)) };
    Box::pin(futures::stream::once(async { Ok(message) }))
}

#[tonic::async_trait]
impl<C: Cluster> Control for Server<C> {
    type AttachStream = Answers;

    async fn attach(&self, request: Request<Streaming<FromSidecar>>) -> Result<Response<Answers>, Status> {
        let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let header = header.map(str::to_owned);
        let admission = request.extensions().get::<Admission>().cloned();
        let mut messages = request.into_inner();
        let (identity, attachment, deltas) = match self.open(header.as_deref(), &mut messages).await {
            Ok(opened) => opened,
            Err(turned) => {
                self.metrics.registered(Outcome::Failure);
                return match turned {
                    Turned::Status(status) => Err(status),
                    Turned::Refusal(refusal) => {
                        tracing::warn!(message = refusal.message, "a sidecar was refused");
                        Ok(Response::new(refused(refusal)))
                    }
                };
            }
        };
        if let Some(admission) = &admission {
            admission.registered();
        }
        self.metrics.registered(Outcome::Success);
        self.metrics.attached(self.registry.attached());
        tracing::info!(pod = %identity, "a sidecar attached");
        self.queue.request(identity.namespace(), DEBOUNCE);
        let Attachment { id, outgoing, ended } = attachment;
        self.listen(identity, id, ended, admission, messages);
        Ok(Response::new(Box::pin(configurations(outgoing, self.room.clone(), deltas))))
    }
}

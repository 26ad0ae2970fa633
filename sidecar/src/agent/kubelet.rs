//! The kubelet of this node, asked which pods it was told to run.
//!
//! By `GET /pods` with the agent's own token, for which `get` on `nodes/pods` suffices (Kubernetes 1.33,
//! KubeletFineGrainedAuthz): `nodes/proxy` would let the agent run commands in every pod. Many callers share one question
//! and, for a moment, its answer.

pub(super) mod pod;
mod verifier;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::volume;
use pod::{Pod, PodList};

/// A pod has 10 to 60 KiB there, and a node a few hundred pods.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// An answer serves everybody who asks within this time of the question.
const FRESH: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(4);
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// The kubelet gave no list.
#[derive(Debug, thiserror::Error)]
pub(super) enum KubeletError {
    #[error("the agent's token cannot be read")]
    Token(#[source] io::Error),
    #[error("the kubelet cannot be reached")]
    Connect(#[source] io::Error),
    #[error("the kubelet did not answer as HTTP")]
    Http(#[source] hyper::Error),
    #[error("the kubelet's answer cannot be taken; it is larger than 32 MiB, or was cut")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(
        "the kubelet refuses the agent ({0}): its ServiceAccount needs `get` on nodes/pods, and Kubernetes has to be 1.33 or newer"
    )]
    Forbidden(StatusCode),
    #[error("the kubelet answered {0}")]
    Status(StatusCode),
    #[error("the kubelet's list of pods cannot be read")]
    Json(#[source] serde_json::Error),
    #[error("the kubelet did not answer in time")]
    TimedOut,
    #[error(
        "the kubelet's address {0} is not loopback: give its authority, or whoever answers there is believed"
    )]
    Unverified(SocketAddr),
    #[error("the kubelet's authority cannot be used")]
    Authority(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Who knows the pods of this node.
pub(super) trait ListPods: Send + Sync + fmt::Debug {
    /// The pods, as the kubelet has them.
    fn pods(&self) -> BoxFuture<'_, Result<Arc<Vec<Pod>>, KubeletError>>;
}

/// Where the kubelet serves, and how it is known.
#[derive(Debug, Clone)]
pub(super) struct KubeletAddress {
    pub(super) address: SocketAddr,
    /// PEM of the authority that signed the kubelet's serving certificate, and the name in that certificate. Without
    /// them the address has to be loopback: what answers on this node's own port is inside the TEE.
    pub(super) authority: Option<(String, ServerName<'static>)>,
    pub(super) token: PathBuf,
}

/// The kubelet over HTTPS.
pub(super) struct Kubelet {
    at: KubeletAddress,
    name: ServerName<'static>,
    connector: TlsConnector,
    /// Of an answer; [`ANSWER_BYTES_MAX`] but in tests.
    bytes_max: usize,
    /// How long an answer serves everybody; [`FRESH`] but in tests.
    fresh: Duration,
    /// How long the kubelet may take; [`DEADLINE`] but in tests.
    deadline: Duration,
    last: Mutex<Option<(Instant, Arc<Vec<Pod>>)>>,
}

impl Kubelet {
    /// # Errors
    /// [`KubeletError`] when the authority cannot be used, or is missing for another address than loopback.
    pub(super) fn new(at: KubeletAddress) -> Result<Self, KubeletError> {
        let (config, name) = verifier::config(&at)?;
        let connector = TlsConnector::from(Arc::new(config));
        let (bytes_max, fresh, deadline) = (ANSWER_BYTES_MAX, FRESH, DEADLINE);
        Ok(Self { at, name, connector, bytes_max, fresh, deadline, last: Mutex::new(None) })
    }

    async fn list(&self) -> Result<Vec<Pod>, KubeletError> {
        let bytes =
            tokio::time::timeout(self.deadline, self.get()).await.map_err(|_| KubeletError::TimedOut)??;
        let list: PodList = serde_json::from_slice(&bytes).map_err(KubeletError::Json)?;
        Ok(list.items.unwrap_or_default())
    }

    async fn get(&self) -> Result<Vec<u8>, KubeletError> {
        // Read each time: the kubelet renews it.
        let token = volume::read(&resolved(&self.at.token)?, TOKEN_BYTES_MAX).map_err(KubeletError::Token)?;
        let token =
            String::from_utf8(token).map_err(|_| KubeletError::Token(io::ErrorKind::InvalidData.into()))?;
        let request = Request::get("/pods")
            .header(HOST, self.at.address.to_string())
            .header(AUTHORIZATION, format!("Bearer {}", token.trim()))
            .body(Empty::<bytes::Bytes>::new())
            .map_err(|error| KubeletError::Token(io::Error::other(error)))?;
        let stream = TcpStream::connect(self.at.address).await.map_err(KubeletError::Connect)?;
        let stream =
            self.connector.connect(self.name.clone(), stream).await.map_err(KubeletError::Connect)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(KubeletError::Http)?;
        let connection = tokio::spawn(connection);
        let answer = async {
            let response = sender.send_request(request).await.map_err(KubeletError::Http)?;
            match response.status() {
                StatusCode::OK => {}
                status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    return Err(KubeletError::Forbidden(status));
                }
                status => return Err(KubeletError::Status(status)),
            }
            let body = Limited::new(response.into_body(), self.bytes_max).collect().await;
            Ok(body.map_err(KubeletError::Body)?.to_bytes().to_vec())
        }
        .await;
        connection.abort();
        answer
    }
}

/// Projected tokens are links to links, which are followed here and nowhere else.
fn resolved(path: &std::path::Path) -> Result<PathBuf, KubeletError> {
    path.canonicalize().map_err(KubeletError::Token)
}

impl ListPods for Kubelet {
    fn pods(&self) -> BoxFuture<'_, Result<Arc<Vec<Pod>>, KubeletError>> {
        async {
            // Whoever comes while the kubelet is asked waits here, and then finds the answer.
            let mut last = self.last.lock().await;
            if let Some((asked, pods)) = last.as_ref().filter(|(asked, _)| asked.elapsed() < self.fresh) {
                tracing::trace!(age = ?asked.elapsed(), "the kubelet's last answer");
                return Ok(Arc::clone(pods));
            }
            let asked = Instant::now();
            let pods = Arc::new(self.list().await?);
            *last = Some((asked, Arc::clone(&pods)));
            Ok(pods)
        }
        .boxed()
    }
}

impl fmt::Debug for Kubelet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubelet").field("address", &self.at.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

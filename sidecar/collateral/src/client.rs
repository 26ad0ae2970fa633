//! One question over HTTP/1.1: bounded in time and size, without redirections, on a connection of its own. Questions are
//! minutes apart, so that there is nothing to keep open.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::Address;
use crate::answer::Answer;
use crate::error::{FetchError, SourceError};
use crate::service::Request;
use crate::{pace, tls};

/// From the first packet to the last byte of the answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// TCB info has 20 KiB, the longest revocation lists some hundred.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// A chain of certificates in a header has 4 KiB.
const HEADER_BYTES_MAX: usize = 32 * 1024;

pub(crate) struct Client {
    tls: Option<Arc<ClientConfig>>,
}

impl Client {
    pub(crate) fn new(secure: bool, authorities: Option<&str>) -> Result<Self, SourceError> {
        Ok(Self { tls: secure.then(|| tls::config(authorities)).transpose()? })
    }

    pub(crate) async fn get(&self, address: &Address, request: &Request) -> Result<Answer, FetchError> {
        let late = || FetchError::TimedOut { host: address.authority() };
        tokio::time::timeout(DEADLINE, self.answer(address, request)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn answer(&self, address: &Address, request: &Request) -> Result<Answer, FetchError> {
        let unreachable = |source| FetchError::Unreachable { host: address.authority(), source };
        let stream = TcpStream::connect((address.host(), address.port())).await.map_err(unreachable)?;
        match &self.tls {
            Some(config) if address.is_secure() => {
                let broken = |_| FetchError::Broken { host: address.authority() };
                let name = ServerName::try_from(address.host().to_owned()).map_err(broken)?;
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name, stream).await.map_err(unreachable)?;
                over(stream, address, request).await
            }
            _ => over(stream, address, request).await,
        }
    }
}

async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    address: &Address,
    request: &Request,
) -> Result<Answer, FetchError> {
    let host = address.authority();
    let broken = || FetchError::Broken { host: host.clone() };
    let handshake =
        http1::Builder::new().max_buf_size(HEADER_BYTES_MAX).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_| broken())?;
    let connection = Ending(tokio::spawn(async move {
        // What goes wrong with it is what the sender says.
        let _ = connection.await;
    }));
    let mut question = hyper::Request::get(address.path(&request.path))
        .header(HOST, &host)
        .header(USER_AGENT, concat!("sealane/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "*/*")
        .header(CONNECTION, "close");
    if let Some((name, value)) = request.headers {
        question = question.header(name, value);
    }
    let question = question.body(Empty::<Bytes>::new()).map_err(|_| broken())?;
    let response = sender.send_request(question).await.map_err(|_| broken())?;
    check_status(&response, &host)?;
    let header = request.header.and_then(|name| response.headers().get(name));
    let header = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => FetchError::TooLarge { host: host.clone() },
        None => broken(),
    })?;
    drop(connection);
    Ok(Answer { body: body.to_bytes().to_vec(), header })
}

fn check_status(response: &Response<Incoming>, host: &str) -> Result<(), FetchError> {
    let (status, host) = (response.status(), host.to_owned());
    if status == StatusCode::OK {
        return Ok(());
    }
    if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        return Err(FetchError::Throttled { host, retry_after: Some(pace::retry_after(header)) });
    }
    if status.is_redirection() {
        return Err(FetchError::Redirected { host });
    }
    Err(FetchError::Status { host, status: status.as_u16() })
}

/// A connection's task, which ends with whoever waits for its answer.
struct Ending(tokio::task::JoinHandle<()>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

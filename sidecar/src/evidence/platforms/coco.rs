//! The attestation agent of Confidential Containers, inside the pod's own confidential VM: its REST service on
//! loopback, which the guest offers when started with `agent.guest_components_rest_api=all`.
//!
//! It is asked for evidence only, by report data that the sidecar composed. What it answers is turned back into the
//! platform's own bytes, and those are all that peers ever see.

mod answer;

use std::io;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::{BoxFuture, FutureExt};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use sealane_attestation::Format;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::report;
use crate::evidence::provider::{Provider, ProviderError, Quote, QuoteRequest};

/// Where the agent listens, in every guest image.
pub(super) const AGENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8006);
/// A report as JSON lists, with its certificates and an event log.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct CocoAgent {
    agent: SocketAddr,
    format: OnceCell<Format>,
}

impl CocoAgent {
    pub(super) const fn new(agent: SocketAddr) -> Self {
        Self { agent, format: OnceCell::const_new() }
    }

    /// The agent does not say what it runs on: evidence about nothing tells.
    async fn known(&self) -> Result<Format, ProviderError> {
        let asked = || async { Ok(self.ask(&[0; 64]).await?.0) };
        self.format.get_or_try_init(asked).await.copied()
    }

    async fn ask(&self, report_data: &[u8; 64]) -> Result<(Format, Quote), ProviderError> {
        // Older agents take `runtime_data` as text unless they are told that it is not; those that do not know the
        // word answer with evidence of the text, which is found out below.
        let data = URL_SAFE_NO_PAD.encode(report_data);
        let body = self.get(&format!("/aa/evidence?runtime_data={data}&encoding=base64")).await?;
        let (format, quote) = answer::read(&body)?;
        report::carries(format, &quote.report, report_data)?;
        Ok((format, quote))
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>, ProviderError> {
        let stream = TcpStream::connect(self.agent).await.map_err(failed)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(io::Error::other(error)))?;
        // Ends when the sender is dropped.
        let connection = tokio::spawn(connection);
        let request =
            Request::get(path).header(HOST, self.agent.to_string()).body(Empty::<bytes::Bytes>::new());
        let request = request.map_err(|error| failed(io::Error::other(error)))?;
        let answer = async {
            let response =
                sender.send_request(request).await.map_err(|error| failed(io::Error::other(error)))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| failed(io::Error::other(error)))?.to_bytes();
            if status == StatusCode::OK { Ok(body.to_vec()) } else { Err(refused(status, &body)) }
        }
        .await;
        connection.abort();
        answer
    }
}

impl Provider for CocoAgent {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        self.known().boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        async move {
            let known = self.known().await?;
            let (format, quote) = self.ask(&request.report_data).await?;
            if format != known {
                return Err(ProviderError::Malformed("the CoCo agent changed its platform"));
            }
            Ok(quote)
        }
        .boxed()
    }
}

fn failed(source: io::Error) -> ProviderError {
    ProviderError::Device {
        what: "the CoCo agent (its guest needs agent.guest_components_rest_api=all)",
        source,
    }
}

fn refused(status: StatusCode, body: &[u8]) -> ProviderError {
    let words: String =
        String::from_utf8_lossy(body).chars().filter(|letter| !letter.is_control()).take(200).collect();
    ProviderError::Refused(Box::new(io::Error::other(format!("{status}: {words}"))))
}

#[cfg(test)]
mod tests;

//! `sealane-operator probe`: asks services from inside the cluster, for `helm test`.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For one target, connection and answer together.
const PATIENCE: Duration = Duration::from_secs(10);
/// A status line is shorter.
const ANSWER_BYTES_MAX: u64 = 4096;

/// Ask services of the release whether they answer.
#[derive(Debug, Parser)]
#[command(name = "sealane-operator probe", bin_name = "sealane-operator probe")]
pub struct Probe {
    /// HOST:PORT accepts connections; HOST:PORT/PATH answers 200 over HTTP.
    #[arg(required = true)]
    targets: Vec<String>,
}

impl Probe {
    /// Asks every target.
    ///
    /// # Errors
    /// The first target that does not answer as it should.
    pub async fn run(self) -> Result<()> {
        for target in &self.targets {
            timeout(PATIENCE, ask(target))
                .await
                .unwrap_or_else(|_| bail!("no answer within {PATIENCE:?}"))
                .with_context(|| target.clone())?;
            tracing::info!(target, "answers");
        }
        Ok(())
    }
}

async fn ask(target: &str) -> Result<()> {
    let (address, path) = match target.split_once('/') {
        Some((address, path)) => (address, Some(path)),
        None => (target, None),
    };
    let mut stream = TcpStream::connect(address).await.context("cannot connect")?;
    let Some(path) = path else { return Ok(()) };
    let host = address.split(':').next().unwrap_or(address);
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.context("cannot ask")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.context("no answer")?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.lines().next().unwrap_or_default();
    ensure!(status.split(' ').nth(1) == Some("200"), "answered `{status}`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn serve(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 256];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    #[tokio::test]
    async fn only_200_is_an_answer() {
        let well = serve("HTTP/1.0 200 OK\r\n\r\nready").await;
        let ill = serve("HTTP/1.0 503 Service Unavailable\r\n\r\n").await;
        Probe { targets: vec![well.clone(), format!("{well}/readyz")] }.run().await.unwrap();
        let refused = Probe { targets: vec![format!("{ill}/readyz")] }.run().await.unwrap_err();
        assert!(format!("{refused:#}").contains("503"), "{refused:#}");
    }
}

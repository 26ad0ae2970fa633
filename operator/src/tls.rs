//! TLS listening: handshakes run beside each other, bounded in number and time, so that a slow client holds up
//! nobody.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::limits::{HANDSHAKE_TIME, HANDSHAKES_MAX};

/// Established connections waiting to be served.
const BACKLOG: usize = 64;
/// Pause after an accept error such as too many open files.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// Connections whose handshake is done, in order of completion.
#[derive(Debug)]
pub struct TlsListener {
    address: SocketAddr,
    established: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    accepting: tokio::task::JoinHandle<()>,
}

impl TlsListener {
    /// # Errors
    /// The address cannot be bound.
    pub async fn bind(address: SocketAddr, config: Arc<ServerConfig>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (sender, established) = mpsc::channel(BACKLOG);
        let accepting = tokio::spawn(accept(listener, TlsAcceptor::from(config), sender));
        Ok(Self { address, established, accepting })
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection; `None` when accepting has ended.
    pub async fn next(&mut self) -> Option<(TlsStream<TcpStream>, SocketAddr)> {
        self.established.recv().await
    }

    /// The connections as a stream, for tonic.
    pub fn into_stream(self) -> impl futures::Stream<Item = std::io::Result<TlsStream<TcpStream>>> {
        futures::stream::unfold(self, |mut listener| async move {
            let (stream, _) = listener.next().await?;
            Some((Ok(stream), listener))
        })
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.next().await {
            Some(connection) => connection,
            // Only when the runtime shuts down; the server is dropped with it.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.address)
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    established: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (acceptor, established) = (acceptor.clone(), established.clone());
        tokio::spawn(async move {
            // Small messages both ways: waiting to fill packets only adds latency.
            let _ = stream.set_nodelay(true);
            match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    drop(permit);
                    // The receiver is gone only when serving has ended.
                    let _ = established.send((stream, peer)).await;
                }
                Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
            }
        });
    }
}

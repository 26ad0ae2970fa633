//! TLS with the certificate that the operator keeps, on the server's side.

use std::sync::Arc;

use rustls::ServerConfig;
use sealane_http::Secure;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Takes a connection through its handshake.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    #[must_use]
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self(TlsAcceptor::from(config))
    }
}

impl Secure for Tls {
    type Io = TlsStream<TcpStream>;

    async fn secure(&self, stream: TcpStream) -> std::io::Result<Self::Io> {
        self.0.accept(stream).await
    }
}

//! QUIC as a program gets it from quinn: TLS 1.3 with AES-256-GCM over UDP, one stream. Messages stand one behind the other
//! with nothing between them: both ends know how long they are.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, RecvStream, SendStream,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use tokio_rustls::rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use tokio_rustls::rustls::quic::Suite;

use super::tls::{SERVER, SharedTls};
use crate::carrier::Plug;
use crate::message::Inbox;
use crate::wire::{Side, Start, Wire};

/// Bytes in flight: more than any path here holds.
const WINDOW_BYTES: u32 = 8 << 20;
/// What Ethernet carries under IPv4.
const DATAGRAM_BYTES_MAX: u16 = 1_472;

#[derive(Debug, Clone)]
pub(crate) struct Quic {
    shared: SharedTls,
    /// Whether the kernel cuts datagrams.
    segmented: bool,
}

impl Quic {
    /// With the certificate and key that were shared.
    pub(crate) const fn new(shared: SharedTls) -> Self {
        Self { shared, segmented: true }
    }

    /// A system call for each datagram that is sent.
    pub(crate) fn unsegmented(self) -> Self {
        Self { segmented: false, ..self }
    }
}

/// One end of the stream.
pub(crate) struct Stream {
    send: SendStream,
    receive: RecvStream,
    /// They close when they are dropped.
    _connection: Connection,
    _endpoint: Endpoint,
}

impl Start for Quic {
    type Wire = Stream;
    /// It moves its packets in a task of its own, also while this end waits for orders.
    const BACKGROUND: bool = true;

    async fn start(&self, plug: Plug, side: Side) -> Result<Stream> {
        let Plug::Udp { socket, remote } = plug else { bail!("QUIC needs a UDP socket") };
        match side {
            Side::Dialler => dial(self, socket, remote).await,
            Side::Accepter => accept(self, socket).await,
        }
    }
}

/// The suite that a QUIC connection begins with, whatever it agrees on then (RFC 9001, section 5.2).
fn initial() -> Result<Suite> {
    TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite()).context("AES-128-GCM for QUIC")
}

fn transport(segmented: bool) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(WINDOW_BYTES.into())
        .enable_segmentation_offload(segmented)
        // Other contenders have their turn meanwhile.
        .max_idle_timeout(None);
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(DATAGRAM_BYTES_MAX);
    transport.mtu_discovery_config(Some(discovery));
    Arc::new(transport)
}

async fn dial(quic: &Quic, socket: UdpSocket, remote: SocketAddr) -> Result<Stream> {
    let crypto = QuicClientConfig::with_initial(Arc::new(quic.shared.client()?), initial()?)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport(quic.segmented));
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
    let connection = endpoint.connect_with(config, remote, SERVER)?.await?;
    let (mut send, receive) = connection.open_bi().await?;
    // The other end learns of a stream by what comes on it.
    send.write_all(&[0]).await?;
    Ok(Stream { send, receive, _connection: connection, _endpoint: endpoint })
}

async fn accept(quic: &Quic, socket: UdpSocket) -> Result<Stream> {
    let crypto = QuicServerConfig::with_initial(Arc::new(quic.shared.server()?), initial()?)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport(quic.segmented));
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))?;
    let connection = endpoint.accept().await.context("the socket is closed")?.await?;
    let (send, mut receive) = connection.accept_bi().await?;
    receive.read_exact(&mut [0]).await?;
    Ok(Stream { send, receive, _connection: connection, _endpoint: endpoint })
}

impl Wire for Stream {
    async fn put(&mut self, message: &Bytes) -> Result<()> {
        // As a chunk, which it keeps instead of a copy.
        Ok(self.send.write_chunk(message.clone()).await?)
    }

    /// Its own task sends what was put.
    async fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    async fn take(&mut self, inbox: &mut Inbox, count: u64) -> Result<()> {
        while inbox.count() < count {
            let mut filled = 0;
            while !inbox.space(filled).is_empty() {
                let read = self.receive.read(inbox.space(filled)).await?;
                filled += read.context("the other end is gone")?;
            }
            inbox.finish();
        }
        Ok(())
    }

    async fn echo(&mut self, inbox: &mut Inbox) -> Result<()> {
        self.take(inbox, inbox.count() + 1).await?;
        Ok(self.send.write_all(inbox.last()).await?)
    }
}

//! Connections of sidecars: one has a place and a time until its sidecar is registered, and then neither.
//!
//! Twenty thousand sidecars stay connected, so what is bounded is whoever has not shown yet which pod it is.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ServerConfig;
use sealane_http::{Place, Places, Refused, Secure as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use crate::limits::{HANDSHAKE_TIME, UNREGISTERED, UNREGISTERED_TIME};
use crate::tls::Tls;

/// Established connections waiting to be served.
const BACKLOG: usize = 64;
/// Pause after an accept error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// See the module's documentation.
#[derive(Debug)]
pub struct Listener {
    established: mpsc::Receiver<Connection>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Listener {
    /// Takes the connections of `listener`.
    #[must_use]
    pub fn new(listener: TcpListener, config: Arc<ServerConfig>) -> Self {
        let (sender, established) = mpsc::channel(BACKLOG);
        let accepting = tokio::spawn(accept(listener, Tls::new(config), sender));
        Self { established, accepting }
    }

    /// Connections whose handshake is done, in order of completion.
    pub(super) fn into_stream(self) -> impl futures::Stream<Item = io::Result<Connection>> {
        futures::stream::unfold(self, |mut listener| async move {
            let connection = listener.established.recv().await?;
            Some((Ok(connection), listener))
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, tls: Tls, established: mpsc::Sender<Connection>) {
    let places = Places::new(UNREGISTERED);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let place = match places.admit(peer.ip(), 1) {
            Ok(place) => place,
            // No address has many: a new leader meets all sidecars at once, and the rest of them waits in the kernel.
            Err(Refused::Full) if places.taken_by(peer.ip()) == 0 => places.admitted(peer.ip(), 1).await,
            Err(refused) => {
                tracing::debug!(%peer, ?refused, "one connection too many");
                continue;
            }
        };
        // Small messages both ways: waiting to fill packets only adds latency.
        let _ = stream.set_nodelay(true);
        let (tls, established) = (tls.clone(), established.clone());
        tokio::spawn(async move {
            let admission = Admission::default();
            let serving = serve(stream, &tls, &established, &admission);
            if let Err(error) = unregistered(serving, place, &admission).await {
                tracing::debug!(%peer, %error, "a connection ended before its sidecar was registered");
            }
        });
    }
}

/// Takes a connection through its handshake and hands it on.
async fn serve(
    stream: TcpStream,
    tls: &Tls,
    established: &mpsc::Sender<Connection>,
    admission: &Admission,
) -> io::Result<()> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no handshake in time");
    let stream = timeout(HANDSHAKE_TIME, tls.secure(stream)).await.map_err(late)??;
    // The receiver is gone only when serving has ended.
    let _ = established.send(Connection::new(stream, admission.clone())).await;
    Ok(())
}

/// Holds the place of a connection until it is registered or over, and ends it when that takes too long.
async fn unregistered(
    serving: impl Future<Output = io::Result<()>>,
    place: Place,
    admission: &Admission,
) -> io::Result<()> {
    let due = Instant::now() + UNREGISTERED_TIME;
    let settled = async {
        serving.await?;
        tokio::select! {
            () = admission.registered.cancelled() => {}
            () = admission.over.cancelled() => {}
        }
        Ok(())
    };
    let ended = tokio::select! {
        settled = settled => return settled,
        () = sleep_until(due) => "it took too long",
        () = place.evicted() => "its address had most of them",
    };
    admission.over.cancel();
    Err(io::Error::new(io::ErrorKind::TimedOut, ended))
}

/// What a connection may: the request extension of its streams.
#[derive(Debug, Clone, Default)]
pub(super) struct Admission {
    registered: CancellationToken,
    over: CancellationToken,
}

impl Admission {
    /// Its sidecar is registered: the connection may stay.
    pub(super) fn registered(&self) {
        self.registered.cancel();
    }

    /// Its sidecar's stream is over: the connection may say so, and not stay for long.
    pub(super) async fn over(&self) {
        tokio::select! {
            () = tokio::time::sleep(UNREGISTERED_TIME) => self.over.cancel(),
            () = self.over.cancelled() => {}
        }
    }
}

/// The bytes of a connection, as long as it may go on.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    admission: Admission,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    _ended: DropGuard,
}

impl Connection {
    fn new(stream: TlsStream<TcpStream>, admission: Admission) -> Self {
        let over = Box::pin(admission.over.clone().cancelled_owned());
        let ended = admission.over.clone().drop_guard();
        Self { stream, admission, over, _ended: ended }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TlsStream<TcpStream>> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl Connected for Connection {
    type ConnectInfo = Admission;

    fn connect_info(&self) -> Admission {
        self.admission.clone()
    }
}

impl AsyncRead for Connection {
    /// HTTP/2 always reads, so the end is noticed here.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;

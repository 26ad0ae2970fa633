//! TCP connections that break.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::support::{loopback, within};

/// A path between sidecars that can break.
pub(crate) struct Path {
    pub(crate) address: SocketAddr,
    links: Arc<Mutex<Vec<JoinHandle<()>>>>,
    silence: Arc<Notify>,
    accepting: JoinHandle<()>,
}

impl Path {
    pub(crate) async fn to(target: SocketAddr) -> Self {
        Self::from(TcpListener::bind(loopback()).await.unwrap(), target)
    }

    /// A path whose port is that of a UDP socket, too, which carries nothing by itself.
    pub(crate) async fn beside_udp(target: SocketAddr) -> (Self, UdpSocket) {
        within("a port of both kinds", async {
            loop {
                let socket = UdpSocket::bind(loopback()).await.unwrap();
                // Whoever dials may have been given the port of that number.
                if let Ok(listener) = TcpListener::bind(socket.local_addr().unwrap()).await {
                    return (Self::from(listener, target), socket);
                }
            }
        })
        .await
    }

    fn from(listener: TcpListener, target: SocketAddr) -> Self {
        let address = listener.local_addr().unwrap();
        let links = Arc::new(Mutex::new(Vec::new()));
        let (made, silence) = (Arc::clone(&links), Arc::new(Notify::new()));
        let silent = Arc::clone(&silence);
        let accepting = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let silent = Arc::clone(&silent);
                let link = tokio::spawn(async move {
                    let silent = silent.notified();
                    let Ok(mut far) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        // Either side may be gone, which ends the link.
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        () = silent => std::future::pending().await,
                    }
                });
                made.lock().unwrap().push(link);
            }
        });
        Self { address, links, silence, accepting }
    }

    /// Carries nothing more over the links that there are, and closes none; new ones can be made.
    pub(crate) fn fall_silent(&self) {
        self.silence.notify_waiters();
    }

    /// Breaks every link but the first; new ones can be made.
    pub(crate) fn cut_others(&self) {
        self.links.lock().unwrap().drain(1..).for_each(|link| link.abort());
    }

    /// Breaks every link; new ones can be made.
    pub(crate) fn cut(&self) {
        self.links.lock().unwrap().drain(..).for_each(|link| link.abort());
    }
}

/// One link whose receiver is heard at any time, while what the sender says can be left lying.
pub(crate) struct OneWay {
    pub(crate) address: SocketAddr,
    held: Arc<Notify>,
    link: JoinHandle<()>,
}

impl OneWay {
    pub(crate) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let held = Arc::new(Notify::new());
        let hold = Arc::clone(&held);
        let link = tokio::spawn(async move {
            let (near, _) = listener.accept().await.unwrap();
            let far = TcpStream::connect(target).await.unwrap();
            let (mut near_read, mut near_write) = near.into_split();
            let (mut far_read, mut far_write) = far.into_split();
            let there = async {
                tokio::select! {
                    () = hold.notified() => {}
                    _ = tokio::io::copy(&mut near_read, &mut far_write) => {}
                }
                // Neither side is told of the other's end.
                std::future::pending::<()>().await;
            };
            let back = async {
                let _ = tokio::io::copy(&mut far_read, &mut near_write).await;
                // More than anybody asked for, until the sender is gone.
                let _ = tokio::io::copy(&mut tokio::io::repeat(0), &mut near_write).await;
            };
            tokio::join!(there, back);
        });
        Self { address, held, link }
    }

    /// From now on nothing that the sender says is taken.
    pub(crate) fn hold(&self) {
        self.held.notify_one();
    }
}

impl Drop for OneWay {
    fn drop(&mut self) {
        self.link.abort();
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

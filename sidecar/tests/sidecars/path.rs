//! TCP connections that break.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

use crate::support::{loopback, within};

/// A path between sidecars that can break.
pub(crate) struct Path {
    pub(crate) address: SocketAddr,
    links: Arc<Mutex<Vec<JoinHandle<()>>>>,
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
        let made = Arc::clone(&links);
        let accepting = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let link = tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(target).await else { return };
                    // Either side may be gone, which ends the link.
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
                made.lock().unwrap().push(link);
            }
        });
        Self { address, links, accepting }
    }

    /// Breaks every link; new ones can be made.
    pub(crate) fn cut(&self) {
        self.links.lock().unwrap().drain(..).for_each(|link| link.abort());
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

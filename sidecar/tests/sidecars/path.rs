//! TCP connections that break.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::support::loopback;

/// A path between sidecars that can break.
pub(crate) struct Path {
    pub(crate) address: SocketAddr,
    links: Arc<Mutex<Vec<JoinHandle<()>>>>,
    accepting: JoinHandle<()>,
}

impl Path {
    pub(crate) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(loopback()).await.unwrap();
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

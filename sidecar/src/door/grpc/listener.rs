//! The socket that gRPC clients connect to. Its path goes away with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::net::SocketType;
use tokio::net::{UnixListener, UnixStream};

use crate::door::DoorError;
use crate::door::socket::listen;

#[derive(Debug)]
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    pub(super) fn bind(path: &Path) -> Result<Self, DoorError> {
        Ok(Self { socket: listen(path, SocketType::STREAM)?, path: path.to_owned() })
    }

    /// Cancel safe.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.socket.accept().await?;
        Ok(stream)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may be gone already, and nobody is left to care.
        let _ = fs::remove_file(&self.path);
    }
}

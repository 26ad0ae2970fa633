//! One TCP connection: dialling, and moving bytes without waiting.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;

/// Longest wait for one address.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Longest wait for the first bytes of an accepted one.
const GREETING: Duration = Duration::from_secs(10);

/// Dials the addresses in turn; the first that answers is used.
pub(crate) async fn dial(addresses: &[SocketAddr]) -> io::Result<Link> {
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "no address is known");
    let began = Instant::now();
    for address in addresses {
        match tokio::time::timeout(CONNECT_DEADLINE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(Link { dialled: Some(began.elapsed()), ..Link::new(stream)? }),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// What one attempt to move bytes did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    Bytes(usize),
    /// The socket has no bytes, or no room; [`Link::ready`] tells when.
    Blocked,
    /// Nothing moves this way any more. What the other side said before it was gone can be taken all the same.
    Over,
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    /// How long dialling took.
    dialled: Option<Duration>,
}

impl Link {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        // Batches are made above; the kernel shall not wait for more.
        stream.set_nodelay(true)?;
        Ok(Self { stream, dialled: None })
    }

    /// How long dialling took; none for a link that was accepted.
    pub(crate) fn dialled(&self) -> Option<Duration> {
        self.dialled
    }

    /// What the kernel calls its congestion control.
    pub(crate) fn congestion(&self) -> Option<String> {
        sockopt::tcp_congestion(&self.stream).ok()
    }

    pub(crate) fn take(&self, into: &mut [u8]) -> Moved {
        moved(self.stream.try_read(into))
    }

    pub(crate) fn put(&self, bytes: &[u8]) -> Moved {
        moved(self.stream.try_write(bytes))
    }

    /// Ends it when the other side has not acknowledged what was sent for so long, and asks it as often while nothing is, so that
    /// whatever lies between does not forget it.
    pub(crate) fn give_up_after(&self, silence: Duration) -> io::Result<()> {
        let millis = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&self.stream, millis)?;
        sockopt::set_tcp_keepidle(&self.stream, silence)?;
        sockopt::set_tcp_keepintvl(&self.stream, silence)?;
        Ok(sockopt::set_socket_keepalive(&self.stream, true)?)
    }

    /// Whether `greets` says so of what the other side says first, which stays to be taken. It waits for the first packet alone,
    /// which a greeting fits into; who sends less does not greet.
    pub(crate) async fn is_greeted_by(&self, greets: impl Fn(&[u8]) -> Option<bool>) -> bool {
        let mut first = [0; 16];
        match tokio::time::timeout(GREETING, self.stream.peek(&mut first)).await {
            Ok(Ok(bytes)) => greets(first.get(..bytes).unwrap_or_default()) == Some(true),
            _ => false,
        }
    }

    /// Waits until bytes can be taken, or put if `writing`.
    pub(crate) async fn ready(&self, writing: bool) -> io::Result<Ready> {
        let interest = if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.stream.ready(interest).await
    }

    /// Waits for room alone, whatever there is to read.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }
}

/// An end of file and an error say the same: whether it was meant is for the authenticated close to tell.
fn moved(result: io::Result<usize>) -> Moved {
    match result {
        Ok(0) => Moved::Over,
        Ok(bytes) => Moved::Bytes(bytes),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Moved::Blocked
        }
        Err(_) => Moved::Over,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn what_was_said_before_the_end_is_taken_although_nothing_can_be_put() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = dial(&[listener.local_addr().unwrap()]).await.unwrap();
        let (mut remote, _) = listener.accept().await.unwrap();
        assert_eq!(link.put(b"read and unread"), Moved::Bytes(15));
        remote.read_exact(&mut [0; 4]).await.unwrap();
        remote.write_all(b"because").await.unwrap();
        // What it leaves unread makes the kernel reset the connection.
        drop(remote);
        assert_eq!(link.put(b"more"), Moved::Over);
        assert_eq!(link.put(b"more"), Moved::Over);
        let mut said = [0; 20];
        loop {
            link.ready(false).await.unwrap();
            match link.take(&mut said) {
                Moved::Blocked => {}
                moved => break assert_eq!((moved, &said[..7]), (Moved::Bytes(7), &b"because"[..])),
            }
        }
        link.ready(false).await.unwrap();
        assert_eq!(link.take(&mut said), Moved::Over);
    }
}

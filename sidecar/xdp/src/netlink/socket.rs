//! A socket that asks one question at a time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::message::{Malformed, Message, Request};
use crate::limits::{NETLINK_ANSWER_BYTES_MAX, NETLINK_ANSWER_MILLISECONDS_MAX};
use crate::sys::plain::Plain;
use crate::sys::socket;

/// `NLMSG_ERROR`
const ERROR: u16 = 2;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// Environment: the kernel says no.
    #[error("the kernel refused")]
    Refused(#[source] io::Error),
    /// Environment: the question could not be asked, or the answer not be read.
    #[error("netlink failed")]
    Socket(#[source] io::Error),
    /// Environment.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl AskError {
    /// Whether the kernel said no in this way.
    pub(crate) fn is(&self, errno: i32) -> bool {
        matches!(self, Self::Refused(error) if error.raw_os_error() == Some(errno))
    }
}

/// A netlink socket for routing, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Box<[u8]>,
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        let socket = socket::open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        let mut kernel = libc::sockaddr_nl::zeroed();
        kernel.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        // Connected to the kernel, it takes messages from nobody else (`netlink_getsockbyportid` in
        // net/netlink/af_netlink.c).
        socket::connect(socket.as_fd(), &kernel)?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; NETLINK_ANSWER_BYTES_MAX].into_boxed_slice() })
    }

    /// Sends a request and returns the message that answers it.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Message<'_>, AskError> {
        self.sequence = self.sequence.wrapping_add(1);
        socket::send(self.socket.as_fd(), &request.encode(self.sequence)).map_err(AskError::Socket)?;
        let deadline = Instant::now() + Duration::from_millis(NETLINK_ANSWER_MILLISECONDS_MAX);
        let length = loop {
            let length = self.receive(deadline).map_err(AskError::Socket)?;
            // An earlier question may have been given up before its answer was there.
            if Message::parse(&self.buffer[..length])?.sequence == self.sequence {
                break length;
            }
        };
        let message = Message::parse(&self.buffer[..length])?;
        if message.kind == ERROR {
            return Err(AskError::Refused(refusal(&message)?));
        }
        Ok(message)
    }

    fn receive(&mut self, deadline: Instant) -> io::Result<usize> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if socket::wait(self.socket.as_fd(), left)? {
                return socket::receive(self.socket.as_fd(), &mut self.buffer);
            }
        }
    }
}

/// `struct nlmsgerr`: a negative error number, then the request.
fn refusal(message: &Message<'_>) -> Result<io::Error, Malformed> {
    let (code, _) = message.split::<4>()?;
    let code = i32::from_ne_bytes(*code).checked_neg().filter(|code| *code > 0).ok_or(Malformed)?;
    Ok(io::Error::from_raw_os_error(code))
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::answer;
    use super::*;

    #[test]
    fn a_refusal_has_a_negative_number() {
        let refused = |code: i32| {
            let bytes = answer(ERROR, &code.to_ne_bytes(), &[]);
            refusal(&Message::parse(&bytes).unwrap()).map(|error| error.raw_os_error())
        };
        assert_eq!(refused(-2), Ok(Some(2)));
        for code in [0, 2, i32::MIN] {
            assert_eq!(refused(code), Err(Malformed));
        }
    }
}

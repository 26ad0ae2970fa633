//! The handshake up to shared keys: what Noise, the hello around it and ML-KEM inside it cost, without evidence.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::Result;
use sealane_protocol::connection::Connection;

use crate::micro::Operation;
use crate::ours::{Carry, Direct, Memory, Nothing, Ours, drain};
use crate::wire::Side;

/// Where both sides meet.
pub(super) enum Between {
    Memory,
    /// A TCP connection that is made for each.
    Loopback(TcpListener),
}

/// Both sides until they share keys.
pub(super) struct Agreement<'a> {
    ours: &'a Ours,
    between: Between,
}

/// What the dialling side says first.
pub(super) struct Opening<'a>(pub(super) &'a Ours);

impl Between {
    pub(super) fn loopback() -> Result<Self> {
        Ok(Self::Loopback(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?))
    }
}

impl<'a> Agreement<'a> {
    pub(super) const fn new(ours: &'a Ours, between: Between) -> Self {
        Self { ours, between }
    }
}

impl Operation for Agreement<'_> {
    type Made = Result<Direct>;

    fn run(&mut self) -> Self::Made {
        match &self.between {
            Between::Memory => self.ours.agree(&mut Memory),
            Between::Loopback(listener) => self.ours.agree(&mut Streams::new(listener)?),
        }
    }

    fn wrong(&mut self, made: Self::Made) -> Option<String> {
        match made {
            Ok(direct) => (!direct.agrees()).then(|| "the two sides do not share keys".to_owned()),
            Err(error) => Some(format!("{error:#}")),
        }
    }
}

impl Operation for Opening<'_> {
    type Made = Result<Connection>;

    fn run(&mut self) -> Self::Made {
        self.0.initiate()
    }

    /// Another side has to have an answer to it.
    fn wrong(&mut self, made: Self::Made) -> Option<String> {
        let answered = made.and_then(|mut dialled| {
            let (mut accepted, now) = (self.0.accept()?, self.0.now());
            let mut message = Vec::new();
            drain(&mut dialled, now, |bytes| {
                message.extend_from_slice(bytes);
                Ok(())
            })?;
            accepted.handle_input(now, &mut message, &mut Nothing)?;
            Ok(!accepted.poll_output(now).is_empty())
        });
        match answered {
            Ok(answered) => (!answered).then(|| "nobody answers it".to_owned()),
            Err(error) => Some(format!("{error:#}")),
        }
    }
}

/// Both ends of a TCP connection.
struct Streams {
    dialled: TcpStream,
    accepted: TcpStream,
}

impl Streams {
    fn new(listener: &TcpListener) -> Result<Self> {
        let dialled = TcpStream::connect(listener.local_addr()?)?;
        let (accepted, _) = listener.accept()?;
        dialled.set_nodelay(true)?;
        accepted.set_nodelay(true)?;
        Ok(Self { dialled, accepted })
    }
}

impl Carry for Streams {
    fn carry(&mut self, from: Side, bytes: &[u8], read: &mut Vec<u8>) -> Result<()> {
        let Self { dialled, accepted } = self;
        let (one, other) = match from {
            Side::Dialler => (dialled, accepted),
            Side::Accepter => (accepted, dialled),
        };
        one.write_all(bytes)?;
        let start = read.len();
        read.resize(start + bytes.len(), 0);
        Ok(other.read_exact(&mut read[start..])?)
    }
}

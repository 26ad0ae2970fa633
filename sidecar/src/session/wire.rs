//! How one connection's bytes get to the remote and back, whatever carries them.

mod datagrams;
mod stream;

use std::io;
use std::time::Duration;

use sealane_protocol::Moment;
use sealane_protocol::connection::{Connection, Fail, Sink};
use sealane_protocol::datagram::PathFigures;
use sealane_types::{Carrier, CongestionChoice};

use super::carried::{Carried, Way};
pub(super) use datagrams::{Datagrams, Source, tuning};
pub(super) use stream::Stream;

/// See the module's documentation.
#[derive(Debug)]
pub(super) enum Wire {
    Stream(Stream),
    Datagrams(Box<Datagrams>),
}

/// What an attempt to move bytes did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moved {
    /// Whether any bytes moved.
    pub(super) any: bool,
    /// Whether some wait for the carrier to have room.
    pub(super) blocked: bool,
    /// Whether the other side is gone.
    pub(super) cut: bool,
}

impl Moved {
    pub(super) const NOTHING: Self = Self { any: false, blocked: false, cut: false };
}

impl Wire {
    /// What can carry it.
    pub(super) fn way(&self) -> Way {
        match self {
            Self::Stream(stream) => Way::Stream(stream.instead()),
            Self::Datagrams(datagrams) => Way::Datagrams(datagrams.pass()),
        }
    }

    /// Both sides are verified, and this is what carries what follows.
    pub(super) fn carry(&mut self, carried: Carried) {
        match self {
            Self::Stream(stream) => stream.widen(),
            Self::Datagrams(datagrams) => {
                if carried.by == Carrier::AfXdp {
                    datagrams.pass_kernel();
                }
            }
        }
    }

    /// What decides from now on how much of datagrams is on the path.
    pub(super) fn set_congestion(&mut self, congestion: CongestionChoice) {
        if let Self::Datagrams(datagrams) = self {
            datagrams.set_congestion(congestion);
        }
    }

    /// Whether the remote was ever heard.
    pub(super) const fn is_heard(&self) -> bool {
        match self {
            Self::Stream(_) => true,
            Self::Datagrams(datagrams) => datagrams.is_heard(),
        }
    }

    /// How long dialling took; none for a link that was accepted.
    pub(super) fn dialled(&self) -> Option<Duration> {
        match self {
            Self::Stream(stream) => stream.dialled(),
            Self::Datagrams(datagrams) => datagrams.dialled(),
        }
    }

    /// What is known of the path of datagrams.
    pub(super) fn path_figures(&self) -> Option<PathFigures> {
        match self {
            Self::Stream(_) => None,
            Self::Datagrams(datagrams) => Some(datagrams.path_figures()),
        }
    }

    /// What the kernel calls the congestion control of a stream.
    pub(super) fn stream_congestion(&self) -> Option<String> {
        match self {
            Self::Stream(stream) => stream.congestion(),
            Self::Datagrams(_) => None,
        }
    }

    /// Lets what `connection` has to say leave.
    pub(super) fn put(&mut self, connection: &mut Connection, now: Moment) -> Moved {
        match self {
            Self::Stream(stream) => stream.put(connection, now),
            Self::Datagrams(datagrams) => datagrams.put(connection, now),
        }
    }

    /// Gives `connection` what has arrived.
    pub(super) fn take(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        sink: &mut dyn Sink,
    ) -> (Moved, Result<(), Fail>) {
        match self {
            Self::Stream(stream) => stream.take(connection, now, sink),
            Self::Datagrams(datagrams) => datagrams.take(connection, now, sink),
        }
    }

    /// Waits until something has arrived, or there is room if `writing`. Cancel safe.
    pub(super) async fn ready(&mut self, writing: bool) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.ready(writing).await,
            Self::Datagrams(datagrams) => {
                std::future::poll_fn(|context| datagrams.poll_ready(context, writing)).await
            }
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self, now: Moment) -> Option<Moment> {
        match self {
            Self::Stream(_) => None,
            Self::Datagrams(datagrams) => datagrams.poll_timeout(now),
        }
    }

    pub(super) fn handle_timeout(&mut self, connection: &mut Connection, now: Moment) {
        if let Self::Datagrams(datagrams) = self {
            datagrams.handle_timeout(connection, now);
        }
    }

    /// Waits for what a connection that is over still waits for. A stream is not read any more, so that what lies there must
    /// not wake anybody.
    pub(super) async fn ready_to_end(&mut self, writing: bool) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.writable().await,
            Self::Datagrams(_) => self.ready(writing).await,
        }
    }

    /// Whether the remote, or the kernel for it, has everything that was said.
    pub(super) fn is_settled(&self) -> bool {
        match self {
            Self::Stream(_) => true,
            Self::Datagrams(datagrams) => datagrams.is_settled(),
        }
    }

    /// Gives back what an idle connection does not need.
    pub(super) fn release(&mut self) {
        match self {
            Self::Stream(stream) => stream.release(),
            Self::Datagrams(datagrams) => datagrams.release(),
        }
    }
}

//! Who speaks on the network.

use std::net::SocketAddr;

use sealane_protocol::Moment;

/// One participant, as the network gives it to those who connect or look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub(super) usize);

/// What the network calls. After every call that may change a node it asks for what is to be sent until there is
/// nothing, and then for the next timeout.
pub trait Node {
    fn receive(&mut self, now: Moment, from: SocketAddr, datagram: &mut [u8]);
    /// The next datagram: where to, and how many bytes of `space` it has; None: there is none now.
    fn transmit(&mut self, now: Moment, space: &mut [u8]) -> Option<(SocketAddr, usize)>;
    fn timeout(&self, now: Moment) -> Option<Moment>;
    fn on_timeout(&mut self, now: Moment);
}

impl<N: Node + ?Sized> Node for Box<N> {
    fn receive(&mut self, now: Moment, from: SocketAddr, datagram: &mut [u8]) {
        (**self).receive(now, from, datagram);
    }

    fn transmit(&mut self, now: Moment, space: &mut [u8]) -> Option<(SocketAddr, usize)> {
        (**self).transmit(now, space)
    }

    fn timeout(&self, now: Moment) -> Option<Moment> {
        (**self).timeout(now)
    }

    fn on_timeout(&mut self, now: Moment) {
        (**self).on_timeout(now);
    }
}

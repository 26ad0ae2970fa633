//! A party with the application behind it, as a participant: one pushes tensors, the other takes what comes and looks at
//! every byte of it.

use std::net::SocketAddr;

use sealane_protocol::Moment;
use sealane_protocol::frame::{Frame, Sequence};
use sealane_support::datagrams::Party;
use sealane_support::endpoint::{Endpoint, Receiver, Sender};
use sealane_support::world::Counter;

use super::node::Node;

/// Tensors that wait for the path while an application has more than it carries.
const AHEAD: usize = 48;
/// Bytes of each of them.
const TENSOR_BYTES: usize = 64 << 10;

/// See the module's documentation.
pub struct Speaker {
    pub party: Party,
    /// Whether the application has more tensors than the path carries.
    pub floods: bool,
    /// Whether the application takes what comes as soon as it is there.
    pub takes: bool,
    /// Lengths of the tensors that were pushed.
    pub pushed: Vec<usize>,
    /// Tensors that were taken: in order, as they were, and none twice.
    pub taken: usize,
    /// And their bytes.
    pub taken_bytes: u64,
    /// The stream, until a connection is established.
    unopened: Option<Sender>,
}

impl Speaker {
    /// The side that dialled, with tensors to send.
    #[must_use]
    pub fn sending(party: Party, sender: Sender) -> Self {
        Self { unopened: Some(sender), ..Self::new(party) }
    }

    /// The side that takes them.
    #[must_use]
    pub fn taking(mut party: Party, receiver: Receiver) -> Self {
        party.side.seen.1 = Some(Endpoint::Receiver(receiver));
        Self::new(party)
    }

    fn new(party: Party) -> Self {
        Self {
            party,
            floods: false,
            takes: true,
            pushed: Vec::new(),
            taken: 0,
            taken_bytes: 0,
            unopened: None,
        }
    }

    /// The application has another tensor.
    ///
    /// # Panics
    /// On the side that takes.
    pub fn push(&mut self, length: usize) {
        let sequence = self.pushed.len() as u64;
        self.pushed.push(length);
        let bytes = content(sequence, length);
        let sender = self.unopened.as_mut().or_else(|| sender(&mut self.party)).expect("this side sends");
        sender.push(Sequence(sequence), bytes);
    }

    /// The application takes the next tensor, if it is there.
    ///
    /// # Panics
    /// When it is not the one that was to come next, or other bytes than were pushed.
    pub fn take(&mut self) -> bool {
        let Some(Endpoint::Receiver(receiver)) = &mut self.party.side.seen.1 else { return false };
        if !receiver.take(0) {
            return false;
        }
        let (sequence, bytes) = receiver.delivered.pop().expect("it was taken");
        assert_eq!(sequence.0, self.taken as u64, "out of order, or twice");
        assert!(bytes == content(sequence.0, bytes.len()), "{sequence:?}: other bytes than were pushed");
        self.taken += 1;
        self.taken_bytes += bytes.len() as u64;
        true
    }

    /// The stream goes on with another connection.
    pub fn go_on(&mut self, party: Party) {
        let before = std::mem::replace(&mut self.party, party);
        match before.side.seen.1 {
            Some(Endpoint::Sender(mut sender)) => {
                sender.outbound.detach();
                self.unopened = Some(sender);
            }
            Some(Endpoint::Receiver(mut receiver)) => {
                receiver.cut();
                self.party.side.seen.1 = Some(Endpoint::Receiver(receiver));
            }
            None => {}
        }
    }

    /// The process knows nothing of the connection any more.
    pub fn forget(&mut self) {
        self.party.engine = None;
        self.party.side.connection.handle_cut();
    }

    /// Tensors that the application still holds, because it does not know that they were taken.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        match &self.party.side.seen.1 {
            Some(Endpoint::Sender(sender)) => sender.tensors.len(),
            _ => self.unopened.as_ref().map_or(0, |sender| sender.tensors.len()),
        }
    }

    /// Bytes that the connection took to send them.
    #[must_use]
    pub fn accepted_bytes(&self) -> u64 {
        let Some(Endpoint::Sender(sender)) = &self.party.side.seen.1 else { return 0 };
        sender.sent.iter().filter_map(|sequence| self.pushed.get(sequence.0 as usize)).sum::<usize>() as u64
    }

    /// What the application does as soon as it can.
    fn run_application(&mut self) {
        while self.takes && self.take() {}
        let connection = &mut self.party.side.connection;
        if connection.is_established()
            && let Some(mut sender) = self.unopened.take()
        {
            let open = sender.outbound.attach();
            connection.send(&Frame::Open(open)).expect("the first frame has room");
            self.party.side.seen.1 = Some(Endpoint::Sender(sender));
        }
        if self.floods {
            while sender(&mut self.party).is_some_and(|sender| sender.tensors.len() < AHEAD) {
                self.push(TENSOR_BYTES);
            }
        }
    }
}

fn sender(party: &mut Party) -> Option<&mut Sender> {
    match &mut party.side.seen.1 {
        Some(Endpoint::Sender(sender)) => Some(sender),
        _ => None,
    }
}

/// The bytes of the tensor with this number.
fn content(number: u64, length: usize) -> Vec<u8> {
    Counter(number << 32).bytes(length)
}

impl Node for Speaker {
    fn receive(&mut self, now: Moment, from: SocketAddr, datagram: &mut [u8]) {
        self.party.receive(now, from, datagram);
        self.run_application();
    }

    fn transmit(&mut self, now: Moment, space: &mut [u8]) -> Option<(SocketAddr, usize)> {
        self.run_application();
        self.party.transmit(now, space)
    }

    fn timeout(&self, now: Moment) -> Option<Moment> {
        self.party.timeout(now)
    }

    fn on_timeout(&mut self, now: Moment) {
        self.party.on_timeout(now);
        self.run_application();
    }
}

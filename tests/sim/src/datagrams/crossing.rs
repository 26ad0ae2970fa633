//! Parties that share one link there and one back: what most scenarios are played on.

use std::net::{Ipv4Addr, SocketAddr};

use sealane_protocol::Moment;
use sealane_protocol::connection::ClosedBy;
use sealane_protocol::datagram::Tuning;
use sealane_support::datagrams::{Party, parties};
use sealane_support::endpoint::{Receiver, Sender};
use sealane_support::pair::{Pair, Recipe, STREAM};
use sealane_types::Reason;

use super::link::{Link, LinkId};
use super::network::Network;
use super::node::NodeId;
use super::path::Path;
use super::speaker::Speaker;
use super::tally::Tally;

/// Memory of the side that takes, and what is accepted before it has a place in it.
const ARENA_BYTES: usize = 64 << 20;
const STAGING_BYTES: u64 = 1 << 20;

/// See the module's documentation.
pub struct Crossing {
    pub network: Network<Speaker>,
    /// The way of tensors.
    pub there: LinkId,
    pub back: LinkId,
    /// How connections use the paths.
    tunings: Vec<Tuning>,
    dialled: u64,
}

/// Two participants: the one that dials and sends, and the one that takes.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    pub initiator: NodeId,
    pub responder: NodeId,
    number: u16,
}

/// Where the `flow`th initiator is at first, or after it was moved so often; its responder has the same port elsewhere.
#[must_use]
pub fn address_of_initiator(flow: u16, moves: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, moves), 10_000 + flow).into()
}

#[must_use]
pub fn address_of_responder(flow: u16) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 1, 0), 10_000 + flow).into()
}

impl Crossing {
    #[must_use]
    pub fn new(seed: u64, there: Link, back: Link) -> Self {
        let mut network = Network::new(seed);
        let (there, back) = (network.add_link(there), network.add_link(back));
        Self { network, there, back, tunings: Vec::new(), dialled: 0 }
    }

    /// Adds two participants and the paths between them, and lets one dial.
    pub fn add(&mut self, tuning: Tuning, change: impl Fn(&mut Path)) -> Flow {
        let number = self.tunings.len() as u16;
        self.tunings.push(tuning);
        let (initiator, responder) = self.dial(number);
        let initiator = Speaker::sending(initiator, Sender::new(STREAM));
        let responder = Speaker::taking(responder, Receiver::new(ARENA_BYTES, STAGING_BYTES));
        let initiator = self.network.add_node(address_of_initiator(number, 0), initiator);
        let responder = self.network.add_node(address_of_responder(number), responder);
        let paths = [(initiator, responder, self.there), (responder, initiator, self.back)];
        for (from, to, link) in paths {
            let mut path = Path::perfect(link);
            change(&mut path);
            self.network.add_path(from, to, path);
        }
        self.network.act(initiator, |_, _| ());
        Flow { initiator, responder, number }
    }

    fn dial(&mut self, number: u16) -> (Party, Party) {
        self.dialled += 1;
        let recipe = Recipe { seed: self.dialled, now: self.network.now(), ..Recipe::default() };
        parties(Pair::of(recipe), self.tunings[usize::from(number)], address_of_responder(number))
    }

    /// Both processes give the connection up, and one dials anew.
    pub fn redial(&mut self, flow: Flow) {
        let (initiator, responder) = self.dial(flow.number);
        self.network.act(flow.responder, |speaker, _| speaker.go_on(responder));
        self.network.act(flow.initiator, |speaker, _| speaker.go_on(initiator));
    }

    /// Adds a flow as [`Self::add`] does, and lets time pass until it is established.
    ///
    /// # Panics
    /// When it is not within ten seconds.
    pub fn establish(&mut self, tuning: Tuning, change: impl Fn(&mut Path)) -> Flow {
        let flow = self.add(tuning, change);
        let until = self.network.now().plus_micros(10_000_000);
        let established = self.network.run_until_done(until, |network| {
            [flow.initiator, flow.responder]
                .iter()
                .all(|node| network.node(*node).party.side.connection.is_established())
        });
        assert!(established, "no connection: {:?} {:?}", self.closed(flow), self.fails(flow));
        flow
    }

    /// Changes both directions of a flow.
    pub fn change(&mut self, flow: Flow, change: impl Fn(&mut Path)) {
        change(self.network.path_mut(flow.initiator, flow.responder));
        change(self.network.path_mut(flow.responder, flow.initiator));
    }

    /// From now on the application of the initiator has more tensors than the path carries.
    pub fn flood(&mut self, flow: Flow) {
        self.network.act(flow.initiator, |speaker, _| speaker.floods = true);
    }

    /// Tensors of so many bytes are pushed.
    pub fn push(&mut self, flow: Flow, lengths: &[usize]) {
        self.network
            .act(flow.initiator, |speaker, _| lengths.iter().for_each(|length| speaker.push(*length)));
    }

    /// Bytes of tensors that were taken so far.
    #[must_use]
    pub fn taken_bytes(&self, flow: Flow) -> u64 {
        self.network.node(flow.responder).taken_bytes
    }

    /// So many microseconds pass; bytes of tensors per second that arrive meanwhile, by flow.
    pub fn rates<const N: usize>(&mut self, flows: [Flow; N], micros: u64) -> [u64; N] {
        let before = flows.map(|flow| self.taken_bytes(flow));
        self.network.run(micros);
        let mut before = before.into_iter();
        flows.map(|flow| {
            let taken = self.taken_bytes(flow) - before.next().unwrap_or_default();
            taken * 1_000_000 / micros
        })
    }

    /// Time passes until everything that was pushed was taken; whether that is before `until`.
    pub fn is_all_taken(&mut self, flow: Flow, until: Moment) -> bool {
        self.network.run_until_done(until, |network| {
            network.node(flow.responder).taken == network.node(flow.initiator).pushed.len()
        })
    }

    /// How the connection ended at either side.
    #[must_use]
    pub fn closed(&self, flow: Flow) -> [Option<(ClosedBy, Reason)>; 2] {
        [flow.initiator, flow.responder].map(|node| self.network.node(node).party.side.closed())
    }

    /// What either side found wrong.
    #[must_use]
    pub fn fails(&self, flow: Flow) -> [Option<String>; 2] {
        let fail = |node| self.network.node(node).party.side.fail.as_ref().map(ToString::to_string);
        [flow.initiator, flow.responder].map(fail)
    }

    /// What became of the datagrams of the initiator.
    #[must_use]
    pub fn tally(&self, flow: Flow) -> Tally {
        self.network.tally(flow.initiator, flow.responder)
    }
}

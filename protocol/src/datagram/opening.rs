//! The handshake over datagrams, before there are keys: three flights, each repeated until the next one answers it.
//!
//! ```text
//! initiator                                  responder
//! ask              →
//!                  ← cookie                  nothing is kept until the cookie comes back
//! flight 0         →                         hello, Noise message 1
//!                  ← flight 1                Noise message 2, or a refusal
//! flight 2         →                         Noise message 3; left out by whoever presented a ticket
//! packet           ⇄ packet                  the first that opens answers whatever is still repeated
//! ```

use super::clear::{Clear, FLIGHTS, FlightPart, NOBODY};
use super::cookie::Cookie;
use crate::Moment;
use crate::connection::HandshakeFlight;
use crate::limits::{FLIGHT_BYTES_MAX, FLIGHT_WAIT_MICROS, FLIGHT_WAIT_MICROS_MAX};
use crate::record::ConnectionId;
use crate::recovery::Ranges;
use crate::size::wide;

/// What this side says, and what it hears, until packets take over.
#[derive(Debug)]
pub(super) struct Opening {
    own: ConnectionId,
    remote: Option<ConnectionId>,
    cookie: Option<Cookie>,
    asks: bool,
    /// What is repeated until it is answered.
    flight: Option<Flight>,
    /// The remote's next flight, as far as it has come.
    arriving: Arriving,
    /// When what was said is said again.
    due: Option<Moment>,
    wait_micros: u64,
    /// When it was said first, unless it was repeated: the answer to it measures the round trip.
    said: Option<Moment>,
    /// How often what is said is said again, when nothing answers it: the connection is over.
    farewells: Option<u8>,
}

/// How often a refusal is said, as nobody answers one.
const FAREWELLS: u8 = 4;

#[derive(Debug)]
struct Flight {
    index: u8,
    bytes: Vec<u8>,
    /// How much of it has left in this round.
    left: usize,
}

#[derive(Debug)]
struct Arriving {
    index: u8,
    bytes: Vec<u8>,
    held: Ranges,
}

impl Arriving {
    const fn new(index: u8) -> Self {
        Self { index, bytes: Vec::new(), held: Ranges::new() }
    }

    /// Keeps a piece; the whole flight when it was the last one. Bytes that are no flight are forgotten: the remote says
    /// its own again.
    fn take(&mut self, part: &FlightPart<'_>) -> Option<HandshakeFlight> {
        let length = usize::from(part.length);
        // Of two that say something else about their flight the newer counts: a forged one does not keep the remote's out.
        if self.bytes.len() != length {
            *self = Self { bytes: vec![0; length.min(FLIGHT_BYTES_MAX)], ..Self::new(self.index) };
        }
        let start = usize::from(part.offset);
        let end = start.saturating_add(part.bytes.len());
        self.bytes.get_mut(start..end)?.copy_from_slice(part.bytes);
        self.held.insert(wide(start)..wide(end));
        let whole = self.held.first() == Some(0..wide(length));
        let bytes = whole.then(|| std::mem::replace(self, Self::new(self.index)).bytes)?;
        HandshakeFlight::new(self.index, bytes)
    }
}

impl Opening {
    /// `flight` is what the initiator has to say, once it has a cookie.
    pub(super) fn initiator(own: ConnectionId, flight: Vec<u8>, now: Moment) -> Self {
        Self {
            own,
            remote: None,
            cookie: None,
            asks: true,
            flight: Some(Flight { index: 0, bytes: flight, left: 0 }),
            arriving: Arriving::new(1),
            due: Some(now),
            wait_micros: FLIGHT_WAIT_MICROS,
            said: None,
            farewells: None,
        }
    }

    pub(super) const fn responder(own: ConnectionId, remote: ConnectionId) -> Self {
        Self {
            own,
            remote: Some(remote),
            cookie: None,
            asks: false,
            flight: None,
            arriving: Arriving::new(0),
            due: None,
            wait_micros: FLIGHT_WAIT_MICROS,
            said: None,
            farewells: None,
        }
    }

    /// How the remote calls itself, once it has said so.
    pub(super) const fn remote(&self) -> Option<ConnectionId> {
        self.remote
    }

    /// Handles a clear datagram for this connection: a whole flight of the remote, and the round trip (µs) where nothing was
    /// repeated.
    pub(super) fn handle(
        &mut self,
        clear: &Clear<'_>,
        now: Moment,
    ) -> (Option<HandshakeFlight>, Option<u64>) {
        match clear {
            Clear::Cookie { to, cookie } if *to == self.own && self.asks => {
                self.asks = false;
                self.cookie = Some(*cookie);
                let trip = self.said.take().map(|said| now.micros_since(said));
                self.begin_round(now);
                (None, trip)
            }
            Clear::Flight(part) => self.on_flight(part, now),
            Clear::Ask { .. } | Clear::Cookie { .. } | Clear::Reset { .. } => (None, None),
        }
    }

    fn on_flight(&mut self, part: &FlightPart<'_>, now: Moment) -> (Option<HandshakeFlight>, Option<u64>) {
        let expected_to = if part.index == 0 { NOBODY } else { self.own };
        let from_remote = self.remote.is_none_or(|remote| remote == part.from);
        if part.to != expected_to || !from_remote {
            return (None, None);
        }
        if part.index != self.arriving.index {
            // The remote has not heard the answer to this flight.
            if part.index.saturating_add(2) == self.arriving.index && part.offset == 0 {
                self.say_again(now);
            }
            return (None, None);
        }
        let Some(flight) = self.arriving.take(part) else { return (None, None) };
        self.arriving = Arriving::new(part.index.saturating_add(2));
        self.remote = Some(part.from);
        let trip = self.said.take().map(|said| now.micros_since(said));
        // It answers what this side has said.
        (self.flight, self.due) = (None, None);
        (Some(flight), trip)
    }

    /// What the handshake says next: a flight of its own.
    pub(super) fn say(&mut self, bytes: Vec<u8>, now: Moment) {
        let index = self.arriving.index.saturating_sub(1);
        if index < FLIGHTS && !bytes.is_empty() {
            self.flight = Some(Flight { index, bytes, left: 0 });
            self.wait_micros = FLIGHT_WAIT_MICROS;
            self.said = None;
            self.begin_round(now);
        }
    }

    /// The connection is over before there were keys. Whoever was heard is told why, a few times; nobody else is.
    pub(super) fn end(&mut self, bytes: Vec<u8>, now: Moment) {
        if self.farewells.is_some() {
            return;
        }
        (self.flight, self.due, self.asks) = (None, None, false);
        self.farewells = Some(FAREWELLS);
        if self.arriving.index > 1 {
            self.say(bytes, now);
        }
    }

    /// A packet opened: the remote has keys, and so has heard everything.
    pub(super) fn answered(&mut self) {
        (self.flight, self.due, self.asks) = (None, None, false);
    }

    /// Whether something is still repeated.
    pub(super) const fn is_waiting(&self) -> bool {
        self.asks || self.flight.is_some()
    }

    /// The next clear datagram.
    pub(super) fn poll_transmit(&mut self, now: Moment, space: &mut [u8]) -> Option<usize> {
        if self.due.is_some_and(|due| now >= due) {
            self.say_again(now);
        }
        if self.asks {
            // Asked once in each round.
            let flight = self.flight.as_mut()?;
            if flight.left > 0 {
                return None;
            }
            flight.left = 1;
            return Clear::Ask { from: self.own }.put(space);
        }
        let flight = self.flight.as_mut()?;
        let rest = flight.bytes.get(flight.left..).filter(|rest| !rest.is_empty())?;
        let bytes = rest.get(..FlightPart::room(flight.index)).unwrap_or(rest);
        let part = FlightPart {
            to: if flight.index == 0 { NOBODY } else { self.remote? },
            from: self.own,
            index: flight.index,
            length: u16::try_from(flight.bytes.len()).ok()?,
            offset: u16::try_from(flight.left).ok()?,
            cookie: if flight.index == 0 { self.cookie } else { None },
            bytes,
        };
        let sent = bytes.len();
        let length = Clear::Flight(part).put(space)?;
        flight.left = flight.left.saturating_add(sent);
        Some(length)
    }

    pub(super) fn poll_timeout(&self) -> Option<Moment> {
        self.due
    }

    fn say_again(&mut self, now: Moment) {
        if !self.is_waiting() {
            return;
        }
        if let Some(farewells) = &mut self.farewells {
            let Some(left) = farewells.checked_sub(1) else {
                (self.flight, self.due) = (None, None);
                return;
            };
            *farewells = left;
        }
        let first = self.said.is_none() && self.wait_micros == FLIGHT_WAIT_MICROS;
        self.begin_round(now);
        if !first {
            // An answer could be to either.
            self.said = None;
        }
    }

    fn begin_round(&mut self, now: Moment) {
        if let Some(flight) = &mut self.flight {
            flight.left = 0;
        }
        self.said = (self.wait_micros == FLIGHT_WAIT_MICROS).then_some(now);
        self.due = Some(now.plus_micros(self.wait_micros));
        self.wait_micros = self.wait_micros.saturating_mul(2).min(FLIGHT_WAIT_MICROS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::cookie::COOKIE_BYTES;
    use super::*;
    use crate::limits::DATAGRAM_BYTES_MIN;

    const A: ConnectionId = ConnectionId([1; 8]);
    const B: ConnectionId = ConnectionId([2; 8]);
    const START: Moment = Moment::from_micros(1_000);

    fn said(opening: &mut Opening, now: Moment) -> Vec<Vec<u8>> {
        let mut space = [0; DATAGRAM_BYTES_MIN];
        std::iter::from_fn(|| opening.poll_transmit(now, &mut space).map(|length| space[..length].to_vec()))
            .collect()
    }

    fn hear(opening: &mut Opening, datagram: &[u8], now: Moment) -> (Option<HandshakeFlight>, Option<u64>) {
        opening.handle(&Clear::parse(datagram).unwrap(), now)
    }

    /// A message of the handshake in so many bytes.
    fn message(length: u8) -> Vec<u8> {
        let mut message = vec![length; length.into()];
        message[..4].copy_from_slice(&[1, 0, 0, length - 4]);
        message
    }

    fn flight(index: u8, bytes: &[u8]) -> Option<HandshakeFlight> {
        Some(HandshakeFlight::new(index, bytes.to_vec()).unwrap())
    }

    fn cookie() -> Vec<u8> {
        let mut space = [0; 64];
        let cookie = Clear::Cookie { to: A, cookie: Cookie([5; COOKIE_BYTES]) };
        let length = cookie.put(&mut space).unwrap();
        space[..length].to_vec()
    }

    #[test]
    fn three_flights_cross_and_each_is_whole_before_it_counts() {
        let (offer, end) = (vec![1; 1_400], message(70));
        let answer = [&[1, 0, 5, 16][..], &[2; 1_296]].concat();
        let mut initiator = Opening::initiator(A, offer.clone(), START);
        let mut responder = Opening::responder(B, A);
        let asked = said(&mut initiator, START);
        assert_eq!(asked.iter().map(Vec::len).collect::<Vec<_>>(), [DATAGRAM_BYTES_MIN]);
        let trip = hear(&mut initiator, &cookie(), START.plus_micros(70));
        assert_eq!(trip, (None, Some(70)));
        let parts = said(&mut initiator, START.plus_micros(70));
        assert_eq!(parts.len(), 2);
        // In any order, and more than once.
        for (datagram, heard) in [(1, None), (1, None), (0, Some(&offer))] {
            let (heard_now, _) = hear(&mut responder, &parts[datagram], START);
            assert_eq!(heard_now, heard.and_then(|bytes| flight(0, bytes)));
        }
        responder.say(answer.clone(), START);
        let parts = said(&mut responder, START);
        assert_eq!(hear(&mut initiator, &parts[0], START).0, None);
        assert_eq!(hear(&mut initiator, &parts[1], START).0, flight(1, &answer));
        assert_eq!(initiator.remote(), Some(B));
        initiator.say(end.clone(), START);
        let parts = said(&mut initiator, START);
        assert_eq!(hear(&mut responder, &parts[0], START).0, flight(2, &end));
        assert!(!responder.is_waiting() && initiator.is_waiting());
        initiator.answered();
        assert!(!initiator.is_waiting() && initiator.poll_timeout().is_none());
    }

    #[test]
    fn what_is_not_answered_is_said_again_ever_more_rarely() {
        let mut initiator = Opening::initiator(A, vec![1; 100], START);
        let mut now = START;
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(said(&mut initiator, now).len(), 1);
            assert_eq!(said(&mut initiator, now).len(), 0);
            let due = initiator.poll_timeout().unwrap();
            waits.push(due.micros_since(now));
            now = due;
        }
        assert!(
            waits.windows(2).all(|pair| pair[1] == (2 * pair[0]).min(FLIGHT_WAIT_MICROS_MAX)),
            "{waits:?}"
        );
        assert_eq!(waits[7], FLIGHT_WAIT_MICROS_MAX);
        let (_, trip) = hear(&mut initiator, &cookie(), now);
        assert_eq!(trip, None, "an answer to which of them?");
    }

    #[test]
    fn a_flight_that_comes_again_makes_its_answer_come_again() {
        let mut responder = Opening::responder(B, A);
        let mut initiator = Opening::initiator(A, vec![1; 100], START);
        said(&mut initiator, START);
        hear(&mut initiator, &cookie(), START);
        let flight = said(&mut initiator, START);
        hear(&mut responder, &flight[0], START);
        responder.say(vec![2; 50], START);
        assert_eq!(said(&mut responder, START).len(), 1);
        assert_eq!(said(&mut responder, START).len(), 0);
        assert_eq!(hear(&mut responder, &flight[0], START).0, None);
        assert_eq!(said(&mut responder, START).len(), 1);
    }

    /// Whoever is on the path may put a datagram before the remote's: it spoils a round at most.
    #[test]
    fn the_flight_of_the_remote_arrives_behind_a_forged_one() {
        let mut initiator = Opening::initiator(A, vec![1; 100], START);
        said(&mut initiator, START);
        hear(&mut initiator, &cookie(), START);
        said(&mut initiator, START);
        let answer = message(60);
        let part =
            FlightPart { to: A, from: B, index: 1, length: 60, offset: 0, cookie: None, bytes: &answer };
        let longer = [&answer[..], b"x"].concat();
        let forged = [
            FlightPart { length: 61, bytes: &longer, ..part },
            FlightPart { length: 90, ..part },
            FlightPart { length: 59, bytes: &answer[..59], ..part },
            FlightPart { bytes: &[3; 60], ..part },
        ];
        for forged in forged {
            assert_eq!(initiator.handle(&Clear::Flight(forged), START).0, None, "{forged:?}");
            assert!(initiator.is_waiting(), "it goes on asking");
        }
        assert_eq!(initiator.handle(&Clear::Flight(part), START).0, flight(1, &answer));
    }

    #[test]
    fn nobody_else_takes_part() {
        let mut responder = Opening::responder(B, A);
        let part = FlightPart {
            to: NOBODY,
            from: ConnectionId([3; 8]),
            index: 0,
            length: 3,
            offset: 0,
            cookie: Some(Cookie([0; COOKIE_BYTES])),
            bytes: b"abc",
        };
        for part in [
            part,
            FlightPart { from: A, to: B, ..part },
            FlightPart { from: A, to: B, index: 1, cookie: None, ..part },
            FlightPart { from: A, to: B, index: 2, cookie: None, ..part },
        ] {
            assert_eq!(responder.handle(&Clear::Flight(part), START).0, None, "{part:?}");
        }
    }
}

//! One connection over datagrams. See the module above for the contract.

use std::net::SocketAddr;

use sealane_types::CongestionChoice;

use super::clear::Clear;
use super::figures::PathFigures;
use super::greeter::{Beginning, Greeter};
use super::opening::Opening;
use super::part::{self, BYTES_OVERHEAD, Part, Writer};
use super::path::Path;
use super::recoverer::{Recoverer, Tuning};
use super::reset::Resets;
use super::sequence::Sequence;
use super::token::Tokens;
use super::transmit::Transmit;
use crate::Moment;
use crate::connection::{Connection, Fail, Sink, StartError};
use crate::keys::Random;
use crate::limits::DATAGRAM_BYTES_MIN;
use crate::record::{ConnectionId, OpenError, OpenedPacket, PacketNumber, addressee};
use crate::recovery::{Content, Received};
use crate::size::wide;

/// See the module's documentation.
#[derive(Debug)]
pub struct Engine {
    own: ConnectionId,
    remote: Option<ConnectionId>,
    path: Path,
    opening: Opening,
    recoverer: Recoverer,
    received: Received,
    sequence: Sequence,
    resets: Resets,
    /// Whether the path had no room for what there may be to say.
    held: bool,
    tokens: Tokens,
}

impl Engine {
    /// Begins as the side that dials. `connection` is [over datagrams](Connection::over_datagrams).
    ///
    /// # Errors
    /// [`StartError`] when `random` gives nothing.
    pub fn initiate(
        connection: &mut Connection,
        remote: SocketAddr,
        tuning: Tuning,
        random: &mut dyn Random,
        now: Moment,
    ) -> Result<Self, StartError> {
        let own = ConnectionId::random(random)?;
        let opening = Opening::initiator(own, take_clear(connection), now);
        Self::new(own, None, remote, opening, tuning, random)
    }

    /// Begins as the side that was dialled.
    ///
    /// # Errors
    /// See [`Self::initiate`].
    pub fn accept(
        beginning: &Beginning,
        tuning: Tuning,
        random: &mut dyn Random,
    ) -> Result<Self, StartError> {
        let own = ConnectionId::random(random)?;
        let opening = Opening::responder(own, beginning.id);
        Self::new(own, Some(beginning.id), beginning.source, opening, tuning, random)
    }

    fn new(
        own: ConnectionId,
        remote: Option<ConnectionId>,
        address: SocketAddr,
        opening: Opening,
        tuning: Tuning,
        random: &mut dyn Random,
    ) -> Result<Self, StartError> {
        let tokens = Tokens::new(random)?;
        Ok(Self {
            own,
            remote,
            path: Path::new(address),
            opening,
            recoverer: Recoverer::new(tuning),
            received: Received::default(),
            sequence: Sequence::new(),
            resets: Resets::default(),
            held: false,
            tokens,
        })
    }

    /// Lets `greeter` end the connection when it gets its packets: the remote is told the token. Only the greeter of the port
    /// on which this engine hears may, or others would learn the token from it while the connection lives.
    #[must_use]
    pub fn ended_by(mut self, greeter: &Greeter) -> Self {
        self.resets.tell(greeter.reset_token(self.own));
        self
    }

    /// How this side calls the connection: datagrams that name it are for this engine.
    #[must_use]
    pub const fn id(&self) -> ConnectionId {
        self.own
    }

    /// How the remote calls it, as soon as that is known.
    #[must_use]
    pub const fn remote_id(&self) -> Option<ConnectionId> {
        self.remote
    }

    /// Where the remote is.
    #[must_use]
    pub const fn remote(&self) -> SocketAddr {
        self.path.remote()
    }

    /// What decides from now on how much is on the path.
    pub fn set_congestion(&mut self, congestion: CongestionChoice) {
        self.recoverer.set_congestion(congestion);
    }

    /// What is known of the path.
    #[must_use]
    pub fn path_figures(&self) -> PathFigures {
        self.recoverer.figures()
    }

    /// Takes one datagram, opens it in place and hands what is next to `connection`, whose frames go to `sink`. One that
    /// is nobody's, changed or repeated changes nothing.
    ///
    /// # Errors
    /// [`Fail`] when the connection is over; the close frame that tells the remote goes out with
    /// [`Self::poll_transmit`].
    pub fn handle_datagram(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        from: SocketAddr,
        datagram: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<(), Fail> {
        let handled = match addressee(datagram) {
            Some(id) if id == self.own => self.on_packet(connection, now, from, datagram, sink),
            Some(_) => Ok(()),
            None => self.on_clear(connection, now, from, datagram),
        };
        if let Err(fail) = &handled {
            connection.fail(fail);
        }
        handled
    }

    fn on_clear(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), Fail> {
        // Nobody moves before there are keys.
        let Some(clear) = Clear::parse(datagram).filter(|_| from == self.path.remote()) else {
            return Ok(());
        };
        if let Clear::Reset { id, token } = clear {
            // It repeats the id that this side's packets name: the remote's.
            if Some(id) == self.remote && self.resets.ends(token) {
                connection.handle_cut();
            }
            return Ok(());
        }
        let (flight, trip) = self.opening.handle(&clear, now);
        if let Some(micros) = trip {
            self.recoverer.on_handshake_trip(micros);
        }
        if let Some(flight) = flight.filter(|_| !connection.is_keyed()) {
            self.remote = self.opening.remote();
            connection.handle_flight(now, &flight)?;
            self.say(connection, now);
        }
        Ok(())
    }

    fn on_packet(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        from: SocketAddr,
        datagram: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<(), Fail> {
        let length = datagram.len();
        let size = wide(length);
        let Some(opener) = connection.packet_keys().opener else { return Ok(()) };
        let received = &self.received;
        let opened = opener.open(datagram, now, |number| received.is_seen(number.0));
        let OpenedPacket { number, plaintext, proof } = match opened {
            Ok(opened) => opened,
            Err(OpenError::Ignored) => return Ok(()),
            Err(OpenError::Fatal(error)) => return Err(error.into()),
        };
        self.opening.answered();
        if number.0 >= self.received.end() && self.path.on_newest(from, size) {
            let token = self.tokens.draw();
            self.path.try_out(from, token, size, now);
        }
        let (mut asks, mut acknowledges) = (false, false);
        let mut rest = plaintext;
        while let Some((part, after)) = part::next(rest).map_err(|_| Fail::Order("a part of a packet"))? {
            match part {
                // One is enough, and each makes this side look through what it has sent.
                Part::Acknowledge(_) if std::mem::replace(&mut acknowledges, true) => {
                    return Err(Fail::Order("a packet acknowledged twice"));
                }
                Part::Acknowledge(told) => {
                    self.received.on_acknowledged(told.ranges());
                    self.resets.on_acknowledged(told.ranges());
                    self.sequence.on_room(told.through);
                    let never_sent = |_| Fail::Order("a packet was acknowledged that was never sent");
                    let outgoing = self.sequence.outgoing();
                    self.recoverer.on_acknowledged(&told, now, outgoing).map_err(never_sent)?;
                    if let Some(sealer) = connection.packet_keys().sealer {
                        sealer.acknowledged(PacketNumber(told.newest));
                    }
                }
                Part::Bytes { offset, bytes } => {
                    asks = true;
                    if !self.sequence.on_bytes(connection, now, (offset, bytes), &proof, sink)? {
                        // As if it were lost: it comes again.
                        return Ok(());
                    }
                }
                Part::Ping => asks = true,
                Part::Reset(token) => {
                    asks = true;
                    self.resets.on_heard(token)?;
                }
                Part::Challenge(token) => {
                    asks = true;
                    self.path.on_challenge(from, token, length);
                }
                Part::Response(token) => {
                    asks = true;
                    if self.path.on_response(token) {
                        self.recoverer.restart();
                    }
                }
            }
            rest = after;
        }
        self.received.commit(number.0, asks, now);
        Ok(())
    }

    /// What the handshake has to say.
    fn say(&mut self, connection: &mut Connection, now: Moment) {
        let bytes = take_clear(connection);
        if connection.is_closed() && !connection.is_keyed() {
            self.opening.end(bytes, now);
        } else {
            self.opening.say(bytes, now);
        }
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, connection: &mut Connection, now: Moment) {
        if connection.is_keyed() {
            let starved = self.sequence.is_starved();
            self.recoverer.on_timeout(now, starved, self.sequence.outgoing());
        }
    }

    /// When [`Self::handle_timeout`] must be called and [`Self::poll_transmit`] may have something, at the latest.
    #[must_use]
    pub fn poll_timeout(&self, now: Moment) -> Option<Moment> {
        let datagram = wide(self.recoverer.datagram_bytes());
        let paced = if self.held { self.recoverer.next_send(now, datagram) } else { None };
        let timeout = self.recoverer.timeout(self.sequence.is_starved());
        let all = [self.opening.poll_timeout(), self.received.due(), self.path.due(), paced, timeout];
        all.into_iter().flatten().min()
    }

    /// The next datagrams, at the front of `space`: as many of one size as fit there, `datagrams_max` at most. Call it
    /// until there are none.
    pub fn poll_transmit(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        space: &mut [u8],
        datagrams_max: usize,
    ) -> Option<Transmit> {
        if !connection.poll_clear().is_empty() || (connection.is_closed() && !connection.is_keyed()) {
            self.say(connection, now);
        }
        if let Some(bytes) = self.opening.poll_transmit(now, space) {
            return Some(Transmit::one(self.path.remote(), bytes));
        }
        self.remote?;
        connection.packet_keys().sealer?;
        self.put_path(connection, now, space)
            // Before packets, or a sender that always has something to say would never have a window left for it.
            .or_else(|| self.put_mtu_probe(connection, now, space))
            .or_else(|| self.put_packets(connection, now, space, datagrams_max))
    }

    /// Whether everything that the connection said has arrived, and the remote knows what has arrived of its.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.sequence.has_arrived() && !self.opening.is_waiting() && self.received.due().is_none()
    }

    /// Gives back memory that an idle connection has no use for.
    pub fn release_memory(&mut self) {
        self.sequence.release();
        self.recoverer.release();
    }

    /// Packets with acknowledgements and bytes.
    fn put_packets(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        space: &mut [u8],
        datagrams_max: usize,
    ) -> Option<Transmit> {
        let (mut bytes, mut segment) = (0_usize, 0_usize);
        for _ in 0..datagrams_max {
            let size = self.recoverer.datagram_bytes();
            let end = bytes.saturating_add(size);
            let Some(place) = space.get_mut(bytes..end).filter(|_| segment == 0 || size == segment) else {
                break;
            };
            let Some(length) = self.put_packet(connection, now, place) else { break };
            segment = segment.max(length);
            bytes = bytes.saturating_add(length);
            if length < size {
                break;
            }
        }
        (bytes > 0).then_some(Transmit { to: self.path.remote(), bytes, segment })
    }

    /// One packet, as long as `space` at most; none when there is nothing to say, or it has to wait.
    fn put_packet(&mut self, connection: &mut Connection, now: Moment, space: &mut [u8]) -> Option<usize> {
        let size = space.len();
        let room = wide(size.saturating_sub(BYTES_OVERHEAD));
        let may_send = self.recoverer.may_send(now, wide(size));
        if may_send {
            self.sequence.fetch(connection, now, room);
        }
        let next = if may_send { self.sequence.next(room) } else { None };
        if next.is_none() {
            self.held = !may_send;
            self.recoverer.on_drained(may_send);
        }
        let acknowledges = self.received.is_due(now) && !self.recoverer.is_crowded();
        let is_aged = connection.packet_keys().sealer.is_some_and(|sealer| sealer.is_aged(now));
        let settles = acknowledges && may_send && is_aged;
        let pings = next.is_none() && (self.recoverer.wants_probe() || settles);
        if next.is_none() && !pings && !acknowledges {
            return None;
        }
        let mut writer = Writer::of_packet(space)?;
        if acknowledges {
            self.put_acknowledgement(connection, now, &mut writer);
        }
        let reset = self.resets.untold().filter(|_| next.is_some() || pings);
        if let Some(token) = reset {
            writer.reset(token);
        }
        let content = match next {
            Some(range) => {
                // What stands before them leaves less room.
                let left = wide(writer.room_for_bytes());
                let range = range.start..range.end.min(range.start.saturating_add(left));
                let length = usize::try_from(range.end.saturating_sub(range.start)).ok()?;
                self.sequence.take(&range, writer.bytes(range.start, length));
                Some(Content {
                    offset: range.start,
                    length: u16::try_from(length).ok()?,
                    ..Content::default()
                })
            }
            None if pings => {
                writer.ping();
                Some(Content::default())
            }
            None => None,
        };
        let length = writer.packet_bytes();
        let number = self.seal(connection, now, space.get_mut(..length)?, content)?;
        if reset.is_some() {
            self.resets.on_told(number);
        }
        if acknowledges {
            self.received.reported(number.0);
        }
        Some(length)
    }

    fn put_acknowledgement(&mut self, connection: &Connection, now: Moment, writer: &mut Writer<'_>) {
        let room = self.sequence.tell_room(connection.is_established());
        let (numbers, delay_micros) = self.received.report(now);
        writer.acknowledge(numbers, delay_micros, room);
    }

    /// A packet that tries a larger size.
    fn put_mtu_probe(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        space: &mut [u8],
    ) -> Option<Transmit> {
        if !connection.is_established() {
            return None;
        }
        let size = self.recoverer.mtu_probe(now)?;
        let packet = space.get_mut(..size)?;
        self.put_padded(connection, now, packet, |writer| writer.ping(), true)?;
        Some(Transmit::one(self.path.remote(), size))
    }

    /// Packets that find out, or say, whether an address receives.
    fn put_path(&mut self, connection: &mut Connection, now: Moment, space: &mut [u8]) -> Option<Transmit> {
        let space = space.get_mut(..DATAGRAM_BYTES_MIN)?;
        let packet = self.path.next_packet(now, self.recoverer.wait_micros())?;
        let place = space.get_mut(..packet.bytes)?;
        self.put_padded(connection, now, place, |writer| packet.write(writer), false)?;
        Some(Transmit::one(packet.to, packet.bytes))
    }

    fn put_padded(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        packet: &mut [u8],
        part: impl FnOnce(&mut Writer<'_>),
        probe: bool,
    ) -> Option<()> {
        let mut writer = Writer::of_packet(packet)?;
        part(&mut writer);
        writer.pad();
        self.seal(connection, now, packet, Some(Content { probe, ..Content::default() })).map(drop)
    }

    fn seal(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        packet: &mut [u8],
        content: Option<Content>,
    ) -> Option<PacketNumber> {
        let sealer = connection.packet_keys().sealer?;
        let number = sealer.seal(self.remote?, packet, now).ok()?;
        self.recoverer.on_sent(now, packet.len(), content);
        Some(number)
    }
}

fn take_clear(connection: &mut Connection) -> Vec<u8> {
    let bytes = connection.poll_clear().to_vec();
    connection.output_written(bytes.len());
    bytes
}

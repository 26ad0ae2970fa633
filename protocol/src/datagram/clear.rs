//! Datagrams before there are keys, and for whom there are none: unauthenticated, every one.
//!
//! ```text
//! ask         80 ‖ u8 1 ‖ initiator's id (8) ‖ zeros up to 1,200 bytes
//! cookie      81 ‖ u8 1 ‖ initiator's id (8) ‖ cookie (20)
//! flight      82 ‖ u8 1 ‖ to (8) ‖ from (8) ‖ u8 index ‖ u16 length of the flight ‖ u16 offset ‖ cookie (20) ‖ bytes
//! reset       83 ‖ u8 1 ‖ id (8) ‖ token (16)
//! ```
//!
//! The cookie stands in flight 0 alone, whose `to` is zeros: the responder's id is told by its answer.

use super::cookie::{COOKIE_BYTES, Cookie};
use super::pieces::put;
use super::reset::ResetToken;
use crate::limits::{DATAGRAM_BYTES_MIN, FLIGHT_BYTES_MAX};
use crate::record::ConnectionId;

const ASK: u8 = 0x80;
const COOKIE: u8 = 0x81;
const FLIGHT: u8 = 0x82;
const RESET: u8 = 0x83;
/// Of the form of these datagrams; what the two sides speak is negotiated inside.
const FORM: u8 = 1;
/// Bytes of a flight without a cookie that stand before its part of the handshake.
const FLIGHT_HEAD: usize = 23;
/// Flights of a handshake: offer, answer, end.
pub(crate) const FLIGHTS: u8 = 3;
/// To somebody who has not said how it wants to be called.
pub(crate) const NOBODY: ConnectionId = ConnectionId([0; 8]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clear<'a> {
    Ask { from: ConnectionId },
    Cookie { to: ConnectionId, cookie: Cookie },
    Flight(FlightPart<'a>),
    Reset { id: ConnectionId, token: ResetToken },
}

/// A piece of what one side says at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlightPart<'a> {
    pub(crate) to: ConnectionId,
    pub(crate) from: ConnectionId,
    pub(crate) index: u8,
    pub(crate) length: u16,
    pub(crate) offset: u16,
    /// In flight 0.
    pub(crate) cookie: Option<Cookie>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Clear<'a> {
    /// `None`: it is nothing that this version understands.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (head, rest) = datagram.split_first_chunk::<2>()?;
        let (first, rest) = rest.split_first_chunk::<8>()?;
        let first = ConnectionId(*first);
        match *head {
            // Whoever asks shows that datagrams of this size arrive, and gets less back than it sent.
            [ASK, FORM] if datagram.len() == DATAGRAM_BYTES_MIN && rest.iter().all(|byte| *byte == 0) => {
                Some(Self::Ask { from: first })
            }
            [COOKIE, FORM] => Some(Self::Cookie { to: first, cookie: Cookie(rest.try_into().ok()?) }),
            [FLIGHT, FORM] => FlightPart::parse(first, rest).map(Self::Flight),
            [RESET, FORM] => Some(Self::Reset { id: first, token: ResetToken(rest.try_into().ok()?) }),
            _ => None,
        }
    }

    /// Writes it to the front of `space` and returns its length.
    pub(crate) fn put(&self, space: &mut [u8]) -> Option<usize> {
        match self {
            Self::Ask { from } => {
                let place = space.get_mut(..DATAGRAM_BYTES_MIN)?;
                place.fill(0);
                put(place, &[&[ASK, FORM], &from.0])?;
                Some(DATAGRAM_BYTES_MIN)
            }
            Self::Cookie { to, cookie } => put(space, &[&[COOKIE, FORM], &to.0, &cookie.0]),
            Self::Reset { id, token } => put(space, &[&[RESET, FORM], &id.0, &token.0]),
            Self::Flight(part) => {
                let FlightPart { to, from, index, length, offset, cookie, bytes } = part;
                let cookie = cookie.as_ref().map_or(&[][..], |cookie| &cookie.0);
                let (length, offset) = (length.to_be_bytes(), offset.to_be_bytes());
                let head = [FLIGHT, FORM];
                put(space, &[&head, &to.0, &from.0, &[*index], &length, &offset, cookie, bytes])
            }
        }
    }
}

impl<'a> FlightPart<'a> {
    /// How many bytes of flight `index` fit into one datagram that goes everywhere.
    pub(crate) const fn room(index: u8) -> usize {
        let head = if index == 0 { FLIGHT_HEAD + COOKIE_BYTES } else { FLIGHT_HEAD };
        DATAGRAM_BYTES_MIN.saturating_sub(head)
    }

    fn parse(to: ConnectionId, rest: &'a [u8]) -> Option<Self> {
        let (from, rest) = rest.split_first_chunk::<8>()?;
        let ([index, length @ .., high, low], rest) = rest.split_first_chunk::<5>()?;
        let (length, offset) = (u16::from_be_bytes(*length), u16::from_be_bytes([*high, *low]));
        let (cookie, bytes) = if *index == 0 {
            let (cookie, bytes) = rest.split_first_chunk::<COOKIE_BYTES>()?;
            (Some(Cookie(*cookie)), bytes)
        } else {
            (None, rest)
        };
        let end = usize::from(offset).checked_add(bytes.len())?;
        let fits = *index < FLIGHTS
            && (*index > 0 || to == NOBODY)
            && !bytes.is_empty()
            && usize::from(length) <= FLIGHT_BYTES_MAX
            && end <= usize::from(length);
        fits.then_some(Self { to, from: ConnectionId(*from), index: *index, length, offset, cookie, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::reset::RESET_TOKEN_BYTES;

    const A: ConnectionId = ConnectionId([1; 8]);
    const B: ConnectionId = ConnectionId([2; 8]);
    const TOKEN: ResetToken = ResetToken([4; RESET_TOKEN_BYTES]);

    fn flight(index: u8, bytes: &[u8]) -> FlightPart<'_> {
        let cookie = (index == 0).then_some(Cookie([9; COOKIE_BYTES]));
        let to = if index == 0 { NOBODY } else { A };
        FlightPart { to, from: B, index, length: 1_300, offset: 7, cookie, bytes }
    }

    #[test]
    fn they_read_back_and_fit_a_datagram_that_goes_everywhere() {
        let mut space = [0xaa; DATAGRAM_BYTES_MIN];
        let longest = [5; DATAGRAM_BYTES_MIN];
        for clear in [
            Clear::Ask { from: A },
            Clear::Cookie { to: A, cookie: Cookie([3; COOKIE_BYTES]) },
            Clear::Reset { id: B, token: TOKEN },
            Clear::Flight(flight(0, &longest[..FlightPart::room(0)])),
            Clear::Flight(flight(2, &longest[..FlightPart::room(2)])),
        ] {
            let length = clear.put(&mut space).unwrap();
            assert_eq!(Clear::parse(&space[..length]), Some(clear));
            let shorter = Clear::parse(&space[..length - 1]);
            assert!(
                !matches!(shorter, Some(Clear::Ask { .. } | Clear::Cookie { .. } | Clear::Reset { .. })),
                "{shorter:?}"
            );
        }
        assert_eq!(Clear::Flight(flight(0, &longest)).put(&mut space), None);
    }

    #[test]
    fn a_flight_stays_within_its_length_and_its_length_within_the_limit() {
        let mut space = [0; 2_000];
        let too_long = u16::try_from(FLIGHT_BYTES_MAX + 1).unwrap();
        for part in [
            FlightPart { length: 9, offset: 7, ..flight(1, b"abc") },
            FlightPart { length: too_long, ..flight(1, b"abc") },
            flight(1, b""),
            flight(3, b"abc"),
            FlightPart { to: A, ..flight(0, b"abc") },
        ] {
            let length = Clear::Flight(part).put(&mut space).unwrap();
            assert_eq!(Clear::parse(&space[..length]), None, "{part:?}");
        }
    }

    #[test]
    fn whoever_asks_fills_one_datagram_with_zeros() {
        let mut space = [0; DATAGRAM_BYTES_MIN + 1];
        Clear::Ask { from: A }.put(&mut space).unwrap();
        assert_eq!(Clear::parse(&space[..DATAGRAM_BYTES_MIN]), Some(Clear::Ask { from: A }));
        assert_eq!(Clear::parse(&space), None, "longer");
        space[DATAGRAM_BYTES_MIN - 1] = 1;
        assert_eq!(Clear::parse(&space[..DATAGRAM_BYTES_MIN]), None, "not zeros");
    }

    #[test]
    fn another_form_is_not_understood() {
        let mut space = [0; 64];
        let length = Clear::Reset { id: A, token: TOKEN }.put(&mut space).unwrap();
        space[1] = 2;
        assert_eq!(Clear::parse(&space[..length]), None);
        assert_eq!(Clear::parse(&[]), None);
    }
}

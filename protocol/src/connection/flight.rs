//! The handshake over datagrams comes in flights, and nothing but the handshake does.

use crate::handshake::Hello;
use crate::record::{Header, Level, RecordKind};

/// A whole flight: exactly one message of the handshake, in the first flight behind the hello.
///
/// Flights are not authenticated. One with bytes left over would let whoever is on the path say something behind the
/// message that makes the keys, and is no flight.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandshakeFlight(Vec<u8>);

impl HandshakeFlight {
    /// Flight `index`; `None` where bytes are missing or left over.
    pub(crate) fn new(index: u8, bytes: Vec<u8>) -> Option<Self> {
        let before = if index == 0 {
            match Hello::parse(&bytes) {
                Ok(hello) => hello?.1,
                // Whoever answers it refuses it, and says why.
                Err(_) => return Some(Self(bytes)),
            }
        } else {
            0
        };
        let (head, body) = bytes.get(before..)?.split_first_chunk()?;
        let header = Header::parse(*head, Level::Packets).ok()?;
        let is_handshake = matches!(header.kind, RecordKind::Handshake | RecordKind::Refusal);
        (is_handshake && header.length == body.len()).then_some(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSAL: [u8; 6] = [2, 0, 0, 2, 0, 1];

    fn hello() -> Vec<u8> {
        let hello = Hello {
            kind: Some(crate::handshake::Kind::Full),
            versions: vec![1],
            suites: vec![],
            capabilities: 0,
            ticket: None,
        };
        hello.encode().unwrap()
    }

    #[test]
    fn a_flight_is_one_message() {
        for (index, before) in [(0, hello()), (1, vec![]), (2, vec![])] {
            for message in [&[1, 0, 0, 3, 7, 7, 7][..], &REFUSAL] {
                let whole = [&before, message].concat();
                assert!(HandshakeFlight::new(index, whole.clone()).is_some(), "{index}");
                for length in before.len()..whole.len() {
                    assert_eq!(
                        HandshakeFlight::new(index, whole[..length].to_vec()),
                        None,
                        "{index} {length}"
                    );
                }
                for more in [&[0][..], &[3, 0, 0, 1, 9], message] {
                    assert_eq!(
                        HandshakeFlight::new(index, [&whole, more].concat()),
                        None,
                        "{index} {more:?}"
                    );
                }
            }
            for kind in [0, 3, 4, 5, 6] {
                let record = [&before[..], &[kind, 0, 0, 1, 7]].concat();
                assert_eq!(HandshakeFlight::new(index, record), None, "{index} {kind}");
            }
        }
    }

    #[test]
    fn what_is_no_hello_is_for_the_responder_to_refuse() {
        assert!(HandshakeFlight::new(0, b"GET / HTTP/1.1".to_vec()).is_some());
        assert_eq!(HandshakeFlight::new(0, b"SEAL".to_vec()), None);
    }
}

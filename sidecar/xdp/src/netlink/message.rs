//! Netlink messages: a header, a fixed part, attributes (linux/netlink.h). Everything is in the order of the machine and
//! padded to four bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// Without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const ATTRIBUTE_KIND_MASK: u16 = 0x3fff;

/// A message that its lengths contradict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a netlink message is cut off or contradicts itself")]
pub(crate) struct Malformed;

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    kind: u16,
    body: Vec<u8>,
}

impl Request {
    /// A message of a kind with its fixed part.
    pub(crate) fn new(kind: u16, fixed: &[u8]) -> Self {
        Self { kind, body: padded(fixed) }
    }

    /// Adds an attribute. What is longer than 64 KiB is cut, which no attribute here comes near.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(ATTRIBUTE_HEADER_BYTES + value.len()).unwrap_or(u16::MAX);
        self.body.extend(length.to_ne_bytes());
        self.body.extend(kind.to_ne_bytes());
        self.body.extend(padded(value));
        self
    }

    /// Adds an attribute with an address.
    pub(crate) fn address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    /// The message as it is sent.
    pub(crate) fn encode(&self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(HEADER_BYTES + self.body.len()).unwrap_or(u32::MAX);
        let flags = libc::NLM_F_REQUEST as u16;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.body.len());
        bytes.extend(length.to_ne_bytes());
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(&self.body);
        bytes
    }
}

/// A message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) sequence: u32,
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads the first message of what was received.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let length = usize::try_from(word(bytes, 0)?).map_err(|_| Malformed)?;
        Ok(Self {
            kind: half(bytes, 4)?,
            sequence: word(bytes, 8)?,
            body: bytes.get(HEADER_BYTES..length).ok_or(Malformed)?,
        })
    }

    /// The fixed part, and the attributes behind it.
    pub(crate) fn split<const FIXED: usize>(&self) -> Result<(&'a [u8; FIXED], Attributes<'a>), Malformed> {
        const { assert!(FIXED.is_multiple_of(4), "attributes begin at a multiple of four bytes") };
        let (fixed, rest) = self.body.split_first_chunk().ok_or(Malformed)?;
        Ok((fixed, Attributes { rest }))
    }
}

/// The attributes of a message, in the order in which they stand there. After one that is malformed there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let attribute = self.first();
        if attribute.is_err() {
            self.rest = &[];
        }
        Some(attribute)
    }
}

impl<'a> Attributes<'a> {
    fn first(&mut self) -> Result<(u16, &'a [u8]), Malformed> {
        let length = usize::from(half(self.rest, 0)?);
        let kind = half(self.rest, 2)? & ATTRIBUTE_KIND_MASK;
        let value = self.rest.get(ATTRIBUTE_HEADER_BYTES..length).ok_or(Malformed)?;
        // The last attribute may lack its padding.
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Ok((kind, value))
    }
}

/// The integer that an attribute holds.
pub(crate) fn integer(value: &[u8]) -> Result<u32, Malformed> {
    value.try_into().map(u32::from_ne_bytes).map_err(|_| Malformed)
}

/// The address that an attribute holds.
pub(crate) fn address(value: &[u8]) -> Result<IpAddr, Malformed> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Ok(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(value).map(|octets| Ipv6Addr::from(octets).into()).map_err(|_| Malformed)
}

fn word(bytes: &[u8], at: usize) -> Result<u32, Malformed> {
    integer(bytes.get(at..at + 4).ok_or(Malformed)?)
}

fn half(bytes: &[u8], at: usize) -> Result<u16, Malformed> {
    let value = bytes.get(at..at + 2).ok_or(Malformed)?;
    value.try_into().map(u16::from_ne_bytes).map_err(|_| Malformed)
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the kernel might answer, as bytes.
    pub(crate) fn answer(kind: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let request = Request::new(kind, fixed);
        attributes.iter().fold(request, |request, (kind, value)| request.attribute(*kind, value)).encode(7)
    }

    #[test]
    fn reads_back_what_it_writes() {
        let bytes = answer(24, &[1, 2, 3, 4], &[(1, b"odd"), (0x8000 | 2, b"four"), (3, b"")]);
        let message = Message::parse(&bytes).unwrap();
        assert_eq!((message.kind, message.sequence), (24, 7));
        let (fixed, attributes) = message.split::<4>().unwrap();
        assert_eq!(*fixed, [1, 2, 3, 4]);
        let expected: Vec<(u16, &[u8])> = vec![(1, b"odd"), (2, b"four"), (3, b"")];
        assert_eq!(attributes.collect::<Result<Vec<_>, _>>().unwrap(), expected);
    }

    #[test]
    fn a_message_cut_off_anywhere_is_malformed() {
        let bytes = answer(24, &[1, 2, 3, 4], &[(1, b"eight by")]);
        for length in 0..bytes.len() {
            assert_eq!(Message::parse(&bytes[..length]), Err(Malformed), "{length}");
        }
        let message = Message::parse(&bytes).unwrap();
        assert!(message.split::<20>().is_err());
    }

    #[test]
    fn lengths_that_lie_are_malformed() {
        for length in [0_u16, 3, 13, u16::MAX] {
            let mut bytes = answer(24, &[], &[(1, b"eight by")]);
            bytes[16..18].copy_from_slice(&length.to_ne_bytes());
            let (_, mut attributes) = Message::parse(&bytes).unwrap().split::<0>().unwrap();
            assert_eq!(attributes.next(), Some(Err(Malformed)), "{length}");
            assert_eq!(attributes.next(), None);
        }
        for length in [0_u32, 15, 29, u32::MAX] {
            let mut bytes = answer(24, &[], &[(1, b"eight by")]);
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(Message::parse(&bytes), Err(Malformed), "{length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: if cfg!(miri) { 8 } else { 1024 }, ..ProptestConfig::default() })]

        #[test]
        fn hostile_bytes_end(mut bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            if let (Ok(length), Some(place)) = (u32::try_from(bytes.len()), bytes.first_chunk_mut()) {
                *place = length.to_ne_bytes();
            }
            if let Ok((_, attributes)) = Message::parse(&bytes).and_then(|message| message.split::<12>()) {
                prop_assert!(attributes.count() <= bytes.len());
            }
        }
    }
}

//! The part of CBOR (RFC 8949) that attestation documents use, read in place.
//!
//! Every value stands where AWS's specification puts it, so there is no value of any kind to build: no item is skipped,
//! nothing recurses, nothing is allocated, and each read consumes what it looked at. Tags, floats, text or bytes in
//! pieces, `undefined` and members nobody knows are refused by nobody asking for them.

const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;

/// Simple value 22 (§3.3).
const NULL: u8 = 0xf6;
/// Ends an array or map whose length was not given (§3.2.1).
const BREAK: u8 = 0xff;

/// Reads from the front of a byte string. `None`: it is not there.
pub(super) struct Reader<'a>(&'a [u8]);

/// The items of an array or map that are still to come: so many, or until the break.
pub(super) struct Items(Option<u64>);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn unsigned(&mut self) -> Option<u64> {
        self.definite(UNSIGNED)
    }

    /// The `n` of the integer -1 - n.
    pub(super) fn negative(&mut self) -> Option<u64> {
        self.definite(NEGATIVE)
    }

    /// A byte string in one piece of at most `most` bytes.
    pub(super) fn bytes(&mut self, most: usize) -> Option<&'a [u8]> {
        self.string(BYTES, most)
    }

    /// UTF-8 in one piece of at most `most` bytes.
    pub(super) fn text(&mut self, most: usize) -> Option<&'a str> {
        std::str::from_utf8(self.string(TEXT, most)?).ok()
    }

    /// The head of an array whose length is given.
    pub(super) fn array_length(&mut self) -> Option<u64> {
        self.definite(ARRAY)
    }

    /// The head of an array, whether its length is given or not.
    pub(super) fn array(&mut self) -> Option<Items> {
        self.head(ARRAY).map(Items)
    }

    /// The head of a map. Each of its items is a key and a value.
    pub(super) fn map(&mut self) -> Option<Items> {
        self.head(MAP).map(Items)
    }

    /// Whether a null stood here; it is consumed.
    pub(super) fn null(&mut self) -> bool {
        self.consume(NULL)
    }

    fn consume(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn string(&mut self, major: u8, most: usize) -> Option<&'a [u8]> {
        let length = usize::try_from(self.definite(major)?).ok().filter(|length| *length <= most)?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }

    fn definite(&mut self, major: u8) -> Option<u64> {
        self.head(major)?
    }

    /// The argument of an item of this major type, or `Some(None)` for a length that is not given (§3): of an array or a map,
    /// since whatever else is read has to be definite.
    fn head(&mut self, major: u8) -> Option<Option<u64>> {
        let (first, rest) = self.0.split_first()?;
        if first >> 5 != major {
            return None;
        }
        self.0 = rest;
        let width = match first & 0x1f {
            small @ 0..=23 => return Some(Some(u64::from(small))),
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            31 => return Some(None),
            _ => return None,
        };
        let argument = self.take(width)?;
        Some(Some(argument.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte))))
    }
}

impl Items {
    /// Whether another item follows; its head is next. `None`: neither an item nor the end is there.
    pub(super) fn more(&mut self, reader: &mut Reader<'_>) -> Option<bool> {
        match &mut self.0 {
            Some(left) => {
                let more = *left > 0;
                *left = left.saturating_sub(1);
                Some(more)
            }
            None if reader.consume(BREAK) => Some(false),
            None => (!reader.is_empty()).then_some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(bytes: &[u8]) -> Option<u64> {
        let mut reader = Reader::new(bytes);
        let mut items = reader.array()?;
        let mut count = 0;
        while items.more(&mut reader)? {
            reader.unsigned()?;
            count += 1;
        }
        reader.is_empty().then_some(count)
    }

    #[test]
    fn integers_of_every_width() {
        for (bytes, value) in [
            (&[0x17][..], 23),
            (&[0x18, 0x18], 24),
            (&[0x19, 0x01, 0x00], 256),
            (&[0x1a, 0, 1, 0, 0], 65_536),
            (&[0x1b, 0, 0, 1, 0x94, 0x3c, 0x5e, 0xc6, 0x60], 0x0194_3c5e_c660),
            (&[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], u64::MAX),
        ] {
            assert_eq!(Reader::new(bytes).unsigned(), Some(value));
            for length in 0..bytes.len() {
                assert_eq!(Reader::new(&bytes[..length]).unsigned(), None);
            }
        }
        assert_eq!(Reader::new(&[0x38, 0x22]).negative(), Some(34));
        for reserved in [0x1c, 0x1d, 0x1e, 0x1f, 0x3f] {
            assert_eq!(Reader::new(&[reserved, 0, 0, 0, 0, 0, 0, 0, 0]).unsigned(), None);
        }
    }

    #[test]
    fn lists_with_and_without_a_length() {
        assert_eq!(counted(&[0x80]), Some(0));
        assert_eq!(counted(&[0x82, 1, 2]), Some(2));
        assert_eq!(counted(&[0x9f, 1, 2, 0xff]), Some(2));
        assert_eq!(counted(&[0x9f, 0xff]), Some(0));
        // A break ends only what has no length, and what has none ends only by a break.
        assert_eq!(counted(&[0x82, 1, 0xff]), None);
        assert_eq!(counted(&[0x9f, 1]), None);
        assert_eq!(counted(&[0x82, 1, 2, 0xff]), None);
        assert_eq!(counted(&[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn strings_are_whole_and_bounded() {
        assert_eq!(Reader::new(&[0x42, 1, 2]).bytes(2), Some(&[1, 2][..]));
        assert_eq!(Reader::new(&[0x42, 1, 2]).bytes(1), None);
        assert_eq!(
            Reader::new(&[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).bytes(usize::MAX),
            None
        );
        assert_eq!(Reader::new(&[0x5f, 0x41, 1, 0xff]).bytes(9), None, "in pieces");
        assert_eq!(Reader::new(&[0x62, b'o', b'k']).text(2), Some("ok"));
        assert_eq!(Reader::new(&[0x61, 0xff]).text(2), None, "no UTF-8");
        assert_eq!(Reader::new(&[0x61, b'a']).bytes(2), None, "text is no byte string");
        assert_eq!(Reader::new(&[0xc2, 0x41, 1]).bytes(2), None, "a tag");
    }
}

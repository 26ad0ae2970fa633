//! The Internet checksum (RFC 1071).

/// A sum of 16-bit words in ones' complement, not yet folded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds bytes as big-endian words; an odd last byte is the high half of a word. Only the last part of what is summed
    /// may be odd.
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        // Four bytes at a time: 2^32 is 1 in ones' complement of 16 bits, as 2^16 is. 64 bits hold the sum of the longest
        // packet many times.
        let (words, rest) = bytes.as_chunks::<4>();
        let sum = words.iter().fold(self.0, |sum, word| sum + u64::from(u32::from_be_bytes(*word)));
        let mut last = [0; 4];
        for (into, byte) in last.iter_mut().zip(rest) {
            *into = *byte;
        }
        Self(sum + u64::from(u32::from_be_bytes(last)))
    }

    /// The complement of the sum: what makes the sum of all, itself included, all ones.
    pub(crate) fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_example_of_the_rfc() {
        // RFC 1071 section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().add(&bytes).finish(), !0xddf2);
        assert_eq!(Sum::default().add(&bytes[..4]).add(&bytes[4..]).finish(), !0xddf2);
        assert_eq!(Sum::default().add(&[0xff, 0xff, 0x01]).finish(), !0x0100);
        assert_eq!(Sum::default().add(&vec![0xff; 65_536]).finish(), 0);
    }
}

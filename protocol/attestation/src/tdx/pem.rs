//! Chains of certificates as Intel writes them: PEM blocks (RFC 7468), one after the other.

use x509_cert::der::pem;

use crate::limits::CERTIFICATE_BYTES_MAX;

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
const END: &[u8] = b"-----END CERTIFICATE-----";
/// Base64 in lines of 64, and the two lines around it.
const BLOCK_BYTES_MAX: usize = 2 * CERTIFICATE_BYTES_MAX;

/// DER of exactly `N` certificates. Nothing stands before, between or after them but the ends of lines, and one NUL at
/// the end, since Intel's quoting library ends its text with one.
pub(super) fn certificates<const N: usize>(text: &[u8]) -> Option<[Vec<u8>; N]> {
    let mut rest = text.strip_suffix(&[0]).unwrap_or(text);
    let mut certificates = Vec::with_capacity(N);
    for _ in 0..N {
        let end = rest.windows(END.len()).position(|window| window == END)?.checked_add(END.len())?;
        let (block, after) = rest.split_at_checked(end)?;
        if !block.starts_with(BEGIN) || block.len() > BLOCK_BYTES_MAX {
            return None;
        }
        let (_, certificate) = pem::decode_vec(block).ok()?;
        certificates.push(certificate);
        rest = line_end(after);
    }
    if !rest.is_empty() {
        return None;
    }
    certificates.try_into().ok()
}

fn line_end(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\r\n").or_else(|| text.strip_prefix(b"\n")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: &[u8] = b"-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----";

    #[test]
    fn nothing_but_certificates() {
        let two = [BLOCK, b"\n", BLOCK, b"\n"].concat();
        let expected = [vec![1, 2, 3], vec![1, 2, 3]];
        assert_eq!(certificates::<2>(&two), Some(expected.clone()));
        assert_eq!(certificates::<2>(&[&two[..], b"\0"].concat()), Some(expected.clone()));
        assert_eq!(certificates::<2>(&[BLOCK, b"\r\n", BLOCK].concat()), Some(expected));
        for other in [
            [&two[..], b"\0\0"].concat(),
            [&two[..], b"x"].concat(),
            [b"x\n", &two[..]].concat(),
            [BLOCK, b"\nx\n", BLOCK].concat(),
            BLOCK.to_vec(),
            [&two[..], BLOCK].concat(),
            two.iter().map(|byte| if *byte == b'Q' { b'!' } else { *byte }).collect(),
            two[..two.len() - 2].to_vec(),
        ] {
            assert_eq!(certificates::<2>(&other), None, "{}", String::from_utf8_lossy(&other));
        }
    }

    #[test]
    fn blocks_are_bounded() {
        let long = [BEGIN, b"\n", &vec![b'A'; BLOCK_BYTES_MAX], b"\n", END].concat();
        assert_eq!(certificates::<1>(&long), None);
        let block = |first: &[u8]| {
            let lines = [&[b'A'; 64][..], b"\n"].concat().repeat(125);
            [BEGIN, first, &lines, b"AAAAAAAAAAAA\r\n", END].concat()
        };
        let (largest, larger) = (block(b"\n"), block(b"\r\n"));
        assert_eq!((largest.len(), larger.len()), (BLOCK_BYTES_MAX, BLOCK_BYTES_MAX + 1));
        assert_eq!(certificates::<1>(&largest), Some([vec![0; 125 * 48 + 9]]));
        assert_eq!(certificates::<1>(&larger), None);
    }
}

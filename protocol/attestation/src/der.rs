//! Guards the DER parser against lengths that nothing stands behind.
//!
//! `der` reserves what a length claims, up to 256 MiB, before it looks whether so many bytes are there. Certificates of
//! evidence come from remotes that have proved nothing, so every length is measured against its parent first.

use x509_cert::crl::TbsCertList;
use x509_cert::der::Decode;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::ext::pkix::CrlNumber;

/// Certificates nest less than ten deep.
const DEPTH_MAX: usize = 16;

/// Tag bit of an element that holds elements (X.690 §8.1.2.5).
const CONSTRUCTED: u8 = 0x20;

/// Parses exactly `bytes`.
pub(crate) fn decode<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Option<T> {
    if fits(bytes, DEPTH_MAX) { T::from_der(bytes).ok() } else { None }
}

/// The signed part of a certificate or revocation list, in the very bytes that were signed, and the signature.
pub(crate) struct Signed<'a> {
    pub(crate) content: &'a [u8],
    /// What the AlgorithmIdentifier holds. No signature covers it, so that whoever verifies one holds it against what it
    /// verifies with (RFC 5280 §4.1.1.2).
    pub(crate) algorithm: &'a [u8],
    pub(crate) signature: &'a [u8],
}

/// Takes apart what RFC 5280 lays out alike in §4.1 and §5.1: what is signed, an algorithm, a BIT STRING.
pub(crate) fn signed(bytes: &[u8]) -> Option<Signed<'_>> {
    const BIT_STRING: u8 = 0x03;
    const SEQUENCE: u8 = 0x30;
    let outer = element(bytes).filter(|outer| outer.after.is_empty())?;
    let inner = element(outer.content)?;
    let content = outer.content.strip_suffix(inner.after)?;
    let algorithm = element(inner.after).filter(|algorithm| algorithm.tag == SEQUENCE)?;
    let bits = element(algorithm.after).filter(|bits| bits.tag == BIT_STRING && bits.after.is_empty())?;
    // The first octet counts unused bits, of which a signature has none.
    let signature = bits.content.strip_prefix(&[0])?;
    Some(Signed { content, algorithm: algorithm.content, signature })
}

/// The number of a revocation list, by which a newer one is told from an older one of its issuer (RFC 5280 §5.2.3, at most
/// 20 octets); nothing where it has none that can be read. One that is beyond 64 bits is taken for the highest below.
pub(crate) fn crl_number(list: &TbsCertList) -> Option<u64> {
    let mut extensions = list.crl_extensions.iter().flatten();
    let extension = extensions.find(|extension| extension.extn_id == CrlNumber::OID)?;
    let CrlNumber(number) = decode(extension.extn_value.as_bytes())?;
    let octets = number.as_bytes();
    if octets.len() > size_of::<u64>() {
        return Some(u64::MAX);
    }
    Some(octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
}

/// Whether `rest` is a row of elements, each of which lies within it, down to the innermost.
fn fits(mut rest: &[u8], depth: usize) -> bool {
    while !rest.is_empty() {
        let Some(Element { tag, content, after }) = element(rest) else { return false };
        let constructed = tag & CONSTRUCTED != 0;
        if constructed && !depth.checked_sub(1).is_some_and(|depth| fits(content, depth)) {
            return false;
        }
        rest = after;
    }
    true
}

struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    after: &'a [u8],
}

/// The element at the front of `bytes`: one byte of tag, then a definite length of at most four bytes (X.690 §8.1.3).
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let [tag, first, rest @ ..] = bytes else { return None };
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (octets, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let mut padded = [0; 4];
            padded.iter_mut().rev().zip(octets.iter().rev()).for_each(|(to, from)| *to = *from);
            (usize::try_from(u32::from_be_bytes(padded)).ok()?, rest)
        }
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some(Element { tag: *tag, content, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_parent_is_refused() {
        for (bytes, fitting) in [
            (&[0x30, 0x04, 0x04, 0x02, 7, 7][..], true),
            (&[0x30, 0x04, 0x04, 0x03, 7, 7], false),
            (&[0x30, 0x06, 0x04, 0x84, 0x0f, 0xff, 0xff, 0xff], false),
            (&[0x30, 0x03, 0x04, 0x81, 0x00], true),
            (&[0x04, 0x80, 0, 0], false),
            (&[0x04, 0x85, 0, 0, 0, 0, 0], false),
            (&[0x04], false),
        ] {
            assert_eq!(fits(bytes, DEPTH_MAX), fitting, "{bytes:02x?}");
        }
    }

    #[test]
    fn a_signature_is_a_bit_string_and_the_last_part() {
        let signature = |bytes: &[u8]| signed(bytes).map(|signed| signed.signature.to_vec());
        let honest = [0x30, 8, 0x30, 0, 0x30, 0, 0x03, 2, 0, 0x55];
        assert_eq!(signature(&honest), Some(vec![0x55]));
        assert_eq!(signature(&[0x30, 8, 0x30, 0, 0x30, 0, 0x04, 2, 0, 0x55]), None, "an OCTET STRING");
        assert_eq!(signature(&[0x30, 10, 0x30, 0, 0x30, 0, 0x03, 2, 0, 0x55, 0x05, 0]), None);
        assert_eq!(signature(&[&honest[..], &[0x05, 0]].concat()), None);
        assert_eq!(signature(&[0x30, 8, 0x30, 0, 0x30, 0, 0x03, 2, 1, 0x55]), None, "an unused bit");
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            (0..depth).fold(Vec::new(), |inner: Vec<u8>, _| [&[0x30, inner.len() as u8][..], &inner].concat())
        };
        assert!(fits(&nested(DEPTH_MAX), DEPTH_MAX));
        assert!(!fits(&nested(DEPTH_MAX + 1), DEPTH_MAX));
        // The parser looks no further than it has to; what it would pass on is measured all the same.
        assert!(decode::<x509_cert::der::asn1::AnyRef<'_>>(&nested(DEPTH_MAX)).is_some());
        assert!(decode::<x509_cert::der::asn1::AnyRef<'_>>(&nested(DEPTH_MAX + 1)).is_none());
    }

    #[test]
    fn genuine_certificates_fit() {
        for certificate in [
            &include_bytes!("../collateral/amd-milan-ark.der")[..],
            include_bytes!("../collateral/amd-genoa-ask.der"),
            include_bytes!("../collateral/amd-turin-ark.der"),
        ] {
            assert!(decode::<x509_cert::Certificate>(certificate).is_some());
        }
    }
}

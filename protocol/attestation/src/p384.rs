//! Keys on P-384, which AMD and AWS sign evidence with.

/// An uncompressed point.
pub(crate) type Point = [u8; 97];

/// DER of a SubjectPublicKeyInfo up to the point (RFC 5480): id-ecPublicKey, secp384r1, 97 bytes.
const PREFIX: [u8; 23] = [
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81,
    0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];

/// The point of a DER SubjectPublicKeyInfo, if it is one of this curve.
pub(crate) fn point(subject_public_key_info: &[u8]) -> Option<Point> {
    subject_public_key_info.strip_prefix(&PREFIX)?.try_into().ok()
}

//! What the rows of a Benchmark's suites measure, in words.

use sealane_results::RowId;

/// A suite and what a row measures, by the part of the row's id before the first `/`; as in `bench/README.md`.
const ROWS: &[(&str, &str, &str)] = &[
    ("W18-W22", CRYPTO, "AES-256-GCM as the record layer uses it"),
    ("W18-W22-chacha", CRYPTO, "ChaCha20-Poly1305 as the record layer uses it"),
    ("P2", CRYPTO, "AES-256-GCM, sealed in place"),
    ("W23", CRYPTO, "X25519 key pair"),
    ("W24", CRYPTO, "X25519 exchange"),
    ("W26", CRYPTO, "one derived secret"),
    ("W27", CRYPTO, "the key pair that a sidecar begins with"),
    ("W28", CRYPTO, "Noise XX until both sides share keys"),
    ("W29", CRYPTO, "what the dialling side of Noise XX says first"),
    ("P3", CRYPTO, "Noise XX over a TCP connection of its own"),
    ("W30", CRYPTO, "keys of one direction replaced"),
    ("W37", CRYPTO, "a comparison in constant time"),
    ("W1-W3", FRAME, "a tensor in one record, opened and parsed"),
    ("W4-W6", FRAME, "a tensor in one record, built and sealed"),
    ("W7", FRAME, "built, sealed, opened and parsed"),
    ("H1", FRAME, "packets with new keys, less packets without"),
    ("C1", HANDSHAKE, "from the first byte until both sides have their verdict"),
    ("verify", EVIDENCE, "one verification of a platform's evidence"),
    ("quotes", EVIDENCE, "until all peers are established with one sidecar"),
    ("C2", ROUNDTRIP, "there and back in process"),
    ("C2-added", ROUNDTRIP, "what sealing adds to there and back over TCP"),
    ("C3", STREAM, "one way in process"),
    ("C3-chacha", STREAM, "one way in process, ChaCha20-Poly1305"),
    ("C3-tcp", STREAM, "one way over TCP loopback"),
    ("transport", TRANSPORT, "one way over TCP, within a node or between two"),
    ("transport-rtt", TRANSPORT, "there and back over TCP, within a node or between two"),
    ("transfer", TRANSFER, "keeping account of a stream, without its bytes"),
    ("H9", MEMORY, "one end of an established connection that is idle"),
    ("P11", MEMORY, "one end of an established connection that carries messages"),
];

const CRYPTO: &str = "Crypto";
const FRAME: &str = "Frame";
const HANDSHAKE: &str = "Handshake";
const EVIDENCE: &str = "Evidence";
const ROUNDTRIP: &str = "Roundtrip";
const STREAM: &str = "Stream";
const TRANSPORT: &str = "Transport";
const TRANSFER: &str = "Transfer";
const MEMORY: &str = "Memory";
/// Rows of another release.
const OTHER: &str = "Other rows";

/// In the order of a report, what sees most of the product first.
pub(super) const SUITES: [&str; 10] =
    [STREAM, TRANSPORT, ROUNDTRIP, HANDSHAKE, EVIDENCE, FRAME, CRYPTO, TRANSFER, MEMORY, OTHER];

/// The suite of a row.
pub(super) fn suite(id: &RowId) -> &'static str {
    known(id).map_or(OTHER, |(suite, _)| suite)
}

/// What a row measures.
pub(super) fn caption(id: &RowId) -> &'static str {
    known(id).map_or("", |(_, caption)| caption)
}

fn known(id: &RowId) -> Option<(&'static str, &'static str)> {
    let row = id.0.split('/').next()?;
    ROWS.iter().find(|(known, ..)| *known == row).map(|(_, suite, caption)| (*suite, *caption))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_known_by_the_beginning_of_their_id() {
        let of = |id: &str| suite(&RowId(id.to_owned()));
        assert_eq!((of("C3-tcp/1536@rustls"), of("C3"), of("C31/1")), (STREAM, STREAM, OTHER));
        assert_eq!(caption(&RowId("H1/update".to_owned())), "packets with new keys, less packets without");
        assert!(ROWS.iter().all(|(_, suite, _)| SUITES.contains(suite)));
    }
}

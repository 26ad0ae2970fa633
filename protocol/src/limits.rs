//! Every bound of the protocol, units last. What a peer sends is measured against these before anything is
//! allocated for it.

/// Plaintext bytes of one record. Large enough that the cipher runs at memory speed, small enough that a
/// batch stays in the second-level cache.
pub const RECORD_PLAINTEXT_BYTES_MAX: usize = 65_536;
/// Record header: type and length.
pub const RECORD_HEADER_BYTES: usize = 4;
/// Tag of every listed cipher.
pub const TAG_BYTES: usize = 16;
/// One record on the wire.
pub const RECORD_WIRE_BYTES_MAX: usize = RECORD_HEADER_BYTES + RECORD_PLAINTEXT_BYTES_MAX + TAG_BYTES;

/// Frame header: type and length.
pub const FRAME_HEADER_BYTES: usize = 4;
/// Body of one frame; a frame never spans records.
pub const FRAME_BODY_BYTES_MAX: usize = RECORD_PLAINTEXT_BYTES_MAX - FRAME_HEADER_BYTES;

/// Sealed records that wait for the carrier before tensor data is held back. Measured: larger batches leave
/// the second-level cache.
pub const OUTPUT_BATCH_BYTES: usize = 4 * (RECORD_WIRE_BYTES_MAX + 320);
/// What an input buffer begins with; it grows to a batch.
pub const INPUT_BYTES_MIN: usize = 4_096;
/// Room beyond the batch that only control frames may use, so that credit and acknowledgements never wait
/// behind data.
pub const OUTPUT_RESERVE_BYTES: usize = 2 * RECORD_WIRE_BYTES_MAX;
/// Fragments shorter than this begin a new record instead of filling up the last one.
pub const CHUNK_BYTES_MIN: usize = 4_096;
/// Tensor bytes that one frame says to follow in bulk records: a batch of full ones.
pub const BULK_BYTES_MAX: usize = 4 * RECORD_PLAINTEXT_BYTES_MAX;
/// The frame that says so.
pub const BULK_FRAME_BYTES: usize = FRAME_HEADER_BYTES + 4 + 8 + 8 + 3;
/// Fewer bytes of a tensor share a record with other frames: a record of their own, and the one before it that says what they
/// are, would cost more than the copy that they save.
pub const BULK_BYTES_MIN: usize = 16_384;

/// The initiator's hello, extensions included.
pub const HELLO_BYTES_MAX: usize = 512;
/// Versions or suites that one hello lists.
pub const HELLO_LIST_MAX: usize = 32;
/// A Noise message with its payload.
pub const HANDSHAKE_MESSAGE_BYTES_MAX: usize = 2_048;

/// ML-KEM-768 (FIPS 203): encapsulation key, ciphertext.
pub const KEM_KEY_BYTES: usize = 1_184;
/// See [`KEM_KEY_BYTES`].
pub const KEM_CIPHERTEXT_BYTES: usize = 1_088;

/// Everything that a side sends between its confirm frame and its verdict, policy apart.
pub const EVIDENCE_BYTES_MAX: usize = 65_536;
/// A policy chain (JSON of `SignedChain`) handed to a peer that is behind.
pub const POLICY_CHAIN_BYTES_MAX: usize = 4_194_304;
/// One fragment of evidence or policy.
pub const FRAGMENT_BYTES_MAX: usize = 32_768;
/// From the first byte to the verdict on both sides.
pub const HANDSHAKE_DEADLINE_MICROS: u64 = 10_000_000;

/// Between two attestations of one connection: each costs both sides a quote.
pub const REATTEST_INTERVAL_MICROS_MIN: u64 = 5_000_000;

/// Tickets that a side remembers of those that it gave out: a kilobyte or two each.
pub const TICKETS_ISSUED_MAX: usize = 4_096;
/// Tickets of one remote that a side remembers, given or got: as many connections as come back at once after a cut.
pub const TICKETS_OF_REMOTE_MAX: usize = 16;
/// Tickets that a connection hands over for one attestation.
pub const TICKETS_OF_ATTESTATION_MAX: u32 = 16;
/// A connection, with all that renewed or resumed it, where the policy does not say otherwise.
pub const LIFE_MICROS: u64 = 86_400_000_000;

/// A link without output for this long sends a ping.
pub const KEEPALIVE_INTERVAL_MICROS: u64 = 5_000_000;
/// A link without input for this long is lost.
pub const KEEPALIVE_DEADLINE_MICROS: u64 = 20_000_000;

/// Bytes sealed under one key: the bound of GCM for traffic that an observer may choose.
pub const PHASE_BYTES_MAX: u64 = 64 << 30;
/// Records sealed under one key.
pub const PHASE_RECORDS_MAX: u64 = 1 << 32;
/// Age of a key at its sender.
pub const PHASE_MICROS_MAX: u64 = 3_600_000_000;

/// How long packets under a key that was replaced may still arrive.
pub const PHASE_OVERLAP_MICROS: u64 = 3_000_000;
/// How much longer a key of packets may live than one of records: its sender does not replace it before it has heard that
/// it was seen, and may hear nothing for so long.
pub const PHASE_SILENCE_MICROS: u64 = KEEPALIVE_DEADLINE_MICROS;
/// Packets that did not open until a connection ends: after so many attempts one of GCM might (RFC 9001 §6.6).
pub const PACKETS_UNOPENED_GCM_MAX: u64 = 1 << 52;
/// As [`PACKETS_UNOPENED_GCM_MAX`] for ChaCha20-Poly1305, and for AEGIS-256X4, which asks for no less.
pub const PACKETS_UNOPENED_CHACHA_MAX: u64 = 1 << 36;

/// UDP payload that every path has to carry (RFC 9000 §14).
pub const DATAGRAM_BYTES_MIN: usize = 1_200;
/// UDP payload of one datagram.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
/// What one side of a handshake says at once, over datagrams.
pub const FLIGHT_BYTES_MAX: usize = 4_096;
/// First wait until a flight is said again, and the longest: a handshake may take ten seconds.
pub const FLIGHT_WAIT_MICROS: u64 = 100_000;
/// See [`FLIGHT_WAIT_MICROS`].
pub const FLIGHT_WAIT_MICROS_MAX: u64 = 1_600_000;
/// How long a cookie is good.
pub const COOKIE_MICROS_MAX: u64 = 10_000_000;
/// Runs of packets in one acknowledgement beside the newest.
pub const ACKNOWLEDGED_RUNS_MAX: usize = 16;
/// Packets that a sender remembers while it only acknowledges: a remote that never does so itself hears no more.
pub const SENT_PACKETS_MAX: usize = 1 << 16;
/// Packets after which the remote is told that they came.
pub const ACKNOWLEDGE_PACKETS: u32 = 16;
/// How long fewer may wait.
pub const ACKNOWLEDGE_DELAY_MICROS: u64 = 1_000;
/// Runs of packet numbers that a receiver remembers.
pub const RECEIVED_RANGES_MAX: usize = 64;
/// Bytes of a connection's datagrams behind a gap, from a remote that has proved nothing.
pub const STREAM_WINDOW_BYTES_MIN: u64 = 128 << 10;
/// The same once both sides are verified.
pub const STREAM_WINDOW_BYTES: u64 = 16 << 20;
/// Runs of bytes behind a gap.
pub const STREAM_RANGES_MAX: usize = 4_096;
/// Times that an address to which the remote may have moved is asked whether it receives.
pub const PATH_TRIES_MAX: u8 = 3;
/// Longest wait until a silent path is tried again; silence ends the connection after ten of them.
pub const PROBE_MICROS_MAX: u64 = 2_000_000;

/// Streams that one connection carries at once.
pub const STREAMS_MAX: usize = 256;
/// Links of one connection, the first included.
pub const LINKS_MAX: u8 = 4;
/// Pipes that one connection carries at once.
pub const PIPES_MAX: usize = 1_024;
/// Bytes of a pipe that each side may send before the other has granted any.
pub const PIPE_WINDOW_BYTES: u64 = 256 << 10;
/// Largest window of a pipe: bytes that its receiver has granted and its application has not taken.
pub const PIPE_WINDOW_BYTES_MAX: u64 = 16 << 20;
/// Dimensions of a tensor.
pub const TENSOR_RANK_MAX: usize = 32;
/// Name of a tensor, UTF-8.
pub const TENSOR_NAME_BYTES_MAX: usize = 255;
/// One tensor.
pub const TENSOR_BYTES_MAX: u64 = 1 << 42;
/// Tensors of one run.
pub const RUN_TENSORS_MAX: u64 = 256;
/// Bytes of one run. An application that keeps one tensor of it keeps the memory of all.
pub const RUN_BYTES_MAX: u64 = 256 << 10;
/// Sequences in one acknowledgement.
pub const TAKEN_SEQUENCES_MAX: usize = 1_024;

/// Tensors of a stream that a sender may have announced and the receiving application has not taken.
pub const WINDOW_TENSORS: u64 = 4_096;
/// Tensor bytes that a receiver accepts before it reserved a place for them, so that small tensors need no
/// round trip.
pub const STAGING_BYTES: u64 = 1 << 20;
/// Bytes of tensors announced ahead of their data, so that the receiver reserves early and credit for large
/// tensors never runs dry.
pub const ANNOUNCE_AHEAD_BYTES: u64 = 64 << 20;

/// Tensors announced ahead of their data: enough to fill the window with small ones, few enough that headers
/// and bytes stay together in a batch.
pub const ANNOUNCE_AHEAD_TENSORS: usize = 64;

const _: () = {
    assert!(RECORD_PLAINTEXT_BYTES_MAX + TAG_BYTES < 1 << 24, "a record's length fits its three bytes");
    assert!(FRAME_BODY_BYTES_MAX < 1 << 24, "a frame's length fits its three bytes");
    assert!(HELLO_BYTES_MAX < 1 << 16, "a hello's length fits its two bytes");
    assert!(KEM_KEY_BYTES + 256 < HANDSHAKE_MESSAGE_BYTES_MAX, "message 1 fits");
    assert!(
        HANDSHAKE_MESSAGE_BYTES_MAX < RECORD_WIRE_BYTES_MAX,
        "one input buffer serves handshake and records"
    );
    assert!(FRAGMENT_BYTES_MAX + 64 < FRAME_BODY_BYTES_MAX, "a fragment fits a frame");
    assert!(BULK_BYTES_MAX < 1 << 24, "the length of a bulk fits its three bytes");
    assert!(BULK_BYTES_MAX < OUTPUT_BATCH_BYTES, "a bulk fits the output");
    assert!(EVIDENCE_BYTES_MAX < POLICY_CHAIN_BYTES_MAX);
    assert!(TAKEN_SEQUENCES_MAX * 8 + 64 < FRAME_BODY_BYTES_MAX, "an acknowledgement fits a frame");
    assert!(TENSOR_RANK_MAX * 8 + TENSOR_NAME_BYTES_MAX + 64 < FRAME_BODY_BYTES_MAX, "a header fits a frame");
    assert!(
        PHASE_BYTES_MAX / 16 <= 1 << 32,
        "2^32 blocks under one key: a distinguisher gains at most 2^-64"
    );
    assert!(PIPE_WINDOW_BYTES <= PIPE_WINDOW_BYTES_MAX, "credit only widens a window");
    assert!(KEEPALIVE_INTERVAL_MICROS * 3 < KEEPALIVE_DEADLINE_MICROS, "three pings may be lost");
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Written out: other tests say what happens at a bound, in terms of the bound itself.
    #[test]
    fn bounds_are_what_they_are_told_to_be() {
        assert_eq!((RECORD_WIRE_BYTES_MAX, FRAME_BODY_BYTES_MAX), (65_556, 65_532));
        assert_eq!((OUTPUT_BATCH_BYTES, OUTPUT_RESERVE_BYTES), (263_504, 131_112));
        assert_eq!((BULK_BYTES_MIN, BULK_BYTES_MAX), (16_384, 262_144));
        assert_eq!((PHASE_BYTES_MAX, PHASE_RECORDS_MAX), (68_719_476_736, 4_294_967_296));
        assert_eq!((PIPE_WINDOW_BYTES, PIPE_WINDOW_BYTES_MAX), (262_144, 16_777_216));
        assert_eq!((TENSOR_BYTES_MAX, STAGING_BYTES), (4_398_046_511_104, 1_048_576));
        assert_eq!(ANNOUNCE_AHEAD_BYTES, 67_108_864);
    }
}

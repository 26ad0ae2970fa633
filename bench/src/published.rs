//! The published tables that our rows answer: what was published, on which machine, and how it has to be read.
//!
//! These figures are text. They were taken on other machines, so nothing here is ever divided by anything of ours.

/// A published report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table {
    /// What its ids begin with.
    pub letter: char,
    pub title: &'static str,
    /// Where its figures come from.
    pub machine: &'static str,
    pub figures: &'static [Published],
}

/// One row of a published report, or several that were published together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Published {
    /// `C1`, `W1-W3`.
    pub ids: &'static str,
    pub operation: &'static str,
    pub figure: &'static str,
    /// What the figure is not, and where ours is of something else.
    pub reading: &'static str,
    /// Our rows that answer it, by the beginning of their ids. Empty: it is missing.
    pub rows: &'static [&'static str],
}

pub(crate) const TABLES: [Table; 5] = [
    Table {
        letter: 'C',
        title: "C: confidential-ml-transport",
        machine: "4-vCPU TDX virtual machine, in-process duplex, mock attestation",
        figures: TRANSPORT,
    },
    Table { letter: 'W', title: "W: WRAITH protocol", machine: "Intel i9-10850K", figures: PROTOCOL },
    Table {
        letter: 'P',
        title: "P: WRAITH performance targets",
        machine: "none: published before any implementation existed, so these are targets",
        figures: TARGETS,
    },
    Table { letter: 'A', title: "A: AetherCore", machine: "its own, not this one", figures: MESH },
    Table {
        letter: 'H',
        title: "H: Hyper-Rotation messenger",
        machine: "its own, not this one; in Python",
        figures: ROTATION,
    },
];

const TRANSPORT: &[Published] = &[
    of(
        "C1",
        "fresh three-message attested handshake",
        "142.9 µs p50",
        "Attestation was a mock and there were no static keys: a key exchange without authentication. It resumes nothing.",
        &["C1"],
    ),
    of(
        "C2",
        "round trip of 1536 B / 4096 B / 384 KiB",
        "108 / 125 µs / 1.86 ms (plaintext 84 / 85 / 214 µs)",
        "",
        &["C2", "C2-tcp", "C2-added"],
    ),
    of(
        "C3",
        "one-way burst of 1536 B / 4 KiB / 384 KiB / 1 MiB",
        "403 / 604 / 918 / 785 MB/s (plaintext 3.0 / 4.6 / 5.2 / 4.7 GB/s)",
        "Sealing cost 82 to 87 % of the speed. The same crate runs beside us here; the ratio of our rows is of this run.",
        &["C3", "C3-chacha", "C3-handed", "C3-tcp", "C3-tcp-floor"],
    ),
    of("C4", "overhead in an inference request", "0.25 % of a 100 ms request", "", &["C4"]),
];

const PROTOCOL: &[Published] = &[
    of(
        "W1-W3",
        "frame parse, 64 to 1456 B",
        "6.9 ns; “SIMD” 2.4 ns",
        "“SIMD” discarded its loads: the same code. A parse alone opens nothing; ours includes the open.",
        &["W1-W3"],
    ),
    of(
        "W4-W6",
        "frame build, 64 to 1456 B; round trip",
        "21 to 181 ns; 186 ns; targets 50 / 57; later 18",
        "A frame that is not sealed; ours includes the seal.",
        &["W4-W6"],
    ),
    of(
        "W7",
        "build, seal, open and parse on one core",
        "5.3 Gbps; target 8",
        "A sum of parts that was never run. Ours runs from end to end.",
        &["W7"],
    ),
    of("W8", "transfer state for 100 to 100k chunks", "1.5 µs to 1.68 ms", "", &[]),
    of(
        "W9-W13",
        "missing chunks, count, is-missing, mark",
        "13 µs to 3.6 ns; 0.4 ns; 17 ns; 651 ns",
        "",
        &[],
    ),
    of(
        "W14-W16",
        "swarm: add and assign a peer, next chunk, speed",
        "1.3 µs, 59 ns, 396 µs (target 10), 259 µs, 3.8 ns",
        "",
        &[],
    ),
    of("W17", "100 chunks of 1 MiB written", "23.9 ms", "No chunk was verified before it was written.", &[]),
    of(
        "W18-W22",
        "AEAD, 64 B to 64 KiB, round trips",
        "1.2 to 51 µs",
        "",
        &[
            "W18-W22/seal-64",
            "W18-W22/seal-65536",
            "W18-W22/round-64",
            "W18-W22/round-65536",
            "W18-W22-chacha/round-64",
            "W18-W22-chacha/round-65536",
        ],
    ),
    of(
        "W23",
        "X25519 key generation",
        "247 ns",
        "32 random bytes were drawn; no key was computed. Ours is a key with its public half.",
        &["W23"],
    ),
    of("W24", "X25519 exchange", "40.8 µs", "", &["W24"]),
    of("W25", "BLAKE3 of several sizes", "59 ns to 33 µs", "", &["W25"]),
    of("W26", "HKDF", "195 ns", "", &["W26"]),
    of("W27", "Noise key pair", "25.9 µs", "", &["W27"]),
    of(
        "W28",
        "Noise XX",
        "423 µs",
        "Its session keys were derived from the handshake hash, which is public. Ours are not.",
        &["W28"],
    ),
    of("W29", "Noise message 1", "49 µs", "", &["W29"]),
    of(
        "W30",
        "ratchet step",
        "171 ns",
        "A step by itself. Ours carries the change to the other end and replaces the keys at both.",
        &["W30"],
    ),
    of(
        "W31-W35",
        "Double Ratchet: init, encrypt, decrypt, round trip, header",
        "43 µs; 26.7 µs (target 15); 92 µs; 117 µs",
        "Its state changed before the tag was verified.",
        &[],
    ),
    of("W36", "Elligator2 key generation / decode / exchange", "59 / 22 / 63 µs", "", &[]),
    of(
        "W37",
        "constant-time compare and select (published with W38)",
        "40 / 2.5 ns for both rows",
        "",
        &["W37"],
    ),
    of(
        "W38",
        "replay window (published with W37)",
        "40 / 2.5 ns for both rows",
        "The window moved before the packet was authenticated. Ours is the whole way of a datagram that comes again.",
        &["W38"],
    ),
    of(
        "W39-W46",
        "chunking, tree hash of 1 / 10 / 100 MB, incremental, Merkle root, seek",
        "64 µs per MB; 197 µs / 2.3 / 35.6 ms; 24 ns; 62 ns per parent; 401 µs",
        "The incremental “update” of 24 ns was a memcpy.",
        &[],
    ),
    of("W47", "verify a chunk", "49.5 µs", "", &[]),
    of("W48", "reassembly", "173 µs per MB", "No chunk was verified before it was written.", &[]),
    of(
        "W49",
        "timing obfuscation: none, fixed, uniform, normal, exponential",
        "2 to 18 ns",
        "A delay was drawn and never waited.",
        &[],
    ),
    of(
        "W50-W51",
        "padding: size classes; statistical",
        "11 to 68; 63 to 130 ns",
        "A length was computed and no padding was added.",
        &[],
    ),
    of(
        "W52",
        "profile from a threat level; overhead",
        "2 ns; constants",
        "The overhead was not measured.",
        &[],
    ),
    of(
        "W53-W55",
        "TLS, WebSocket and DNS-over-HTTPS mimicry",
        "7 to 82; 79 to 1725; 15 to 283 ns",
        "Bytes that look like a carrier; there was no carrier.",
        &[],
    ),
];

const TARGETS: &[Published] = &[
    of("P1", "BLAKE3, 1 KB / 64 KB / 1 MB", "412 ns / 8.2 / 128 µs", NOTHING_MEASURED, &["P1"]),
    of("P2", "AEAD, 1 KB / 64 KB / 1 MB", "205 ns / 7.5 / 118 µs", NOTHING_MEASURED, &["P2"]),
    of(
        "P3",
        "Noise XX with a network",
        "1.42 ms",
        "A target; nothing was measured. Ours crosses loopback, not a network.",
        &["P3"],
    ),
    of("P4", "UDP over loopback, 512 to 8192 B", "2.1 to 9.4 Gbps", NOTHING_MEASURED, &["P4", "P4-udp"]),
    of(
        "P5",
        "UDP over a LAN, 512 to 8192 B",
        "5.2 to 8.7 Gbps",
        "A target; nothing was measured. Ours crosses a veth between two network namespaces, not a LAN.",
        &["P5"],
    ),
    of(
        "P6",
        "AF_XDP, 512 / 1024 / 1472 B",
        "4.2 / 8.3 / 11.8 Gbps",
        "A target; nothing was measured. The last one is above its own line rate. Ours crosses a veth, copied.",
        &["P6"],
    ),
    of("P7", "1 GB from a single peer", "2.43 s, 3.29 Gbps, 45 / 42 MB of memory", NOTHING_MEASURED, &["P7"]),
    of("P8", "swarm of 1 to 10 peers", "0.85 to 5.12 Gbps", NOTHING_MEASURED, &[]),
    of(
        "P9-P10",
        "DHT lookup among 100 to 100k nodes; store",
        "82 to 612 ms; 2450 to 423 per second",
        NOTHING_MEASURED,
        &[],
    ),
    of(
        "P11",
        "memory per session",
        "71 KB; 71 MB for 1000",
        NOTHING_MEASURED,
        &["P11", "growth/idle-connection"],
    ),
    of(
        "P12",
        "packet latency, UDP (p50 / p99 / p99.9)",
        "3.8 / 15.3 / 32.7 µs",
        "A target; nothing was measured, nor said whether one way. Ours is there and back.",
        &["P12"],
    ),
    of(
        "P13",
        "packet latency, AF_XDP (p50 / p99 / p99.9)",
        "0.71 / 2.8 / 5.2 µs",
        "A target; nothing was measured, nor said whether one way. Ours is there and back.",
        &["P13"],
    ),
    of(
        "P14-P17",
        "SIMD verify, buffer pool, io_uring, throughput",
        "3 ×; 2.3 ×; 2.5 ×; ≥ 10 Gbps XDP, ≥ 5 UDP, < 50 % CPU",
        NOTHING_MEASURED,
        &[],
    ),
];

const MESH: &[Published] = &[
    of("A1-A2", "sign an event; batches of 10 / 100 / 1000", "22.6 µs each", "Batches gained nothing.", &[]),
    of("A3", "checkpoint of 10 / 100 / 1000", "5.4 / 63 / 679 µs", "The signature was empty.", &[]),
    of("A4-A5", "trust score; node health", "0.94 / 87 ns", "The keys that were looked up were absent.", &[]),
    of("A6", "gossip summary, serialised and parsed", "304 / 213 ns", "", &[]),
    of("A7-A8", "dispatch to 1 … 100 units", "36 ns to 4 µs", "Nothing was delivered.", &[]),
    of("A9-A10", "verify authority; quorum of 3", "41 / 120 µs", "Duplicate signers were counted.", &[]),
    of("A11-A12", "command hash; serialise unit, swarm", "99; 230, 617 ns", "", &[]),
    of(
        "A13-A14",
        "vine leaf; batches",
        "29.5 µs; 148 ms per 1000",
        "O(n²), and XOR in the place of a hash.",
        &[],
    ),
    of(
        "A15-A17",
        "root; proof made; proof verified",
        "0.6; 44; 7.2 ns",
        "The path was empty and compared with its own state.",
        &[],
    ),
    of("A18", "BLAKE3 of payloads", "published without a figure that is kept here", "", &[]),
    of("A19", "stream of 100 leaves", "1.45 ms", "O(n²), and XOR in the place of a hash.", &[]),
    of("A20", "latency budgets", "published without a figure that is kept here", "", &[]),
];

const ROTATION: &[Published] = &[
    of("H1", "window key derivation", "89 µs; target ≤ 0.2 ms", "", &["H1"]),
    of(
        "H2-H4",
        "AEAD of 1 KB; throughput",
        "12 µs; 847 Mbps",
        "The header was not authenticated. Ours is.",
        &["W18-W22/seal-1024", "W18-W22/open-1024", "C3/1536"],
    ),
    of("H5", "end to end", "15 to 20 ms; target ≤ 30, p95 ≤ 75", "", &["H5"]),
    of(
        "H6",
        "replay check",
        "1 µs",
        "Its state changed before decryption. Ours changes after it; W38 is the whole way of a datagram that comes again.",
        &["W38"],
    ),
    of("H7-H8", "RSA key generation, 1024 / 2048", "69 ms / 150 to 250 ms", "", &[]),
    of(
        "H9",
        "memory per connection",
        "1.5 KB, at most 2 live keys; target < 5 KB",
        "Keys alone. Ours is all that one end holds: keys, cipher contexts, what is known of the peer.",
        &["H9"],
    ),
];

const NOTHING_MEASURED: &str = "A target; nothing was measured.";

const fn of(
    ids: &'static str,
    operation: &'static str,
    figure: &'static str,
    reading: &'static str,
    rows: &'static [&'static str],
) -> Published {
    Published { ids, operation, figure, reading, rows }
}

/// The single ids of `W1-W3` or `C4`; none of what is no id of a published table, such as `portable`.
pub(crate) fn singles(ids: &str) -> Vec<(char, u32)> {
    let one = |text: &str| {
        let letter = text.chars().next().filter(char::is_ascii_uppercase)?;
        Some((letter, text.strip_prefix(letter)?.parse::<u32>().ok()?))
    };
    let (first, last) = ids.split_once('-').unwrap_or((ids, ids));
    match (one(first), one(last)) {
        (Some((letter, first)), Some((same, last))) if letter == same => {
            (first..=last).map(|number| (letter, number)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::Selection;
    use crate::suites;

    /// How many rows each report has.
    const COUNTS: [(char, u32); 5] = [('C', 4), ('W', 55), ('P', 17), ('A', 20), ('H', 9)];

    fn published() -> impl Iterator<Item = &'static Published> {
        TABLES.iter().flat_map(|table| table.figures)
    }

    #[test]
    fn every_published_row_is_here_once_and_in_order() {
        for (table, (letter, count)) in TABLES.iter().zip(COUNTS) {
            let found: Vec<_> = table.figures.iter().flat_map(|one| singles(one.ids)).collect();
            let expected: Vec<_> = (1..=count).map(|number| (letter, number)).collect();
            assert_eq!((table.letter, found), (letter, expected));
        }
    }

    #[test]
    fn every_published_row_is_measured_or_listed_as_missing() {
        let missing: BTreeSet<_> = suites::not_measured(&Selection::default())
            .iter()
            .flat_map(|missing| singles(&missing.id.0))
            .collect();
        for one in published() {
            for id in singles(one.ids) {
                assert_eq!(one.rows.is_empty(), missing.contains(&id), "{id:?} of {}", one.ids);
            }
        }
    }

    #[test]
    fn rows_that_answer_are_rows_that_there_are() {
        let documented = include_str!("../README.md");
        for filter in published().flat_map(|one| one.rows) {
            let row = filter.split('/').next().unwrap_or(filter);
            assert!(documented.contains(&format!("`{row}/")), "{filter} is no row of bench/README.md");
        }
    }

    #[test]
    fn ranges_are_of_one_table() {
        assert_eq!(singles("W1-W3"), [('W', 1), ('W', 2), ('W', 3)]);
        assert_eq!(singles("C4"), [('C', 4)]);
        for other in ["portable", "W1-P3", "W18-W22-chacha", "flood/p99", ""] {
            assert_eq!(singles(other), [], "{other}");
        }
    }
}

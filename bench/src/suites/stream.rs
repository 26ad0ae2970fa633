//! C3: one way, from the first put until the last byte is in the receiver's memory.

use std::sync::Arc;

use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_types::Cipher;

use crate::bench::{Bench, Ran};
use crate::carrier::Path;
use crate::contest::{Caption, Contest, Series};
use crate::message::Payloads;
use crate::ours::{Ours, OverBuffers};
use crate::pair::Pair;
use crate::peer::plaintext::{self, Plaintext};
use crate::peer::tls::{self, Tls, Writes};
use crate::peer::transport::{self, Transport};
use crate::plan::Suite;
use crate::row::{Better, RowId, Subject, Unit};
use crate::samples::Burst;
use crate::suites::floor::{self, floor};
use crate::world::World;

/// Bytes of a message, and how many times faster than the peer ours has to be in memory.
const CASES: [(usize, f64); 4] = [(1_536, 9.0), (4_096, 7.0), (393_216, 5.0), (LARGEST, 3.5)];
const LARGEST: usize = 1_048_576;
/// Bytes of a message that is handed over, and how many times faster than the peer's over its own way in memory.
const HANDED: [usize; 2] = [393_216, LARGEST];
const HANDED_LIMIT: f64 = 5.5;
/// How many times faster than TLS, with plain writes and behind a buffer, ours has to be with messages of [`LARGEST`].
const TLS_LIMIT: f64 = 1.15;
/// The floor's time over ours for messages of [`LARGEST`], at least.
const FLOOR_LIMIT: f64 = 0.8;
const RUSTLS: &str = "rustls 0.23, AES-256-GCM of aws-lc";

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let world = Arc::new(World::new(false)?);
    let ours = |cipher| Ours::new(&world, Ciphers::new(KeyExchange::Hybrid, cipher));
    let (aes, chacha) = (ours(Cipher::Aes256Gcm)?, ours(Cipher::ChaCha20Poly1305)?);
    for (bytes, limit) in CASES {
        memory(bench, (&aes, &chacha), bytes, limit)?;
        tcp(bench, &aes, bytes)?;
    }
    for bytes in HANDED {
        handed(bench, &aes, bytes)?;
    }
    Ok(())
}

fn memory(bench: &mut Bench<'_>, (aes, chacha): (&Ours, &Ours), bytes: usize, limit: f64) -> Ran {
    let (id, chacha_id) = (RowId::new("C3", bytes), RowId::new("C3-chacha", bytes));
    let plain_id = id.beside(plaintext::NAME);
    if !bench.wants_any([&id, &chacha_id, &plain_id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let payloads = Payloads::new(bytes);
    let target = bench.plan.sample;
    let first = Burst::new(Pair::connect(aes, Path::Memory, &payloads)?, bytes, target)?;
    let second = Burst::new(Pair::connect(&Transport, Path::Memory, &payloads)?, bytes, target)?;
    let third = Burst::new(Pair::connect(chacha, Path::Memory, &payloads)?, bytes, target)?;
    let fourth = Burst::new(Pair::connect(&Plaintext, Path::Memory, &payloads)?, bytes, target)?;
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contenders = [&first, &second, &third, &fourth].map(Burst::contender);
    let contest = Contest::hold(warmups, rounds, contenders)?;
    let [aes, theirs, chacha, plain] = &contest.series;
    let what = format!("{bytes} B one way in process");
    let name = format!("{what}, AES-256-GCM against its default");
    let row = caption(id, name, transport::NAME, Some(limit));
    bench.row(row.row(aes, Some(theirs), &contest.control));
    let name = format!("{what}, ChaCha20-Poly1305 on both sides");
    let row = caption(chacha_id, name, transport::NAME, None);
    bench.row(row.row(chacha, Some(theirs), &contest.control));
    let name = format!("{what}, against the same framing unsealed");
    let row = caption(plain_id, name, plaintext::NAME, None);
    bench.row(row.row(aes, Some(plain), &contest.control));
    Ok(())
}

fn handed(bench: &mut Bench<'_>, aes: &Ours, bytes: usize) -> Ran {
    let id = RowId::new("C3-handed", bytes);
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let (payloads, target) = (Payloads::new(bytes), bench.plan.sample);
    let ours = Pair::connect(&OverBuffers(aes.clone()), Path::Handed, &payloads)?;
    let theirs = Pair::connect(&Transport, Path::Memory, &payloads)?;
    let (ours, theirs) = (Burst::new(ours, bytes, target)?, Burst::new(theirs, bytes, target)?);
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contest = Contest::hold(warmups, rounds, [ours.contender(), theirs.contender()])?;
    let [ours, theirs] = &contest.series;
    let name = format!(
        "{bytes} B one way in process, batches handed over as buffers, AES-256-GCM against its default"
    );
    let note = "another carrier than the peer's, which writes into a duplex in memory: it has no other";
    let row = Caption { note: note.to_owned(), ..caption(id, name, transport::NAME, Some(HANDED_LIMIT)) };
    bench.row(row.row(ours, Some(theirs), &contest.control));
    Ok(())
}

fn tcp(bench: &mut Bench<'_>, aes: &Ours, bytes: usize) -> Ran {
    let id = RowId::new("C3-tcp", bytes);
    let beside = [plaintext::NAME, tls::NAME, tls::NAME_BUFFERED].map(|peer| id.beside(peer));
    let floor_id = RowId::new("C3-tcp-floor", bytes);
    if !bench.wants_any(beside.iter().chain([&id, &floor_id])) {
        return Ok(());
    }
    bench.measuring(&id);
    let payloads = Payloads::new(bytes);
    let (plain, buffered) = (Tls::new(Writes::Plain)?, Tls::new(Writes::Buffered)?);
    let (target, path) = (bench.plan.sample, Path::Loopback);
    let bursts = [
        Burst::new(Pair::connect(aes, path, &payloads)?, bytes, target)?,
        Burst::new(Pair::connect(&Transport, path, &payloads)?, bytes, target)?,
        Burst::new(Pair::connect(&Plaintext, path, &payloads)?, bytes, target)?,
        Burst::new(Pair::connect(&plain, path, &payloads)?, bytes, target)?,
        Burst::new(Pair::connect(&buffered, path, &payloads)?, bytes, target)?,
    ];
    let cipher = floor::cipher(bench.plan.micro)?;
    let [first, second, third, fourth, fifth] = bursts.each_ref().map(Burst::contender);
    let contenders = [first, second, third, fourth, fifth, cipher.contender()];
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contest = Contest::hold(warmups, rounds, contenders)?;
    let [ours, theirs, unsealed, plain, buffered, records] = &contest.series;
    let [unsealed_id, plain_id, buffered_id] = beside;
    let tls_limit = (bytes == LARGEST).then_some(TLS_LIMIT);
    let rows = [
        (id, "AES-256-GCM against its default", transport::NAME, None, theirs),
        (unsealed_id, "against the same framing unsealed", plaintext::NAME, None, unsealed),
        (plain_id, "against TLS 1.3, a write for each", RUSTLS, tls_limit, plain),
        (buffered_id, "against TLS 1.3 behind a buffer of 64 KiB", RUSTLS, tls_limit, buffered),
    ];
    for (id, what, peer, limit, theirs) in rows {
        let row = caption(id, format!("{bytes} B one way over TCP loopback, {what}"), peer, limit);
        bench.row(row.row(ours, Some(theirs), &contest.control));
    }
    let [ours, unsealed] = [0, 2].map(|place| {
        let wrong = contest.series[place].wrong.clone();
        Series { wrong, ..bursts[place].processor_series(rounds) }
    });
    let row = Caption {
        unit: Unit::NanosecondsPerByte,
        better: Better::Lower,
        note: "of both ends, which are in one process, with what the network does for them".to_owned(),
        ..caption(
            floor_id,
            format!("{bytes} B one way over TCP loopback: time of all cores for a byte"),
            "plaintext, and 64 KiB sealed and opened in place beside it",
            (bytes == LARGEST).then_some(FLOOR_LIMIT),
        )
    };
    bench.row(row.row(&ours, Some(&floor(&unsealed, records)), &contest.control));
    Ok(())
}

fn caption(id: RowId, name: String, peer: &str, limit: Option<f64>) -> Caption {
    Caption {
        id,
        suite: Suite::Stream.word(),
        name,
        unit: Unit::GigabytesPerSecond,
        better: Better::Higher,
        peer: Some(peer.to_owned()),
        limits: limit.map(|limit| (Subject::Ratio, limit)).into_iter().collect(),
        doubt: None,
        note: String::new(),
    }
}

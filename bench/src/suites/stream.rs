//! C3: one way, from the first put until the last byte is in the receiver's memory.

use std::sync::Arc;

use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_types::Cipher;

use crate::bench::{Bench, Ran};
use crate::carrier::Path;
use crate::contest::{Caption, Contest};
use crate::message::Payloads;
use crate::ours::Ours;
use crate::pair::Pair;
use crate::peer::plaintext::{self, Plaintext};
use crate::peer::tls::{self, Tls, Writes};
use crate::peer::transport::{self, Transport};
use crate::plan::Suite;
use crate::row::{Better, RowId, Subject, Unit};
use crate::samples::Burst;
use crate::world::World;

/// Bytes of a message, and what is asked of us: in memory, over TCP, and with the peer's own cipher.
const CASES: [(usize, f64, f64, f64); 4] =
    [(1_536, 12.0, 15.0, 2.0), (4_096, 12.0, 9.0, 2.0), (393_216, 8.0, 4.0, 1.5), (1_048_576, 8.0, 4.5, 1.5)];
/// Bytes of a message, and how much faster than TLS with plain writes, and behind a buffer, ours has to be.
const TLS_LIMITS: [(usize, f64, f64); 3] = [(1_536, 4.0, 1.2), (393_216, 1.2, 1.2), (1_048_576, 1.2, 1.2)];
/// How much of the unsealed framing's speed must be left.
const PLAINTEXT_LIMIT: f64 = 0.9;
const RUSTLS: &str = "rustls 0.23, AES-256-GCM of aws-lc";

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let world = Arc::new(World::new(false)?);
    let ours = |cipher| Ours::new(&world, Ciphers::new(KeyExchange::Hybrid, cipher));
    let (aes, chacha) = (ours(Cipher::Aes256Gcm)?, ours(Cipher::ChaCha20Poly1305)?);
    for (bytes, memory_limit, tcp_limit, chacha_limit) in CASES {
        memory(bench, (&aes, &chacha), bytes, (memory_limit, chacha_limit))?;
        tcp(bench, &aes, bytes, tcp_limit)?;
    }
    Ok(())
}

fn memory(
    bench: &mut Bench<'_>,
    (aes, chacha): (&Ours, &Ours),
    bytes: usize,
    (limit, chacha_limit): (f64, f64),
) -> Ran {
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
    let row = caption(chacha_id, name, transport::NAME, Some(chacha_limit));
    bench.row(row.row(chacha, Some(theirs), &contest.control));
    let name = format!("{what}, against the same framing unsealed");
    let row = caption(plain_id, name, plaintext::NAME, None);
    bench.row(row.row(aes, Some(plain), &contest.control));
    Ok(())
}

fn tcp(bench: &mut Bench<'_>, aes: &Ours, bytes: usize, limit: f64) -> Ran {
    let id = RowId::new("C3-tcp", bytes);
    let beside = [plaintext::NAME, tls::NAME, tls::NAME_BUFFERED].map(|peer| id.beside(peer));
    if !bench.wants_any(beside.iter().chain([&id])) {
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
    let contenders = bursts.each_ref().map(Burst::contender);
    let contest = Contest::hold(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let [ours, theirs, unsealed, plain, buffered] = &contest.series;
    let [unsealed_id, plain_id, buffered_id] = beside;
    let tls_limits = TLS_LIMITS.into_iter().find(|(length, ..)| *length == bytes);
    let (plain_limit, buffered_limit) = tls_limits.map(|(_, plain, buffered)| (plain, buffered)).unzip();
    let rows = [
        (id, "AES-256-GCM against its default", transport::NAME, Some(limit), theirs),
        (unsealed_id, "against the same framing unsealed", plaintext::NAME, Some(PLAINTEXT_LIMIT), unsealed),
        (plain_id, "against TLS 1.3, a write for each", RUSTLS, plain_limit, plain),
        (buffered_id, "against TLS 1.3 behind a buffer of 64 KiB", RUSTLS, buffered_limit, buffered),
    ];
    for (id, what, peer, limit, theirs) in rows {
        let row = caption(id, format!("{bytes} B one way over TCP loopback, {what}"), peer, limit);
        bench.row(row.row(ours, Some(theirs), &contest.control));
    }
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

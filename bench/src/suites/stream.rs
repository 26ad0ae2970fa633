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

/// Bytes of a message, and how many times faster than the peer ours has to be in memory.
const CASES: [(usize, f64); 4] = [(1_536, 9.0), (4_096, 7.0), (393_216, 5.0), (LARGEST, 3.5)];
const LARGEST: usize = 1_048_576;
/// How many times faster than TLS, with plain writes and behind a buffer, ours has to be with messages of [`LARGEST`].
const TLS_LIMIT: f64 = 1.15;
const RUSTLS: &str = "rustls 0.23, AES-256-GCM of aws-lc";

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let world = Arc::new(World::new(false)?);
    let ours = |cipher| Ours::new(&world, Ciphers::new(KeyExchange::Hybrid, cipher));
    let (aes, chacha) = (ours(Cipher::Aes256Gcm)?, ours(Cipher::ChaCha20Poly1305)?);
    for (bytes, limit) in CASES {
        memory(bench, (&aes, &chacha), bytes, limit)?;
        tcp(bench, &aes, bytes)?;
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

fn tcp(bench: &mut Bench<'_>, aes: &Ours, bytes: usize) -> Ran {
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

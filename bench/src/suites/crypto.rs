//! W18–W30, P1–P3: the primitives under everything else, through the same calls as the product's.

pub(in crate::suites) mod aead;
mod hash;
mod keys;
mod noise;

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Algorithm, CHACHA20_POLY1305};
use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_protocol::record::Rekey;
use sealane_types::Cipher;

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contest, Series, hold_all};
use crate::micro::{Micro, Operation};
use crate::ours::Ours;
use crate::packets::{Packets, Part};
use crate::plan::Suite;
use crate::row::{RowId, Unit};
use crate::world::World;
use aead::Aead;
use noise::{Agreement, Between, Opening};

/// Bytes that are sealed and opened, and hashed.
const CASES: [usize; 5] = [64, 1_024, 4_096, 16_384, 65_536];
/// The same for the published targets.
const TARGETS: [usize; 3] = [1_024, 65_536, 1_048_576];
/// The row of sealing, opening, and both, at several lengths, and the same with the other cipher.
const AEAD: &str = "W18-W22";
const AEAD_CHACHA: &str = "W18-W22-chacha";
/// Bytes of a packet beside which a change of keys is seen.
const UPDATED_BYTES: usize = 64;

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    for bytes in CASES {
        aead(bench, (AEAD, &AES_256_GCM, "AES-256-GCM"), bytes)?;
        aead(bench, (AEAD_CHACHA, &CHACHA20_POLY1305, "ChaCha20-Poly1305"), bytes)?;
    }
    targets(bench)?;
    hashes(bench, "W25", CASES)?;
    hashes(bench, "P1", TARGETS)?;
    keys(bench)?;
    handshakes(bench)?;
    update(bench)
}

fn aead(bench: &mut Bench<'_>, cipher: (&str, &'static Algorithm, &str), bytes: usize) -> Ran {
    let (row, algorithm, cipher) = cipher;
    let parts = [aead::Part::Seal, aead::Part::Open, aead::Part::Round];
    let ids = parts.map(|part| RowId::new(row, format!("{}-{bytes}", part.word())));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let micro = |part| Micro::new(Aead::new(algorithm, bytes, part)?, bench.plan.micro);
    let [seal, open, round] = [micro(parts[0])?, micro(parts[1])?, micro(parts[2])?];
    let contest = hold(bench, [&seal, &open, &round])?;
    let names = ["sealed in place", "opened into other memory", "sealed and opened in place"];
    for ((id, name), series) in ids.into_iter().zip(names).zip(&contest.series) {
        let name = format!("{bytes} B {name}, {cipher}");
        let note = "a cipher context that is made once, a nonce from a counter, 4 B of additional data";
        report(bench, (id, &name, Unit::Nanoseconds, note), series, &contest.control);
    }
    Ok(())
}

fn targets(bench: &mut Bench<'_>) -> Ran {
    let ids = TARGETS.map(|bytes| RowId::new("P2", bytes));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let micro = |bytes| Micro::new(Aead::new(&AES_256_GCM, bytes, aead::Part::Seal)?, bench.plan.micro);
    let [small, middle, large] = [micro(TARGETS[0])?, micro(TARGETS[1])?, micro(TARGETS[2])?];
    let contest = hold(bench, [&small, &middle, &large])?;
    for ((id, bytes), series) in ids.into_iter().zip(TARGETS).zip(&contest.series) {
        let name = format!("{bytes} B sealed in place, AES-256-GCM");
        report(bench, (id, &name, Unit::Nanoseconds, ""), series, &contest.control);
    }
    Ok(())
}

fn hashes<const CASES: usize>(bench: &mut Bench<'_>, row: &str, cases: [usize; CASES]) -> Ran {
    let ids = cases.map(|bytes| RowId::new(row, bytes));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let micros = cases.map(|bytes| Micro::new(hash::Blake3::new(bytes), bench.plan.micro));
    let micros = micros.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let contenders = micros.iter().map(Micro::contender).collect();
    let (series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, contenders)?;
    for ((id, bytes), series) in ids.into_iter().zip(cases).zip(&series) {
        let name = format!("BLAKE3 of {bytes} B in one thread");
        let note = "the crate `blake3` by itself: the product hashes with SHA-256 so far";
        report(bench, (id, &name, Unit::Nanoseconds, note), series, &control);
    }
    Ok(())
}

fn keys(bench: &mut Bench<'_>) -> Ran {
    let rows = [("W23", "keygen"), ("W24", "exchange"), ("W27", "keypair"), ("W26", "hkdf"), ("W37", "32")];
    let ids = rows.map(|(row, case)| RowId::new(row, case));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let target = bench.plan.micro;
    let (generate, exchange) = (keys::Generate::new()?, keys::Exchange::new()?);
    let (pair, derive) = (keys::Pair::new()?, keys::Derive::new()?);
    let (generate, exchange) = (Micro::new(generate, target)?, Micro::new(exchange, target)?);
    let (pair, derive) = (Micro::new(pair, target)?, Micro::new(derive, target)?);
    let compare = Micro::new(keys::Compare::new(), target)?;
    let contest = hold(bench, [&generate, &exchange, &pair, &derive, &compare])?;
    let words = [
        ("X25519 key pair", "a real key with its public half; the published figure is of 32 random bytes"),
        ("X25519 exchange", ""),
        (
            "the key pair that a sidecar begins with",
            "from the system's random numbers, in memory that is wiped",
        ),
        (
            "HKDF-SHA-256, 96 B to one secret of 32 B",
            "extract and expand as in the key schedule, which is not reachable by itself; W30 has the schedule",
        ),
        ("two secrets of 32 B compared in constant time", "`subtle`, as the product's secrets compare"),
    ];
    for ((id, (name, note)), series) in ids.into_iter().zip(words).zip(&contest.series) {
        report(bench, (id, name, Unit::Nanoseconds, note), series, &contest.control);
    }
    Ok(())
}

fn handshakes(bench: &mut Bench<'_>) -> Ran {
    let rows = ["W28", "W29", "P3"];
    let cases = ["fresh", "hybrid"];
    let ids: Vec<_> = rows.iter().flat_map(|row| cases.map(|case| RowId::new(row, case))).collect();
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let (world, target) = (Arc::new(World::new(true)?), bench.plan.micro);
    let ours = |exchange| Ours::new(&world, Ciphers::new(exchange, Cipher::Aes256Gcm));
    let (fresh, hybrid) = (ours(KeyExchange::Classical)?, ours(KeyExchange::Hybrid)?);
    let memory = |ours| micros(Agreement::new(ours, Between::Memory), target);
    let opening = |ours| micros(Opening(ours), target);
    let loopback = |ours| micros(Agreement::new(ours, Between::loopback()?), target);
    let micros = [
        memory(&fresh)?,
        memory(&hybrid)?,
        opening(&fresh)?,
        opening(&hybrid)?,
        loopback(&fresh)?,
        loopback(&hybrid)?,
    ];
    let contest = hold(bench, micros.each_ref())?;
    let words = [
        (
            "Noise XX, both sides, until both have keys",
            "hello and three messages through two connections in one thread",
        ),
        (
            "what the dialling side says first",
            "the hello and message 1, with all that a connection begins with",
        ),
        (
            "Noise XX over TCP loopback",
            "with the TCP connection, which is made for each; one thread plays both sides",
        ),
    ];
    let words = words.iter().flat_map(|(name, note)| {
        ["X25519", "X25519 and ML-KEM-768"].map(|keys| (format!("{name}, {keys}"), *note))
    });
    for ((id, (name, note)), series) in ids.into_iter().zip(words).zip(&contest.series) {
        report(bench, (id, &name, Unit::Microseconds, note), series, &contest.control);
    }
    Ok(())
}

fn micros<'a>(operation: impl Operation + 'a, target: std::time::Duration) -> anyhow::Result<Micro<'a>> {
    Ok(Micro::new(operation, target)?.in_microseconds())
}

fn update(bench: &mut Bench<'_>) -> Ran {
    let id = RowId::new("W30", "update");
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let (series, control) = key_updates(bench)?;
    let name = "keys of one direction replaced at both ends";
    report(bench, (id, name, Unit::Nanoseconds, UPDATE_NOTE), &series, &control);
    Ok(())
}

/// What a figure of [`key_updates`] holds.
pub(super) const UPDATE_NOTE: &str = "packets before each of which keys are replaced, less packets without: a record that says so is sealed and opened, \
     and at each end three secrets are derived and a cipher context is made";

/// Packets under new keys each, less packets under the same ones; and the fixed work beside them.
pub(super) fn key_updates(bench: &Bench<'_>) -> anyhow::Result<(Series, Vec<f64>)> {
    let world = Arc::new(World::new(false)?);
    let ours = Ours::new(&world, Ciphers::new(KeyExchange::Hybrid, Cipher::Aes256Gcm))?;
    let packets = |rekey| Packets::new(&ours, rekey, UPDATED_BYTES, Part::Whole);
    let every = Micro::new(packets(Rekey::new(0, 1, 0))?, bench.plan.micro)?;
    let never = Micro::new(packets(Rekey::default())?, bench.plan.micro)?;
    let Contest { series: [every, never], control } = hold(bench, [&every, &never])?;
    Ok((every.beyond(&never), control))
}

/// Blocks of all of them in turn.
pub(super) fn hold<const MICROS: usize>(
    bench: &Bench<'_>,
    micros: [&Micro<'_>; MICROS],
) -> anyhow::Result<Contest<MICROS>> {
    Contest::hold(bench.plan.warmups, bench.plan.rounds, micros.map(Micro::contender))
}

fn report(bench: &mut Bench<'_>, what: (RowId, &str, Unit, &str), series: &Series, control: &[f64]) {
    let (id, name, unit, note) = what;
    let caption = Caption::reported(id, Suite::Crypto.word(), name.to_owned(), unit, note);
    bench.row(caption.row(series, None, control));
}

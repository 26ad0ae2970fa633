//! W1–W7, W38, H1, H6: what the record layer costs a packet on one core, with its cipher in it.

use std::sync::Arc;

use anyhow::Result;
use aws_lc_rs::aead::AES_256_GCM;
use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_protocol::record::Rekey;
use sealane_types::Cipher;

use super::crypto::aead::{self, Aead};
use super::crypto::{UPDATE_NOTE, hold, key_updates};
use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contest, Series};
use crate::micro::Micro;
use crate::ours::Ours;
use crate::packets::{Packets, Part};
use crate::plan::Suite;
use crate::row::{RowId, Subject, Unit};
use crate::world::World;

/// Bytes of a packet.
const CASES: [usize; 3] = [64, 512, 1_456];
/// The one that is compared with the cipher alone, and how much of its time the cipher has to be.
const FULL: usize = 1_456;
const CIPHER_LIMIT: f64 = 0.71;
const CIPHER: &str = "AES-256-GCM alone, sealed and opened in place";
/// Nanoseconds that the keys of the next window may take: the published target.
const WINDOW_LIMIT: f64 = 200_000.0;
/// How many gaps an end knows of to which a datagram comes again: none, and nearly as many as it keeps in mind.
const GAPS: [u64; 2] = [0, 60];
const PARTS: [Part; 3] = [Part::Parse, Part::Build, Part::Whole];

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    for bytes in CASES {
        packets(bench, bytes)?;
    }
    beside_cipher(bench)?;
    replays(bench)?;
    window(bench)
}

fn ours() -> Result<Ours> {
    Ours::new(&Arc::new(World::new(false)?), Ciphers::new(KeyExchange::Hybrid, Cipher::Aes256Gcm))
}

fn packets(bench: &mut Bench<'_>, bytes: usize) -> Ran {
    let whole =
        if bytes == FULL { RowId::new("W7", bytes) } else { RowId::new("W4-W6", format!("round-{bytes}")) };
    let ids = [RowId::new("W1-W3", bytes), RowId::new("W4-W6", bytes), whole];
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let ours = ours()?;
    let micro = |part| Micro::new(Packets::new(&ours, Rekey::default(), bytes, part)?, bench.plan.micro);
    let [parse, build, whole] = [micro(PARTS[0])?, micro(PARTS[1])?, micro(PARTS[2])?];
    let contest = hold(bench, [&parse, &build, &whole])?;
    let names = [
        "opened, parsed and put into the receiver's memory",
        "built and sealed",
        "built, sealed, opened, parsed and put into the receiver's memory",
    ];
    for ((id, name), series) in ids.into_iter().zip(names).zip(&contest.series) {
        let name = format!("a tensor of {bytes} B {name}, one record, one core");
        let note = "AES-256-GCM through two whole connections in one thread, without a carrier; the bound on the age of \
                    a key (H6) is checked in every open";
        report(bench, (id, &name, None, note), series, &contest.control);
    }
    Ok(())
}

fn beside_cipher(bench: &mut Bench<'_>) -> Ran {
    let id = RowId::new("W7", FULL).beside("cipher");
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let ours = ours()?;
    let whole = Micro::new(Packets::new(&ours, Rekey::default(), FULL, Part::Whole)?, bench.plan.micro)?;
    let cipher = Micro::new(Aead::new(&AES_256_GCM, FULL, aead::Part::Round)?, bench.plan.micro)?;
    let Contest { series: [whole, cipher], control } = hold(bench, [&whole, &cipher])?;
    let name = format!("a tensor of {FULL} B in one record from memory to memory, beside its cipher alone");
    let caption = Caption::reported(id, Suite::Frame.word(), name, Unit::Nanoseconds, "");
    let limits = vec![(Subject::Ratio, CIPHER_LIMIT)];
    let caption = Caption { peer: Some(CIPHER.to_owned()), limits, ..caption };
    bench.row(caption.row(&whole, Some(&cipher), &control));
    Ok(())
}

fn replays(bench: &mut Bench<'_>) -> Ran {
    let ids = GAPS.map(|gaps| RowId::new("W38", format!("gaps-{gaps}")));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let ours = ours()?;
    let [none, most] = GAPS.map(|gaps| Micro::new(ours.replay(gaps)?, bench.plan.micro));
    let contest = hold(bench, [&none?, &most?])?;
    let note =
        "its header is unmasked and its number looked up; nothing is opened, and nothing is kept of it";
    for ((id, gaps), series) in ids.into_iter().zip(GAPS).zip(&contest.series) {
        let name = format!("a datagram that came before comes again, to an end that knows of {gaps} gaps");
        report(bench, (id, &name, None, note), series, &contest.control);
    }
    Ok(())
}

fn window(bench: &mut Bench<'_>) -> Ran {
    let id = RowId::new("H1", "update");
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let (series, control) = key_updates(bench)?;
    let name = "keys of the next window of one direction, at both ends";
    report(bench, (id, name, Some(WINDOW_LIMIT), UPDATE_NOTE), &series, &control);
    Ok(())
}

fn report(bench: &mut Bench<'_>, what: (RowId, &str, Option<f64>, &str), series: &Series, control: &[f64]) {
    let (id, name, limit, note) = what;
    let caption = Caption::reported(id, Suite::Frame.word(), name.to_owned(), Unit::Nanoseconds, note);
    let limits = limit.map(|limit| (Subject::Ours, limit)).into_iter().collect();
    let caption = Caption { limits, ..caption };
    bench.row(caption.row(series, None, control));
}

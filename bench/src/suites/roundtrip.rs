//! C2: there and back, in process as published; and what sealing alone adds to it over TCP.

use std::sync::Arc;

use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_types::Cipher;

use crate::bench::{Bench, Ran};
use crate::carrier::Path;
use crate::contest::{Caption, Contest};
use crate::message::Payloads;
use crate::ours::Ours;
use crate::pair::Pair;
use crate::peer::plaintext::Plaintext;
use crate::peer::transport::{self, Transport};
use crate::plan::Suite;
use crate::row::{Better, RowId, Unit};
use crate::samples::Block;
use crate::world::World;

/// Bytes of a message.
const CASES: [usize; 3] = [1_536, 4_096, 393_216];

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let world = Arc::new(World::new(false)?);
    let ours = Ours::new(&world, Ciphers::new(KeyExchange::Hybrid, Cipher::Aes256Gcm))?;
    for bytes in CASES {
        whole(bench, &ours, bytes)?;
        added(bench, &ours, bytes)?;
    }
    Ok(())
}

fn whole(bench: &mut Bench<'_>, ours: &Ours, bytes: usize) -> Ran {
    let id = RowId::new("C2", bytes);
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let payloads = Payloads::new(bytes);
    let block = bench.plan.block_of(bytes);
    let first = Block::new(Pair::connect(ours, Path::Memory, &payloads)?, block)?;
    let second = Block::new(Pair::connect(&Transport, Path::Memory, &payloads)?, block)?;
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contest = Contest::hold(warmups, rounds, [first.contender(), second.contender()])?;
    let [ours, theirs] = &contest.series;
    let name = format!("{bytes} B there and back in process, median of blocks of {block}");
    bench.row(caption(id, name).row(ours, Some(theirs), &contest.control));
    Ok(())
}

fn added(bench: &mut Bench<'_>, ours: &Ours, bytes: usize) -> Ran {
    let id = RowId::new("C2-added", bytes);
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let payloads = Payloads::new(bytes);
    let block = bench.plan.block_of(bytes);
    let plain = Block::new(Pair::connect(&Plaintext, Path::Loopback, &payloads)?, block)?;
    let first = Block::new(Pair::connect(ours, Path::Loopback, &payloads)?, block)?;
    let second = Block::new(Pair::connect(&Transport, Path::Loopback, &payloads)?, block)?;
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contenders = [&plain, &first, &second].map(Block::contender);
    let contest = Contest::hold(warmups, rounds, contenders)?;
    let [plain, ours, theirs] = &contest.series;
    let name = format!("time that sealing adds to {bytes} B there and back over TCP, blocks of {block}");
    let row = caption(id, name);
    bench.row(row.row(&ours.beyond(plain), Some(&theirs.beyond(plain)), &contest.control));
    Ok(())
}

fn caption(id: RowId, name: String) -> Caption {
    Caption {
        id,
        suite: Suite::Roundtrip.word(),
        name,
        unit: Unit::Microseconds,
        better: Better::Lower,
        peer: Some(transport::NAME.to_owned()),
        limits: Vec::new(),
        doubt: None,
        note: String::new(),
    }
}

//! C2: there and back, in process as published; over TCP beside the same framing unsealed; and what sealing adds there.

use std::sync::Arc;

use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_types::Cipher;

use crate::bench::{Bench, Ran};
use crate::carrier::Path;
use crate::contest::{Caption, Contest};
use crate::cores::Cores;
use crate::message::Payloads;
use crate::ours::Ours;
use crate::pair::Pair;
use crate::peer::plaintext::{self, Plaintext};
use crate::peer::transport::{self, Transport};
use crate::plan::Suite;
use crate::row::{Better, Missing, RowId, Subject, Unit};
use crate::samples::Block;
use crate::world::World;

/// Bytes of a message, and the time that the same framing takes unsealed over TCP, over ours, at least.
const CASES: [(usize, f64); 3] = [(1_536, 0.91), (4_096, 0.87), (393_216, 0.625)];

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let world = Arc::new(World::new(false)?);
    let ours = Ours::new(&world, Ciphers::new(KeyExchange::Hybrid, Cipher::Aes256Gcm))?;
    let cores = Cores::two()?;
    for (bytes, limit) in CASES {
        whole(bench, &ours, bytes)?;
        beside_plain(bench, &ours, (bytes, limit), cores)?;
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

fn beside_plain(
    bench: &mut Bench<'_>,
    ours: &Ours,
    (bytes, limit): (usize, f64),
    cores: Option<Cores>,
) -> Ran {
    let id = RowId::new("C2-tcp", bytes).beside(plaintext::NAME);
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    let Some(cores) = cores else {
        bench.missing(Missing::new(&id.0, "both ends spin, each on a core of its own: there is one core"));
        return Ok(());
    };
    bench.measuring(&id);
    let payloads = Payloads::new(bytes);
    let (block, path) = (bench.plan.block_of(bytes), Path::Spinning(cores));
    let first = Block::new(Pair::connect(ours, path, &payloads)?, block)?;
    let second = Block::new(Pair::connect(&Plaintext, path, &payloads)?, block)?;
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contest = Contest::hold(warmups, rounds, [first.contender(), second.contender()])?;
    let [ours, plain] = &contest.series;
    let name =
        format!("{bytes} B there and back over TCP, against the same framing unsealed, blocks of {block}");
    let row = Caption {
        peer: Some(plaintext::NAME.to_owned()),
        limits: vec![(Subject::Ratio, limit)],
        note: "each end looks all the time and never sleeps, on a core of its own".to_owned(),
        ..caption(id, name)
    };
    bench.row(row.row(ours, Some(plain), &contest.control));
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

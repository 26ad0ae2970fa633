//! C1: from the first byte until both sides have their verdict, both ends in one task, over memory.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_types::Cipher;
use tokio::runtime::Runtime;

use crate::bench::{Bench, Ran};
use crate::carrier::Path;
use crate::contest::{Caption, Contest, Sample, Series};
use crate::message::{Inbox, Payloads};
use crate::ours::{Ours, Resumed};
use crate::peer::transport::{self, Transport};
use crate::plan::Suite;
use crate::row::{Better, RowId, Subject, Unit};
use crate::wire::{Open, Side, Wire};
use crate::world::World;

/// Bytes of the message that every finished handshake has to carry: keys that differ would show.
const PROBE_BYTES: usize = 512;
/// Our time as a multiple of the peer's may be this much.
const FRESH_TIMES: f64 = 1.5;
const HYBRID_TIMES: f64 = 1.9;
const RESUMED_TIMES: f64 = 0.75;

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let ids = ["fresh", "hybrid", "attested", "resumed"].map(|case| RowId::new("C1", case));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    let [fresh_id, hybrid_id, attested_id, resumed_id] = ids;
    bench.measuring(&fresh_id);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let world = Arc::new(World::new(true)?);
    let suite = |exchange| Ciphers::new(exchange, Cipher::Aes256Gcm);
    let attested = Ours::new(&world, suite(KeyExchange::Hybrid))?;
    let resumed = Resumed::new(attested.clone());
    let hybrid = runtime.block_on(attested.clone().with_null_appraiser())?;
    let classical = Ours::new(&world, suite(KeyExchange::Classical))?;
    let fresh = runtime.block_on(classical.with_null_appraiser())?;

    let count = bench.plan.handshakes;
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contest = Contest::hold(
        warmups,
        rounds,
        [
            Box::new(|| block(&runtime, &Transport, count)),
            Box::new(|| block(&runtime, &fresh, count)),
            Box::new(|| block(&runtime, &hybrid, count)),
            Box::new(|| block(&runtime, &attested, count)),
            Box::new(|| block(&runtime, &resumed, count)),
        ],
    )?;
    let [theirs, fresh, hybrid, attested, resumed] = &contest.series;
    let mut report = |id, name: &str, ours: &Series, times: Option<f64>, note: &str| {
        let limits = times.map(|times| (Subject::Ratio, 1.0 / times)).into_iter().collect();
        bench.row(caption(id, name, limits, note).row(ours, Some(theirs), &contest.control));
    };
    let note = "theirs has no static keys and mock evidence; ours here has a null appraiser";
    report(fresh_id, "handshake, X25519 alone", fresh, Some(FRESH_TIMES), note);
    report(hybrid_id, "handshake, X25519 and ML-KEM-768", hybrid, Some(HYBRID_TIMES), note);
    let note = "ours quotes and appraises simulated SEV-SNP evidence, certificates included; theirs is its mock \
                handshake, which proves nothing";
    report(attested_id, "handshake with evidence both ways, X25519 and ML-KEM-768", attested, None, note);
    let note = "ours begins with a ticket of an earlier hybrid connection and judges what was proved there again; the \
                first one and its evidence are not in it. Theirs has no resumption: its fresh handshake";
    report(resumed_id, "handshake that resumes an attested connection", resumed, Some(RESUMED_TIMES), note);
    Ok(())
}

fn caption(id: RowId, name: &str, limits: Vec<(Subject, f64)>, note: &str) -> Caption {
    Caption {
        id,
        suite: Suite::Handshake.word(),
        name: name.to_owned(),
        unit: Unit::Microseconds,
        better: Better::Lower,
        peer: Some(format!("{}, mock evidence", transport::NAME)),
        limits,
        doubt: None,
        note: note.to_owned(),
    }
}

/// Handshakes one after the other. Each has to carry a message before it counts.
fn block(runtime: &Runtime, opener: &impl Open, count: usize) -> Result<Sample> {
    let payloads = Payloads::new(PROBE_BYTES);
    runtime.block_on(async {
        let mut latencies = Vec::with_capacity(count);
        let mut wrong = None;
        for _ in 0..count {
            opener.prepare().await?;
            let (one, other) = Path::Memory.connect()?;
            let (one, other) = (one.open()?, other.open()?);
            let began = Instant::now();
            let (mut dialled, mut accepted) =
                tokio::try_join!(opener.open(one, Side::Dialler), opener.open(other, Side::Accepter))?;
            latencies.push(began.elapsed().as_secs_f64() * 1e6);
            wrong = wrong.or(probe(&mut dialled, &mut accepted, &payloads).await?);
        }
        Ok(Sample::of_latencies(latencies, wrong))
    })
}

async fn probe<W: Wire>(dialled: &mut W, accepted: &mut W, payloads: &Payloads) -> Result<Option<String>> {
    let mut inbox = Inbox::new(payloads.clone());
    dialled.put(payloads.message(0)).await?;
    dialled.flush().await?;
    accepted.take(&mut inbox, 1).await?;
    Ok(inbox.take_wrong())
}

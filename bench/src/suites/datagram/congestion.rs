//! Our congestion controls over a link of a gigabit a second whose round trip is 10 ms: alone where it loses at random, and beside
//! CUBIC where it loses nothing but what its queue has no room for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_types::{Cipher, CongestionChoice};

use crate::bench::{Bench, Ran};
use crate::bottleneck::{Bottleneck, Link};
use crate::contest::{Caption, Contender, Sample, hold_all};
use crate::message::Payloads;
use crate::ours::{Ours, OverUdp};
use crate::pair::{FlowingPair, Pair};
use crate::plan::Suite;
use crate::row::{Better, RowId, Subject, Unit};
use crate::world::World;

/// A queue that holds as much as the path.
const LINK: Link = Link {
    bytes_per_second: 125e6,
    queue: Duration::from_millis(10),
    delay: Duration::from_millis(5),
    loss_permille: 0,
    seed: 1,
};
/// One datagram of a hundred.
const LOSSY: Link = Link { loss_permille: 10, ..LINK };
/// How much of a lossy link BBR has to have.
const LOSSY_LIMIT: f64 = 0.9;
/// The slower of two has at least this share of the faster one's rate.
const BESIDE_LIMIT: f64 = 0.5;
/// A window is this many times as long as a sample of a stream: controllers take seconds to find their share.
const SAMPLES: u32 = 10;
/// Small against what arrives in a window.
const MESSAGE_BYTES: usize = 1 << 16;
/// Messages of the first burst, every byte of which is compared.
const THOROUGH: u64 = 8;
/// How often a window is looked at in which nothing arrived so far.
const AGAIN: Duration = Duration::from_millis(5);
/// A flow that carries nothing for so long is none.
const PATIENCE: Duration = Duration::from_secs(120);
const NOTE: &str = "messages of 64 KiB that arrive in a window of a flow without an end; a thread between sockets of loopback makes \
                    the link: 1 Gbit/s, 10 ms there and back, a queue of 10 ms";

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let world = Arc::new(World::new(false)?);
    let ours = Ours::new(&world, Ciphers::new(KeyExchange::Hybrid, Cipher::Aes256Gcm))?;
    for choice in CongestionChoice::ALL {
        lossy(bench, &ours, *choice)?;
    }
    for choice in CongestionChoice::ALL {
        beside(bench, &ours, *choice)?;
    }
    Ok(())
}

/// Alone, over a lossy link.
fn lossy(bench: &mut Bench<'_>, ours: &Ours, choice: CongestionChoice) -> Ran {
    let id = RowId::new("P4-lossy", choice);
    let is_bbr = choice != CongestionChoice::Cubic;
    let row = Caption {
        limits: is_bbr
            .then_some((Subject::Ours, LOSSY_LIMIT * LOSSY.bytes_per_second / 1e9))
            .into_iter()
            .collect(),
        ..caption(
            id,
            format!("{choice} alone on a gigabit that loses 1 % at random"),
            Unit::GigabytesPerSecond,
            "of UDP payload the link carries 0.125 GB/s",
        )
    };
    measure(bench, ours, (row, LOSSY, &[choice]), |rates| rates.iter().sum::<f64>() / 1e9)
}

/// Beside a CUBIC, on a link that loses nothing.
fn beside(bench: &mut Bench<'_>, ours: &Ours, choice: CongestionChoice) -> Ran {
    let row = Caption {
        limits: vec![(Subject::Ours, BESIDE_LIMIT)],
        ..caption(
            RowId::new("P4-beside", choice),
            format!("{choice} and Cubic on one gigabit: what the one with less has of what the other has"),
            Unit::Times,
            "nothing is lost but what the queue has no room for",
        )
    };
    let choices = [choice, CongestionChoice::Cubic];
    measure(bench, ours, (row, LINK, &choices), |rates| {
        let less = rates.iter().copied().fold(f64::INFINITY, f64::min);
        less / rates.iter().copied().fold(0.0, f64::max)
    })
}

fn caption(id: RowId, name: String, unit: Unit, note: &str) -> Caption {
    Caption {
        id,
        suite: Suite::Datagram.word(),
        name,
        unit,
        better: Better::Higher,
        peer: None,
        limits: Vec::new(),
        doubt: None,
        note: format!("{note}; {NOTE}"),
    }
}

/// Windows of flows under `choices` over one link, with what `figure` makes of their rates in bytes a second.
fn measure(
    bench: &mut Bench<'_>,
    ours: &Ours,
    (caption, link, choices): (Caption, Link, &[CongestionChoice]),
    figure: impl Fn(&[f64]) -> f64,
) -> Ran {
    if !bench.wants_any([&caption.id]) {
        return Ok(());
    }
    bench.measuring(&caption.id);
    let (_bottleneck, pairs) = connect(bench, ours, link, choices)?;
    let flows = pairs.into_iter().map(Pair::flow).collect::<Result<Vec<_>>>()?;
    let length = bench.plan.sample * SAMPLES;
    // Until they have found out what their losses mean.
    rates(&flows, length)?;
    let contender: Contender<'_> =
        Box::new(|| Ok(Sample { value: figure(&rates(&flows, length)?), ..Sample::default() }));
    let (mut series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, vec![contender])?;
    let mut series = series.pop().context("a contender without a series")?;
    for flow in flows {
        series.wrong = series.wrong.or(flow.end()?);
    }
    bench.row(caption.row(&series, None, &control));
    Ok(())
}

/// Bytes a second of each flow in about `length`, and until something of each arrived.
fn rates(flows: &[FlowingPair], length: Duration) -> Result<Vec<f64>> {
    let arrived = || flows.iter().map(FlowingPair::arrived).collect::<Result<Vec<_>>>();
    let (began, before) = (Instant::now(), arrived()?);
    std::thread::sleep(length);
    loop {
        let (after, took) = (arrived()?, began.elapsed());
        let counts: Vec<_> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
        if !counts.contains(&0) {
            let rate = |count: u64| count as f64 * MESSAGE_BYTES as f64 / took.as_secs_f64();
            return Ok(counts.into_iter().map(rate).collect());
        }
        ensure!(took < PATIENCE, "nothing arrives");
        std::thread::sleep(AGAIN);
    }
}

/// A connection under each of `choices` over one link, every byte of whose first messages was compared.
fn connect(
    bench: &Bench<'_>,
    ours: &Ours,
    link: Link,
    choices: &[CongestionChoice],
) -> Result<(Bottleneck, Vec<Pair>)> {
    let (bottleneck, plugs) = Bottleneck::between(choices.len(), link)?;
    let payloads = Payloads::new(MESSAGE_BYTES);
    let pairs = choices.iter().zip(plugs).map(|(choice, plugs)| {
        let starter = OverUdp::new(ours.clone(), true, bench.plan.udp_answer).under(*choice);
        let mut pair = Pair::between(&starter, plugs, &payloads)?;
        let wrong = pair.burst(THOROUGH, true)?.wrong;
        ensure!(wrong.is_none(), "{choice}: {}", wrong.unwrap_or_default());
        Ok(pair)
    });
    Ok((bottleneck, pairs.collect::<Result<_>>()?))
}

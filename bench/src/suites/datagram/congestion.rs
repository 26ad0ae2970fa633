//! Our congestion controls over a link of a gigabit a second whose round trip is 10 ms: alone where it loses at random, and beside
//! CUBIC where it loses nothing but what its queue has no room for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_types::{Cipher, CongestionChoice};

use crate::bench::{Bench, Ran};
use crate::bottleneck::{Bottleneck, Link};
use crate::contest::{Caption, Contender, Sample, hold_all};
use crate::message::Payloads;
use crate::ours::{Ours, OverUdp};
use crate::pair::Pair;
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
/// A sample is this many times as long as those of a stream: controllers take seconds to find their share.
const SAMPLES: u32 = 10;
const MESSAGE_BYTES: usize = 1 << 20;
/// Messages of the first burst. More are ordered from burst to burst, until a sample has no more bursts than this: the pause after
/// each counts for little then.
const MESSAGES: u64 = 2;
const BURSTS: u32 = 10;
const NOTE: &str =
    "a thread between sockets of loopback makes the link: 1 Gbit/s, 10 ms there and back, a queue of 10 ms";

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
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let (_bottleneck, mut flows) = connect(bench, ours, LOSSY, &[choice])?;
    let flow = flows.first_mut().context("a flow")?;
    let length = bench.plan.sample * SAMPLES;
    // Until it has found out what its losses mean.
    flow.flow(length)?;
    let contender: Contender<'_> = Box::new(|| {
        let transfer = flow.flow(length)?;
        Ok(Sample { value: transfer.rate() / 1e9, wrong: transfer.wrong, ..Sample::default() })
    });
    let is_bbr = choice != CongestionChoice::Cubic;
    let name = format!("{choice} alone on a gigabit that loses 1 % at random");
    let limit = is_bbr.then_some(LOSSY_LIMIT * LOSSY.bytes_per_second / 1e9);
    let note = "of UDP payload the link carries 0.125 GB/s";
    measure(bench, (id, name), Unit::GigabytesPerSecond, limit, note, contender)
}

/// Beside a CUBIC, on a link that loses nothing.
fn beside(bench: &mut Bench<'_>, ours: &Ours, choice: CongestionChoice) -> Ran {
    let id = RowId::new("P4-beside", choice);
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let (_bottleneck, mut flows) = connect(bench, ours, LINK, &[choice, CongestionChoice::Cubic])?;
    let [own, other] = flows.as_mut_slice() else { bail!("not two flows") };
    let length = bench.plan.sample * SAMPLES;
    let contender: Contender<'_> = Box::new(|| {
        let (ours, theirs) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| other.flow(length));
            (own.flow(length), theirs.join())
        });
        let theirs = theirs.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let ours = ours?;
        let (less, more) = (ours.rate().min(theirs.rate()), ours.rate().max(theirs.rate()));
        Ok(Sample { value: less / more, wrong: ours.wrong.or(theirs.wrong), ..Sample::default() })
    });
    let name = format!("{choice} and Cubic on one gigabit: what the one with less has of what the other has");
    let note = "nothing is lost but what the queue has no room for";
    measure(bench, (id, name), Unit::Times, Some(BESIDE_LIMIT), note, contender)
}

/// Holds the samples of one row, and tells it.
fn measure(
    bench: &mut Bench<'_>,
    (id, name): (RowId, String),
    unit: Unit,
    limit: Option<f64>,
    note: &str,
    contender: Contender<'_>,
) -> Ran {
    let (series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, vec![contender])?;
    let caption = Caption {
        id,
        suite: Suite::Datagram.word(),
        name,
        unit,
        better: Better::Higher,
        peer: None,
        limits: limit.map(|limit| (Subject::Ours, limit)).into_iter().collect(),
        doubt: None,
        note: format!("{note}; {NOTE}"),
    };
    bench.row(caption.row(&series[0], None, &control));
    Ok(())
}

/// A connection under each of `choices` over one link, every byte of whose first messages was compared.
fn connect(
    bench: &Bench<'_>,
    ours: &Ours,
    link: Link,
    choices: &[CongestionChoice],
) -> Result<(Bottleneck, Vec<Flow>)> {
    let (bottleneck, plugs) = Bottleneck::between(choices.len(), link)?;
    let payloads = Payloads::new(MESSAGE_BYTES);
    let flows = choices.iter().zip(plugs).map(|(choice, plugs)| {
        let starter = OverUdp::new(ours.clone(), true, bench.plan.udp_answer).under(*choice);
        let mut pair = Pair::between(&starter, plugs, &payloads)?;
        let wrong = pair.burst(MESSAGES, true)?.wrong;
        ensure!(wrong.is_none(), "{choice}: {}", wrong.unwrap_or_default());
        Ok(Flow { pair, messages: MESSAGES })
    });
    Ok((bottleneck, flows.collect::<Result<_>>()?))
}

/// A connection, and how many messages are ordered at once.
#[derive(Debug)]
struct Flow {
    pair: Pair,
    messages: u64,
}

impl Flow {
    /// What flows in the next `length`, by bursts that end within it, and by one at least.
    fn flow(&mut self, length: Duration) -> Result<Transfer> {
        let began = Instant::now();
        let mut transfer = Transfer { messages: 0, took: Duration::ZERO, wrong: None };
        loop {
            let (before, done) = (Instant::now(), self.pair.burst(self.messages, false)?);
            let is_over = began.elapsed() >= length;
            if is_over && transfer.messages > 0 {
                return Ok(transfer);
            }
            transfer.messages += self.messages;
            transfer.took = began.elapsed();
            transfer.wrong = transfer.wrong.or(done.wrong);
            if is_over {
                return Ok(transfer);
            }
            if before.elapsed() * BURSTS < length {
                self.messages *= 2;
            }
        }
    }
}

/// What one connection carried.
#[derive(Debug)]
struct Transfer {
    messages: u64,
    took: Duration,
    wrong: Option<String>,
}

impl Transfer {
    /// Bytes a second.
    fn rate(&self) -> f64 {
        self.messages as f64 * MESSAGE_BYTES as f64 / self.took.as_secs_f64()
    }
}

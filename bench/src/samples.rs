//! What takes samples over one connection: bursts one way, and blocks of round trips.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Result;

use crate::contest::{Contender, Sample, Series};
use crate::cores::process_time;
use crate::pair::Pair;

/// Messages of a first, thorough burst or block: every place of the inbox twice.
const THOROUGH: u64 = 8;
/// The longest burst in messages, whatever the clock says.
const BURST_MAX: u64 = 1 << 22;

/// Bursts of about the wanted duration over one connection.
pub(crate) struct Burst {
    pair: RefCell<Pair>,
    bytes: usize,
    count: u64,
    /// What the first burst, of which every byte was compared, showed.
    wrong: RefCell<Option<String>>,
    /// Nanoseconds of all cores that this process used for a byte, of every burst so far.
    processor: RefCell<Vec<f64>>,
}

impl Burst {
    pub(crate) fn new(mut pair: Pair, bytes: usize, target: Duration) -> Result<Self> {
        let wrong = pair.burst(THOROUGH, true)?.wrong;
        let mut count = THOROUGH;
        loop {
            let done = pair.burst(count, false)?;
            let took = done.ended.duration_since(done.began);
            if took * 4 >= target || count >= BURST_MAX {
                count = scaled(count, took, target);
                break;
            }
            count *= 4;
        }
        let (pair, wrong) = (RefCell::new(pair), RefCell::new(wrong));
        Ok(Self { pair, bytes, count, wrong, processor: RefCell::default() })
    }

    pub(crate) fn contender(&self) -> Contender<'_> {
        Box::new(|| {
            let before = process_time()?;
            let done = self.pair.borrow_mut().burst(self.count, false)?;
            let used = process_time()?.saturating_sub(before).as_secs_f64();
            self.processor.borrow_mut().push(used / gigabytes(self.bytes, self.count));
            let seconds = done.ended.duration_since(done.began).as_secs_f64();
            let wrong = self.wrong.borrow_mut().take().or(done.wrong);
            Ok(Sample { value: gigabytes(self.bytes, self.count) / seconds, latencies: Vec::new(), wrong })
        })
    }

    /// What the last `rounds` bursts used of all cores, in nanoseconds for a byte. Both ends have to be in this
    /// process.
    pub(crate) fn processor_series(&self, rounds: usize) -> Series {
        Series::of_last(rounds, self.processor.take())
    }
}

/// Blocks of round trips over one connection.
pub(crate) struct Block {
    pair: RefCell<Pair>,
    count: u64,
    /// What the first block, of which every byte was compared, showed.
    wrong: RefCell<Option<String>>,
}

impl Block {
    pub(crate) fn new(mut pair: Pair, count: u64) -> Result<Self> {
        let wrong = pair.round_trips(THOROUGH, true)?.wrong;
        Ok(Self { pair: RefCell::new(pair), count, wrong: RefCell::new(wrong) })
    }

    pub(crate) fn contender(&self) -> Contender<'_> {
        Box::new(|| {
            let done = self.pair.borrow_mut().round_trips(self.count, false)?;
            let wrong = self.wrong.borrow_mut().take().or(done.wrong);
            Ok(Sample::of_latencies(done.latencies, wrong))
        })
    }
}

fn scaled(count: u64, took: Duration, target: Duration) -> u64 {
    let wanted = count as f64 * target.as_secs_f64() / took.as_secs_f64().max(1e-9);
    (wanted as u64).clamp(1, BURST_MAX)
}

fn gigabytes(bytes: usize, count: u64) -> f64 {
    bytes as f64 * count as f64 / 1e9
}

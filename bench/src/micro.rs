//! Operations that take nanoseconds: a block of them is timed as one, since a clock takes as long to read as they take.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::contest::{Contender, Sample};

/// The longest block, whatever the clock says.
const BLOCK_MAX: u64 = 1 << 24;
/// How much longer each attempt at the length of a block is.
const STEP: u64 = 4;

/// Something that is timed by the block, with a result that can be looked at.
pub(crate) trait Operation {
    /// What it computes.
    type Made;

    /// How often at most it is done before [`Self::prepare`] is called again.
    fn run_max(&self) -> u64 {
        u64::MAX
    }

    /// Makes what the next `count` need. Not timed.
    fn prepare(&mut self, count: u64) -> Result<()> {
        let _ = count;
        Ok(())
    }

    /// Does it once.
    fn run(&mut self) -> Self::Made;

    /// What is wrong with what was done since [`Self::prepare`], `made` last; none if all is right. Not timed.
    fn wrong(&mut self, made: Self::Made) -> Option<String>;
}

/// Blocks of one operation. Figures are of one, in nanoseconds.
pub(crate) struct Micro<'a> {
    timed: RefCell<Timed<'a>>,
    count: u64,
    /// In a second, as many as there are of the unit.
    scale: f64,
}

/// Times a block of so many.
type Timed<'a> = Box<dyn FnMut(u64) -> Result<Block> + 'a>;

/// How a block went.
struct Block {
    took: Duration,
    wrong: Option<String>,
}

impl<'a> Micro<'a> {
    /// Finds out how many make a block of about `target`.
    pub(crate) fn new(mut operation: impl Operation + 'a, target: Duration) -> Result<Self> {
        let mut timed: Timed<'a> = Box::new(move |count| timed(&mut operation, count));
        let mut count = 1;
        loop {
            let took = timed(count)?.took;
            if took * 2 >= target || count >= BLOCK_MAX {
                let wanted = count as f64 * target.as_secs_f64() / took.as_secs_f64().max(1e-9);
                count = (wanted as u64).clamp(1, BLOCK_MAX);
                break;
            }
            count *= STEP;
        }
        Ok(Self { timed: RefCell::new(timed), count, scale: 1e9 })
    }

    /// The same, whose figures are in microseconds.
    pub(crate) fn in_microseconds(self) -> Self {
        Self { scale: 1e6, ..self }
    }

    pub(crate) fn contender(&self) -> Contender<'_> {
        Box::new(|| {
            let Block { took, wrong } = (self.timed.borrow_mut())(self.count)?;
            let value = took.as_secs_f64() * self.scale / self.count as f64;
            Ok(Sample { value, latencies: Vec::new(), wrong })
        })
    }
}

fn timed<O: Operation>(operation: &mut O, count: u64) -> Result<Block> {
    let (mut took, mut wrong, mut left) = (Duration::ZERO, None, count);
    while left > 0 {
        let run = left.min(operation.run_max());
        operation.prepare(run)?;
        let began = Instant::now();
        for _ in 1..run {
            black_box(operation.run());
        }
        let last = black_box(operation.run());
        took += began.elapsed();
        wrong = wrong.or(operation.wrong(last));
        left -= run;
    }
    Ok(Block { took, wrong })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up, and notices what was not prepared.
    struct Counting {
        prepared: u64,
        done: u64,
        broken: bool,
    }

    impl Operation for Counting {
        type Made = u64;

        fn run_max(&self) -> u64 {
            5
        }

        fn prepare(&mut self, count: u64) -> Result<()> {
            (self.prepared, self.done) = (count, 0);
            Ok(())
        }

        fn run(&mut self) -> u64 {
            self.done += 1;
            self.done
        }

        fn wrong(&mut self, made: u64) -> Option<String> {
            (self.broken || made != self.prepared).then(|| "miscounted".to_owned())
        }
    }

    #[test]
    fn a_block_is_prepared_in_runs_and_every_run_is_looked_at() {
        let mut counting = Counting { prepared: 0, done: 0, broken: false };
        let block = timed(&mut counting, 13).unwrap();
        assert_eq!((counting.prepared, counting.done, block.wrong), (3, 3, None));
        counting.broken = true;
        assert_eq!(timed(&mut counting, 1).unwrap().wrong.as_deref(), Some("miscounted"));
    }

    #[test]
    fn a_figure_is_of_one_operation() {
        let counting = Counting { prepared: 0, done: 0, broken: false };
        let micro = Micro::new(counting, Duration::from_micros(20)).unwrap();
        let sample = micro.contender()().unwrap();
        assert!(sample.value > 0.0 && sample.wrong.is_none());
        assert!(micro.count >= 1);
    }
}

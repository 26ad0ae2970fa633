//! One contender that sends bursts, and what they found beside the one figure of each.

use std::cell::RefCell;
use std::time::Duration;

use crate::contest::{Contender, Sample, Series};
use crate::cores::Cores;
use crate::link::{Burst, End, Flow, burst};
use crate::statistics::median;

/// See the module's documentation.
pub(super) struct Bursts<'a, E> {
    state: RefCell<(&'a mut [E; 2], Flow)>,
    cores: Cores,
    length: Duration,
    found: RefCell<Vec<Burst>>,
}

/// What the rounds that count have found.
pub(super) struct Found(Vec<Burst>);

impl<'a, E: End> Bursts<'a, E> {
    pub(super) fn new(ends: &'a mut [E; 2], bytes: usize, cores: Cores, length: Duration) -> Self {
        let state = RefCell::new((ends, Flow::new(bytes)));
        Self { state, cores, length, found: RefCell::default() }
    }

    /// Samples are packets per second.
    pub(super) fn contender(&self) -> Contender<'_> {
        Box::new(|| {
            let (ends, flow) = &mut *self.state.borrow_mut();
            let found = burst(ends, self.cores, flow, self.length)?;
            let (value, wrong) = (found.packets_per_second(), found.wrong.clone());
            self.found.borrow_mut().push(found);
            Ok(Sample { value, latencies: Vec::new(), wrong })
        })
    }

    pub(super) fn found(self, warmups: usize) -> Found {
        Found(self.found.into_inner().split_off(warmups))
    }
}

impl Found {
    pub(super) fn series(&self, figure: fn(&Burst) -> f64) -> Series {
        let wrong = self.0.iter().find_map(|burst| burst.wrong.clone());
        Series { values: self.0.iter().map(figure).collect(), latencies: Vec::new(), wrong }
    }

    pub(super) fn median(&self, figure: fn(&Burst) -> f64) -> f64 {
        median(&self.series(figure).values).unwrap_or_default()
    }

    /// Of what was sent in all rounds.
    pub(super) fn lost(&self) -> String {
        let sum = |count: fn(&Burst) -> u64| self.0.iter().map(count).sum::<u64>();
        let (sent, received) = (sum(|burst| burst.sent), sum(|burst| burst.received));
        let percent = 100.0 * sent.saturating_sub(received) as f64 / sent.max(1) as f64;
        format!("{percent:.2} % lost")
    }
}

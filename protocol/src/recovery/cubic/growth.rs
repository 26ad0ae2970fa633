//! How the window of CUBIC grows after a loss (RFC 9438, section 4): fast towards where it was, slowly around it, then
//! ever faster beyond; and never more slowly than Reno's.

use crate::Moment;
use crate::recovery::controller::WINDOW_BYTES_MAX;
use crate::recovery::rtt::Rtt;

/// The constants of RFC 9438, section 4.1: `C` in segments per cubic second, and the factor of a reduction.
const SPEED: f64 = 0.4;
const FACTOR: f64 = 0.7;
/// What Reno adds per round, so that it does as well as with a factor of one half (RFC 9438, section 4.3).
const RENO_STEP: f64 = 3.0 * (1.0 - FACTOR) / (1.0 + FACTOR);
/// The window may grow by half of itself per round (RFC 9438, section 4.2).
const TARGET_FACTOR: f64 = 1.5;

/// The course of a window between two losses.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Growth {
    /// Bytes around which the window grows slowly: where the last loss was. None: there was none.
    plateau: Option<f64>,
    epoch: Option<Epoch>,
    /// Up to when time has been counted.
    counted: Moment,
}

/// From a reduction on; begins with the first acknowledgement after it.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    /// Seconds in which the window could grow.
    age: f64,
    /// Seconds after which the window is at its plateau.
    climb: f64,
    plateau: f64,
    /// The window before the reduction, in bytes.
    before: f64,
    /// Reno's window.
    reno: f64,
    /// What the window has gained beyond whole bytes.
    rest: f64,
}

impl Growth {
    /// Time up to now does not count: the sender did not use its window.
    pub(crate) fn rest(&mut self, now: Moment) {
        self.counted = now;
    }

    /// The window after a loss.
    pub(crate) fn reduce(&mut self, window: u64) -> u64 {
        let bytes = window as f64;
        // Fast convergence (RFC 9438, section 4.7): who loses before it is back where it was leaves room to a newcomer.
        let early = self.plateau.is_some_and(|plateau| bytes < plateau);
        self.plateau = Some(if early { bytes * (1.0 + FACTOR) / 2.0 } else { bytes });
        self.epoch = None;
        whole(bytes * FACTOR)
    }

    /// A new course begins, from the window as it then is.
    pub(crate) fn forget_epoch(&mut self) {
        self.epoch = None;
    }

    /// The window after `acknowledged` bytes.
    pub(crate) fn grow(
        &mut self,
        now: Moment,
        window: u64,
        acknowledged: u64,
        datagram: u64,
        rtt: &Rtt,
    ) -> u64 {
        let (bytes, acknowledged, datagram) = (window as f64, acknowledged as f64, datagram.max(1) as f64);
        let plateau = self.plateau;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(plateau, bytes, datagram));
        epoch.age += seconds(now.micros_since(self.counted));
        self.counted = now;
        let step = if epoch.reno < epoch.before { RENO_STEP } else { 1.0 };
        epoch.reno = (epoch.reno + step * datagram * acknowledged / bytes).min(WINDOW_BYTES_MAX as f64);
        let cubic_now = epoch.at(epoch.age, datagram);
        let gain = if cubic_now < epoch.reno {
            (epoch.reno - bytes).max(0.0)
        } else {
            let next = epoch.at(epoch.age + seconds(rtt.smoothed_micros()), datagram);
            (next.clamp(bytes, bytes * TARGET_FACTOR) - bytes) * acknowledged / bytes
        };
        let grown = bytes + epoch.rest + gain;
        epoch.rest = grown.fract();
        whole(grown)
    }
}

impl Epoch {
    fn new(plateau: Option<f64>, window: f64, datagram: f64) -> Self {
        // Without a loss, or beyond the last one, the window is where it grows slowly.
        let before = plateau.unwrap_or(window);
        let plateau = before.max(window);
        let climb = ((plateau - window) / datagram / SPEED).cbrt();
        Self { age: 0.0, climb, plateau, before, reno: window, rest: 0.0 }
    }

    /// RFC 9438, figure 1.
    fn at(&self, age: f64, datagram: f64) -> f64 {
        SPEED * (age - self.climb).powi(3) * datagram + self.plateau
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Whole bytes of a window.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded from both sides; what is no number becomes zero, and the controller has a minimum"
)]
fn whole(bytes: f64) -> u64 {
    bytes.clamp(0.0, WINDOW_BYTES_MAX as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: u64 = 1_000;

    fn path(micros: u64) -> Rtt {
        let mut rtt = Rtt::new();
        rtt.update(micros, 0);
        rtt
    }

    /// The window after `rounds` rounds of `micros` in which all of it is acknowledged, from `window` on.
    fn grown(growth: &mut Growth, start: u64, window: u64, rounds: u64, micros: u64) -> u64 {
        let rtt = path(micros);
        growth.rest(Moment::from_micros(start));
        (1..=rounds).fold(window, |window, round| {
            growth.grow(Moment::from_micros(start + round * micros), window, window, DATAGRAM, &rtt)
        })
    }

    #[test]
    fn it_is_back_where_it_was_after_the_time_of_the_formula() {
        let mut growth = Growth::default();
        let reduced = growth.reduce(1_000_000);
        assert_eq!(reduced, 700_000);
        // K = cbrt(300 / 0.4) = 9.086 s
        let half = grown(&mut growth, 0, reduced, 45, 100_000);
        assert!((950_000..970_000).contains(&half), "{half}: most of the way is gone in half of the time");
        let full = grown(&mut growth, 4_500_000, half, 46, 100_000);
        assert!((998_000..1_002_000).contains(&full), "{full}");
    }

    #[test]
    fn on_short_paths_it_grows_as_reno_does() {
        let mut growth = Growth::default();
        let reduced = growth.reduce(20_000);
        let after = grown(&mut growth, 0, reduced, 100, 1_000);
        // 0.53 datagrams per round up to where it was, then one.
        assert!((107_000..111_000).contains(&after), "{after}");
    }

    #[test]
    fn a_second_early_loss_lowers_the_plateau() {
        let mut growth = Growth::default();
        let reduced = growth.reduce(1_000_000);
        growth.reduce(reduced);
        assert_eq!(growth.plateau, Some(700_000.0 * 0.85));
    }

    #[test]
    fn time_that_was_not_used_does_not_count() {
        let mut growth = Growth::default();
        let reduced = growth.reduce(1_000_000);
        let some = grown(&mut growth, 0, reduced, 10, 100_000);
        growth.rest(Moment::from_micros(3_600_000_000));
        let rtt = path(100_000);
        let after = growth.grow(Moment::from_micros(3_600_100_000), some, 10_000, DATAGRAM, &rtt);
        assert!(after - some < 2_000, "{some} {after}");
    }

    #[test]
    fn nothing_makes_it_leave_its_bounds() {
        let mut growth = Growth::default();
        growth.reduce(u64::MAX);
        let rtt = path(1);
        for window in [0, 1, WINDOW_BYTES_MAX, u64::MAX] {
            let after = growth.grow(Moment::from_micros(u64::MAX), window, u64::MAX, u64::MAX, &rtt);
            assert!(after <= WINDOW_BYTES_MAX);
        }
    }
}

//! The verdict on a series of statistics. Pure.

use std::collections::VecDeque;

use super::cgroup::CpuStat;

/// Looks that are compared, the newest with the oldest.
const LOOKS: usize = 4;
/// Fewer periods in which it ran at all say nothing: an idle process starts a thread now and then.
const PERIODS_MIN: u64 = 50;
/// From this share of them on it is held back.
const THROTTLED_PERCENT_MIN: u64 = 25;
/// Looks without a finding until it counts as over, five minutes: work that comes in bursts is not told again and again.
const CALM_LOOKS: u32 = 30;

/// Hears what the kernel counted, at even intervals.
#[derive(Debug, Default)]
pub(super) struct Judge {
    looks: VecDeque<CpuStat>,
    /// Looks since the last finding; nothing before there was one.
    calm: Option<u32>,
}

impl Judge {
    /// Whether the process is held back, as of `stat`.
    pub(super) fn handle(&mut self, stat: CpuStat) -> bool {
        if self.looks.back().is_some_and(|last| stat.periods < last.periods) {
            // Other counters: the process was moved.
            self.looks.clear();
        }
        self.looks.push_back(stat);
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
        if self.finds(stat) {
            self.calm = Some(0);
        } else {
            self.calm = self.calm.map(|looks| looks + 1).filter(|looks| *looks < CALM_LOOKS);
        }
        self.calm.is_some()
    }

    fn finds(&self, stat: CpuStat) -> bool {
        let Some(first) = self.looks.front() else { return false };
        let periods = stat.periods.saturating_sub(first.periods);
        let throttled = stat.throttled.saturating_sub(first.throttled);
        periods >= PERIODS_MIN && throttled.saturating_mul(100) / periods >= THROTTLED_PERCENT_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verdicts after each of a series of looks, of which each adds so many periods, and throttled ones.
    fn verdicts(series: impl IntoIterator<Item = (u64, u64)>) -> Vec<bool> {
        let (mut judge, mut stat) = (Judge::default(), CpuStat { periods: 9_000, throttled: 8_000 });
        let first = judge.handle(stat);
        let later = series.into_iter().map(|(periods, throttled)| {
            stat = CpuStat { periods: stat.periods + periods, throttled: stat.throttled + throttled };
            judge.handle(stat)
        });
        std::iter::once(first).chain(later).collect()
    }

    #[test]
    fn a_process_that_uses_up_its_quota_is_held_back() {
        assert_eq!(verdicts([(100, 90)]), [false, true], "what was before the first look says nothing");
        assert_eq!(verdicts([(100, 25)]), [false, true]);
        assert_eq!(verdicts([(100, 24), (100, 24), (100, 24)]), [false; 4]);
        assert_eq!(
            verdicts([(100, 0), (100, 0), (100, 99)]),
            [false, false, false, true],
            "half a minute counts"
        );
    }

    #[test]
    fn an_idle_process_is_not() {
        assert_eq!(verdicts([(10, 10), (10, 10)]), [false; 3]);
        assert_eq!(verdicts([(0, 0)]), [false; 2]);
        assert_eq!(verdicts([(30, 30), (20, 20)]), [false, false, true]);
    }

    #[test]
    fn it_is_over_after_minutes_of_calm() {
        let burst = std::iter::once((100, 90));
        // It stays among the looks that are compared for two more.
        let found = verdicts(burst.chain([(100, 0); 50]));
        let last = found.iter().rposition(|throttled| *throttled).unwrap();
        assert_eq!(last, 3 + CALM_LOOKS as usize - 1);
        assert!(found[1..=last].iter().all(|throttled| *throttled), "without a gap: {found:?}");
        // Work that comes every other minute is one finding.
        let bursts = (0..5).flat_map(|_| std::iter::once((100, 90)).chain([(0, 0); 11]));
        assert!(verdicts(bursts)[1..].iter().all(|throttled| *throttled));
    }

    #[test]
    fn counters_that_went_back_begin_anew() {
        let mut judge = Judge::default();
        assert!(!judge.handle(CpuStat { periods: 1_000, throttled: 0 }));
        assert!(!judge.handle(CpuStat { periods: 10, throttled: 10 }));
        assert!(judge.handle(CpuStat { periods: 110, throttled: 90 }));
    }
}

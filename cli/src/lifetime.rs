//! Spans of time as people write them.

use std::fmt;
use std::str::FromStr;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A span such as `7d`, `12h`, `30m` or `90s`; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) seconds: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("expected a number of days, hours, minutes or seconds, like 7d, 12h, 30m or 90s")]
pub(crate) struct InvalidLifetime;

impl FromStr for Lifetime {
    type Err = InvalidLifetime;
    fn from_str(text: &str) -> Result<Self, InvalidLifetime> {
        let unit = match text.chars().last() {
            Some('d') => DAY,
            Some('h') => HOUR,
            Some('m') => MINUTE,
            Some('s') => 1,
            _ => return Err(InvalidLifetime),
        };
        let number = text.get(..text.len() - 1).and_then(|number| number.parse::<u64>().ok());
        let seconds = number.and_then(|number| number.checked_mul(unit)).filter(|seconds| *seconds > 0);
        seconds.map(|seconds| Self { seconds }).ok_or(InvalidLifetime)
    }
}

impl fmt::Display for Lifetime {
    /// In the largest unit that says something: `6 days`, `1 hour`, `20 seconds`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1, "second")];
        let fitting = units.into_iter().find(|(unit, _)| self.seconds >= *unit);
        let (unit, name) = fitting.unwrap_or((1, "second"));
        let number = self.seconds / unit;
        write!(f, "{number} {name}{}", if number == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_people_write_them() {
        let seconds = |text: &str| text.parse::<Lifetime>().ok().map(|lifetime| lifetime.seconds);
        assert_eq!(seconds("7d"), Some(604_800));
        assert_eq!(seconds("12h"), Some(43_200));
        assert_eq!(seconds("30m"), Some(1_800));
        assert_eq!(seconds("90s"), Some(90));
        for other in ["", "d", "7", "0d", "-1d", "1.5h", "7w", "99999999999999999999d", "ä"] {
            assert_eq!(seconds(other), None, "{other}");
        }
    }

    #[test]
    fn spans_print_in_one_unit() {
        let print = |seconds| Lifetime { seconds }.to_string();
        assert_eq!(print(604_799), "6 days");
        assert_eq!(print(3_600), "1 hour");
        assert_eq!(print(0), "0 seconds");
    }
}

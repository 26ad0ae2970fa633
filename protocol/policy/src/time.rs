//! Times as documents write them.

use std::fmt;

use sealane_types::UnixSeconds;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Last second that four-digit years can write: 9999-12-31T23:59:59Z.
const UNIX_SECONDS_MAX: u64 = 253_402_300_799;

/// A text that is not an RFC 3339 time in UTC, in whole seconds, ending in `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an RFC 3339 time in UTC with whole seconds, like 2026-11-27T00:00:00Z")]
pub struct InvalidTimestamp;

/// A second in UTC, written `2026-11-27T00:00:00Z`. One instant has one spelling, as signed texts need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(UnixSeconds);

impl Timestamp {
    #[must_use]
    pub const fn unix(self) -> UnixSeconds {
        self.0
    }

    /// This time plus `seconds`, at most the last second of year 9999.
    #[must_use]
    pub fn plus(self, seconds: u64) -> Self {
        self.0.plus(seconds).into()
    }
}

/// Times after the year 9999 become its last second.
impl From<UnixSeconds> for Timestamp {
    fn from(seconds: UnixSeconds) -> Self {
        Self(UnixSeconds(seconds.0.min(UNIX_SECONDS_MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.0.0).map_err(|_| fmt::Error)?;
        let time = OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| fmt::Error)?;
        f.write_str(&time.format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = InvalidTimestamp;
    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| InvalidTimestamp)?;
        let seconds = u64::try_from(time.unix_timestamp()).map_err(|_| InvalidTimestamp)?;
        let timestamp = Self(UnixSeconds(seconds));
        if seconds > UNIX_SECONDS_MAX || timestamp.to_string() != text {
            return Err(InvalidTimestamp);
        }
        Ok(timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_per_instant() {
        let text = "2026-11-27T00:00:00Z";
        let time: Timestamp = text.parse().unwrap();
        assert_eq!(time.unix(), UnixSeconds(1_795_737_600));
        assert_eq!(time.to_string(), text);
        for other in [
            "2026-11-27T00:00:00+00:00",
            "2026-11-27T00:00:00.000Z",
            "2026-11-27t00:00:00z",
            "2026-11-27 00:00:00Z",
            "2026-11-27T01:00:00+01:00",
            "2026-11-27T00:00:60Z",
            "1969-12-31T23:59:59Z",
            "2026-11-27",
            "",
        ] {
            assert_eq!(other.parse::<Timestamp>(), Err(InvalidTimestamp), "{other}");
        }
    }

    #[test]
    fn far_futures_stay_writable() {
        let end = Timestamp::from(UnixSeconds(u64::MAX));
        assert_eq!(end.to_string(), "9999-12-31T23:59:59Z");
        assert_eq!("9999-12-31T23:59:59Z".parse(), Ok(end));
        assert_eq!(end.plus(1), end);
    }
}

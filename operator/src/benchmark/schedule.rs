//! When runs begin: a CronJob's schedule, in its time zone. Pure.

use cronexpr::{Crontab, MakeTimestamp, parse_crontab};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Runs that are looked for one by one; of more that were missed, the latest of this time are.
const MISSED_MAX: usize = 10_000;
const MISSED_TIME: SignedDuration = SignedDuration::from_hours(24);
const UTC: &str = "UTC";
const FIELDS: usize = 5;

/// A schedule that can be followed.
#[derive(Debug, Clone)]
pub struct Schedule(Crontab);

/// Why a schedule cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("spec.timeZone: `{0}` is not the name of a time zone such as Europe/Berlin")]
    Zone(String),
    #[error(
        "spec.schedule: `{0}` is not a schedule such as `0 3 * * *` (minute, hour, day of month, month, day of week) or @daily"
    )]
    Form(String),
    #[error("spec.schedule: `{0}` never comes")]
    Never(String),
}

impl Schedule {
    /// # Errors
    /// [`ScheduleError`]: what is no schedule, or no time zone.
    pub fn parse(schedule: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        let zone = zone.unwrap_or(UTC);
        TimeZone::get(zone).map_err(|_| ScheduleError::Zone(zone.to_owned()))?;
        let form = || ScheduleError::Form(schedule.to_owned());
        let fields = expanded(schedule);
        // A sixth field would be a time zone of its own.
        if fields.split_whitespace().count() != FIELDS {
            return Err(form());
        }
        let crontab = parse_crontab(&format!("{fields} {zone}")).map_err(|_| form())?;
        let found = Self(crontab);
        found.next(Timestamp::UNIX_EPOCH).ok_or_else(|| ScheduleError::Never(schedule.to_owned()))?;
        Ok(found)
    }

    /// The first time after `after`.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.0.find_next(MakeTimestamp(after)).ok().map(|zoned| zoned.timestamp())
    }

    /// The latest time after `since` that has come by `now`.
    #[must_use]
    pub fn due(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        self.latest(since, now).unwrap_or_else(|| {
            let lately = now.checked_sub(MISSED_TIME).unwrap_or(since);
            self.latest(lately.max(since), now).flatten()
        })
    }

    /// `None` when there are too many to look at.
    fn latest(&self, since: Timestamp, now: Timestamp) -> Option<Option<Timestamp>> {
        let mut latest = None;
        let mut after = since;
        for _ in 0..MISSED_MAX {
            match self.next(after) {
                Some(next) if next <= now => (latest, after) = (Some(next), next),
                _ => return Some(latest),
            }
        }
        None
    }
}

/// The fields that a word of cron stands for.
fn expanded(schedule: &str) -> &str {
    match schedule.trim() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        fields => fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn schedules_are_those_of_cron() {
        let next = |schedule, zone| Schedule::parse(schedule, zone).unwrap().next(at("2026-11-23T10:00:00Z"));
        assert_eq!(next("0 3 * * *", None), Some(at("2026-11-24T03:00:00Z")));
        assert_eq!(next("@hourly", None), Some(at("2026-11-23T11:00:00Z")));
        assert_eq!(next("*/15 10 * * MON", None), Some(at("2026-11-23T10:15:00Z")));
        assert_eq!(next("0 3 * * *", Some("Asia/Tokyo")), Some(at("2026-11-23T18:00:00Z")));
    }

    #[test]
    fn what_is_no_schedule_is_told() {
        let wrong = |schedule, zone| Schedule::parse(schedule, zone).unwrap_err();
        assert!(matches!(wrong("0 3 * *", None), ScheduleError::Form(_)));
        assert!(matches!(wrong("61 3 * * *", None), ScheduleError::Form(_)));
        assert!(matches!(wrong("0 3 * * * Asia/Tokyo", None), ScheduleError::Form(_)));
        assert!(matches!(wrong("@often", None), ScheduleError::Form(_)));
        assert!(matches!(wrong("0 0 30 2 *", None), ScheduleError::Never(_)));
        assert!(matches!(wrong("0 3 * * *", Some("Mars/Olympus")), ScheduleError::Zone(_)));
    }

    #[test]
    fn of_what_was_missed_the_latest_is_due() {
        let schedule = Schedule::parse("0 3 * * *", None).unwrap();
        let since = at("2026-11-20T03:00:00Z");
        assert_eq!(schedule.due(since, at("2026-11-21T02:59:59Z")), None);
        assert_eq!(schedule.due(since, at("2026-11-21T03:00:00Z")), Some(at("2026-11-21T03:00:00Z")));
        assert_eq!(schedule.due(since, at("2026-11-23T10:00:00Z")), Some(at("2026-11-23T03:00:00Z")));
    }

    #[test]
    fn years_of_missed_minutes_cost_no_more_than_a_day_of_them() {
        let schedule = Schedule::parse("* * * * *", None).unwrap();
        let now = at("2026-11-23T10:00:30Z");
        assert_eq!(schedule.due(at("2020-01-01T00:00:00Z"), now), Some(at("2026-11-23T10:00:00Z")));
    }

    #[test]
    fn clocks_that_are_put_forward_lose_no_day() {
        // Berlin has no 2:30 on the last Sunday of March 2026.
        let schedule = Schedule::parse("30 2 * * *", Some("Europe/Berlin")).unwrap();
        let mut after = at("2026-03-27T12:00:00Z");
        let mut days = Vec::new();
        for _ in 0..3 {
            after = schedule.next(after).unwrap();
            days.push(after.to_string());
        }
        assert_eq!(days[0], "2026-03-28T01:30:00Z");
        assert_eq!(
            days[2],
            if days[1].starts_with("2026-03-29") { "2026-03-30T00:30:00Z" } else { "2026-03-31T00:30:00Z" }
        );
    }
}

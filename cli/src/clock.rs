//! The only place that reads the time.

use sealane_policy::Timestamp;
use sealane_types::UnixSeconds;

pub(crate) fn now() -> Timestamp {
    let seconds = time::OffsetDateTime::now_utc().unix_timestamp();
    UnixSeconds(u64::try_from(seconds).unwrap_or(0)).into()
}

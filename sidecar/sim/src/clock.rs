//! A wall clock that tests step: containers of one machine share the kernel's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use sealane_sidecar::node::WallClock;
use sealane_types::UnixSeconds;

/// Names a file with the seconds, such as `-300`, by which this sidecar's wall clock differs from the machine's. It is
/// read at every look at the clock; without a number in it the clock is the machine's. The program of release images does
/// not know the variable.
const VARIABLE: &str = "SEALANE_SIMULATED_CLOCK";

#[derive(Debug)]
struct SteppedClock {
    file: PathBuf,
}

/// The clock that the environment asks for, if it does.
pub(crate) fn stepped() -> Option<Arc<dyn WallClock>> {
    let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty())?;
    Some(Arc::new(SteppedClock { file: file.into() }))
}

impl SteppedClock {
    fn offset(&self) -> i64 {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }
}

impl WallClock for SteppedClock {
    fn now(&self) -> UnixSeconds {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        UnixSeconds(since.map_or(0, |since| since.as_secs()).saturating_add_signed(self.offset()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
    }

    #[test]
    fn the_clock_follows_its_file_and_without_one_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let clock = SteppedClock { file: folder.path().join("clock") };
        let differs = |seconds: i64| {
            let (before, now, after) = (machine(), clock.now().0, machine());
            (before..=after).contains(&now.saturating_add_signed(-seconds))
        };
        assert!(differs(0));
        for (text, seconds) in [("300", 300), ("-300\n", -300), ("+300", 300), ("soon", 0), ("", 0)] {
            std::fs::write(&clock.file, text).unwrap();
            assert!(differs(seconds), "{text:?}");
        }
    }
}

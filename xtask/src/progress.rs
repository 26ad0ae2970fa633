//! What a person sees while a command works: a spinner on a terminal, plain lines anywhere else.

mod overview;

use std::{
    io::{IsTerminal, Write, stderr, stdout},
    time::{Duration, Instant},
};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use overview::{Activity, Overview};

/// Runs `work` under a line that says what goes on and, when it ends, how long it took. `what` reads well before
/// "…", for example "Building CoreDNS (about 1 minute the first time)".
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    if let Some(activity) = Activity::begin(what) {
        let result = work();
        drop(activity);
        let mark = if result.is_ok() { "✓" } else { "✗" };
        note(&format!("{mark} {what}: {}", seconds(started.elapsed())));
        return result;
    }
    let spinner = stderr().is_terminal().then(|| spinner(what));
    if spinner.is_none() {
        note(&format!("{what} …"));
    }
    let result = work();
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
        let mark = if result.is_ok() { "✓" } else { "✗" };
        note(&format!("{mark} {what}: {}", seconds(started.elapsed())));
    } else if result.is_ok() {
        note(&format!("  done in {}", seconds(started.elapsed())));
    }
    result
}

/// A line for the person, apart from results.
pub fn note(line: &str) {
    // Nothing sensible is left to do when the terminal is gone; the work itself goes on.
    overview::aside(|| _ = writeln!(stderr(), "{line}"));
}

/// A line of a command's result, on standard output.
pub fn print(line: &str) {
    overview::aside(|| _ = writeln!(stdout(), "{line}"));
}

/// A line that the next one replaces; on anything but a terminal, a line like any other.
pub fn live(line: &str) {
    if stdout().is_terminal() {
        let _ = write!(stdout(), "\r\x1b[2K{line}");
        let _ = stdout().flush();
    } else {
        print(line);
    }
}

/// Ends a [`live`] line, leaving nothing of it.
pub fn settle() {
    if stdout().is_terminal() {
        let _ = write!(stdout(), "\r\x1b[2K");
    }
}

fn spinner(what: &str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} … {elapsed}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_naturally() {
        assert_eq!(seconds(Duration::from_millis(4_250)), "4.2 s");
        assert_eq!(seconds(Duration::from_secs(330)), "5 min 30 s");
    }
}

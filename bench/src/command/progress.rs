//! What a person sees meanwhile: a line that moves on a terminal, a line per row anywhere else.

use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::bench::Observer;
use crate::report;
use crate::row::{Row, RowId};

const TICK: Duration = Duration::from_millis(120);

#[derive(Debug)]
pub(super) struct Progress {
    spinner: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new() -> Self {
        let spinner = stderr().is_terminal().then(|| {
            let spinner = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} … {elapsed}") {
                spinner.set_style(style);
            }
            spinner.enable_steady_tick(TICK);
            spinner
        });
        Self { spinner }
    }

    pub(super) fn finish(self) {
        if let Some(spinner) = self.spinner {
            spinner.finish_and_clear();
        }
    }
}

impl Observer for Progress {
    fn measuring(&mut self, id: &RowId) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(format!("measuring {id}"));
        }
    }

    fn measured(&mut self, row: &Row) {
        match &self.spinner {
            Some(spinner) => spinner.suspend(|| note(&report::line(row))),
            None => note(&report::line(row)),
        }
    }
}

/// A line for the person, apart from results.
pub(super) fn note(line: &str) {
    // Nothing sensible is left to do when the terminal is gone; the work itself goes on.
    let _ = writeln!(stderr(), "{line}");
}

/// A result, on standard output.
pub(super) fn print(text: &str) {
    let _ = write!(stdout(), "{text}{}", if text.ends_with('\n') { "" } else { "\n" });
}

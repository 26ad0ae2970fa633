//! cargo as a program among others: its progress becomes a line of the overview, and only what a compiler complains about
//! is passed on.

use std::{
    io::Read,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, anyhow, ensure};

use crate::{
    process,
    progress::{Activity, note},
};

/// Columns that cargo gives its progress; names of crates are cut to fit.
const WIDTH: &str = "100";

/// Words that begin cargo's own lines, which are aligned to the right.
const STATUS: [&str; 9] = [
    "Adding",
    "Building",
    "Compiling",
    "Downloaded",
    "Downloading",
    "Finished",
    "Fresh",
    "Locking",
    "Updating",
];

/// Runs cargo to its end and returns what it wrote to standard output. `progress` hears which part is done.
pub(super) fn run(cargo: &mut Command, progress: impl Fn(f64) + Send) -> Result<String> {
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", WIDTH);
    cargo.env("CARGO_TERM_COLOR", "never");
    cargo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = cargo.spawn().map_err(|error| process::start_error(cargo, error))?;
    let (messages, stdout) = (child.stderr.take(), child.stdout.take());
    let (messages, mut stdout) = messages.zip(stdout).context("cargo has no output")?;
    let output = thread::scope(|scope| {
        let listener = scope.spawn(|| listen(messages, progress));
        let mut output = String::new();
        stdout.read_to_string(&mut output).context("read what cargo prints")?;
        listener.join().map_err(|_| anyhow!("listening to cargo failed"))?;
        Ok::<_, anyhow::Error>(output)
    })?;
    let status = child.wait().context("wait for cargo")?;
    ensure!(status.success(), "cargo failed ({status})");
    Ok(output)
}

/// Progress ends in `\r` and anything else in `\n`.
fn listen(mut messages: impl Read, progress: impl Fn(f64)) {
    let activity = Activity::begin("cargo begins");
    let (mut buffer, mut pending) = ([0; 4096], Vec::new());
    // An error ends the messages as their end does: cargo's status tells what became of it.
    while let Ok(length @ 1..) = messages.read(&mut buffer) {
        for &byte in &buffer[..length] {
            if !matches!(byte, b'\r' | b'\n') {
                pending.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&pending).into_owned();
            pending.clear();
            match Message::of(&line) {
                Message::Progress { done, all, names } => {
                    progress(f64::from(done) / f64::from(all.max(1)));
                    if let Some(activity) = &activity {
                        activity.say(&format!("crate {done} of {all} ({names})"));
                    }
                }
                Message::Waiting => {
                    if let Some(activity) = &activity {
                        activity.say("cargo waits for another cargo");
                    }
                }
                Message::Status => {}
                Message::Complaint => note(&line),
            }
        }
    }
}

/// A line of cargo's.
#[derive(Debug, PartialEq, Eq)]
enum Message<'a> {
    /// `    Building [=====>     ] 212/310: serde, tokio`.
    Progress {
        done: u32,
        all: u32,
        names: &'a str,
    },
    /// Another cargo works in the same target folder.
    Waiting,
    /// What it does otherwise, of which nobody needs to know.
    Status,
    Complaint,
}

impl<'a> Message<'a> {
    fn of(line: &'a str) -> Self {
        // Control sequences that clear the rest of a line stand before text or alone.
        let line = line.trim_start_matches("\u{1b}[K").trim_end();
        if let Some(progress) = Self::progress(line) {
            return progress;
        }
        let word = line.split_whitespace().next().unwrap_or_default();
        let aligned = line.get(..12).is_some_and(|head| head.trim_start() == word);
        if aligned && word == "Blocking" {
            return Self::Waiting;
        }
        if word.is_empty() || aligned && STATUS.contains(&word) { Self::Status } else { Self::Complaint }
    }

    fn progress(line: &'a str) -> Option<Self> {
        let rest = line.trim_start().strip_prefix("Building [")?;
        let (_, counts) = rest.split_once("] ")?;
        let (counts, names) = counts.split_once(':').unwrap_or((counts, ""));
        let (done, all) = counts.trim().split_once('/')?;
        Some(Self::Progress { done: done.parse().ok()?, all: all.parse().ok()?, names: names.trim() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_from_complaints() {
        let progress = "    Building [=======>          ] 212/310: serde, tokio(build)   ";
        assert_eq!(
            Message::of(progress),
            Message::Progress { done: 212, all: 310, names: "serde, tokio(build)" }
        );
        assert_eq!(Message::of("    Blocking waiting for file lock on build directory"), Message::Waiting);
        for status in ["   Compiling serde v1.0.229", "    Finished `dev` profile in 3s", "", "\u{1b}[K"] {
            assert_eq!(Message::of(status), Message::Status, "{status}");
        }
        for complaint in
            ["error[E0432]: unresolved import", "warning: unused", "Compiling is hard", "  --> a.rs"]
        {
            assert_eq!(Message::of(complaint), Message::Complaint, "{complaint}");
        }
    }

    #[test]
    fn a_program_that_fails_is_an_error_and_its_output_is_returned_otherwise() {
        let sh = |script: &str| run(Command::new("sh").args(["-c", script]), |_| {});
        assert_eq!(sh("echo '{}'; printf '    Building [> ] 1/2: a\\r' >&2").unwrap(), "{}\n");
        assert!(sh("exit 101").is_err());
    }
}

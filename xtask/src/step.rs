//! One step of a long command: says what it does, and how long it took.

use std::{
    io::{IsTerminal, Write},
    time::Instant,
};

use anyhow::{Context, Result};

/// Runs `work` and prints `name … seconds`.
///
/// # Errors
/// The error of `work`, with the step's name.
pub fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let terminal = std::io::stdout().is_terminal();
    if terminal {
        print!("  {name} …");
        // A terminal that cannot be written to is no reason to stop.
        let _ = std::io::stdout().flush();
    }
    let started = Instant::now();
    let done = work().with_context(|| name.to_owned());
    let seconds = started.elapsed().as_secs_f64();
    let mark = if done.is_ok() { "✓" } else { "✗" };
    if terminal {
        print!("\r\x1b[2K");
    }
    println!("  {mark} {name} ({seconds:.1} s)");
    done
}

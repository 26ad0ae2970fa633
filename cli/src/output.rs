//! What goes to stdout and stderr.

use std::io::{self, ErrorKind, Write as _};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// Prints a result. A reader that has gone away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{newline}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(&serde_json::to_string_pretty(value).context("cannot write JSON")?)
}

/// Says something to the person at the terminal. Nothing can be done about a closed stderr.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// An error and its causes, without those whose text an outer one repeats.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// A table with aligned columns; the first row is the heading.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_said_once() {
        let error =
            anyhow::anyhow!("no such file").context("cannot read a: no such file").context("no policy");
        assert_eq!(causes(&error), "no policy: cannot read a: no such file");
    }

    #[test]
    fn columns_align() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(table(&[row(["NAME", "READY"]), row(["embedder", ""])]), "NAME       READY\nembedder\n");
    }
}

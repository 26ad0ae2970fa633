//! What goes to stdout and stderr.

use std::io::{self, ErrorKind, Write as _};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    #[value(alias = "table")]
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

/// Text from elsewhere, fit for a terminal: what would move the cursor, begin a line or turn the writing around shows as
/// its escape.
pub(crate) fn printable(text: &str) -> String {
    let hidden = |symbol: char| {
        symbol.is_control()
            || matches!(symbol, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
    };
    let mut shown = String::with_capacity(text.len());
    for symbol in text.chars() {
        match hidden(symbol) {
            true => shown.extend(symbol.escape_unicode()),
            false => shown.push(symbol),
        }
    }
    shown
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
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
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
    fn what_would_move_the_cursor_shows_as_its_escape() {
        assert_eq!(printable("i-1-enc1 (größer)"), "i-1-enc1 (größer)");
        let hostile = "a\u{1b}[2K\rb\nc\u{7f}\u{9b}d\u{202e}e";
        let shown = "a\\u{1b}[2K\\u{d}b\\u{a}c\\u{7f}\\u{9b}d\\u{202e}e";
        assert_eq!(printable(hostile), shown);
        assert_eq!(table(&[vec![hostile.to_owned()]]), format!("{shown}\n"));
    }

    #[test]
    fn columns_align() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(table(&[row(["NAME", "READY"]), row(["embedder", ""])]), "NAME       READY\nembedder\n");
    }
}

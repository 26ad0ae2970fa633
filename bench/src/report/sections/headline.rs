//! The handful of rows that matter most, and how limits stand.

use super::{Part, Report, Section};
use crate::report::words::{standing, summary};
use crate::row::Row;

/// What stands for the rest: small and large messages in process and on a wire against transport and TLS, what a round
/// trip, a packet and a handshake cost, then whole sidecars.
const ROWS: [&str; 14] = [
    "C3/1536",
    "C3/1048576",
    "C3-tcp/1536",
    "C3-tcp/1048576@rustls-buffered",
    "C2-added/1536",
    "W7/1456@cipher",
    "C1/hybrid",
    "C1/attested",
    "C1/resumed",
    "lane/8388608@tcp",
    "lane/1536-put_many",
    "pair/1048576@relay",
    "growth/idle-connection",
    "flood/p99",
];

pub(super) fn section(report: &Report) -> Section<'_> {
    let mut parts = vec![Part::Say(format!("{}.", summary(report)))];
    for failure in &report.failures {
        parts.push(Part::Alarm(format!("The suite {} failed: {}", failure.suite.word(), failure.error)));
    }
    for word in ["wrong", "missed", "unclear"] {
        let ids: Vec<_> =
            report.rows.iter().filter(|row| standing(row) == word).map(|row| row.id.0.as_str()).collect();
        if !ids.is_empty() {
            parts.push(Part::Say(format!("{}: {}.", said(word), ids.join(", "))));
        }
    }
    let row = |id: &&str| report.rows.iter().find(|row| row.id.0 == *id);
    let tiles: Vec<_> = ROWS.iter().filter_map(row).collect();
    let ratios: Vec<&Row> = report.rows.iter().filter(|row| row.ratio.is_some()).collect();
    parts.push(Part::Tiles(tiles));
    if !ratios.is_empty() {
        parts.push(Part::Bars(ratios));
    }
    Section { title: "Headline", parts }
}

fn said(word: &str) -> &'static str {
    match word {
        "wrong" => "With a wrong result",
        "missed" => "Limits missed",
        _ => "Limits unclear",
    }
}

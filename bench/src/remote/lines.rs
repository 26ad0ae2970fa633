//! What the two programs say to each other: a line of JSON each.

use std::io::{self, BufRead, Read as _, Write};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::contender::Contender;

/// Room for a policy and a simulated platform, and far from what hurts.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The first line of every connection: the server's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Challenge {
    pub(super) nonce: String,
}

/// The second: the client's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Hello {
    pub(super) nonce: String,
    /// A [`Purpose`] as the text that is proved.
    pub(super) purpose: String,
    pub(super) proof: String,
}

/// The third: the server's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Welcome {
    pub(super) proof: String,
}

/// What a connection is for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Purpose {
    /// Orders for an end that takes messages of so many bytes.
    Orders { contender: Box<Contender>, bytes: usize },
    /// What is measured, for the end that was given this number.
    Data { number: u64 },
    /// The run is over: so is the server.
    Stop,
}

/// What the server says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Answer {
    /// The end waits for a connection for data with this number, or for datagrams at a port.
    Waiting { number: u64, port: Option<u16> },
    /// The end is open, or has followed an order.
    Done { wrong: Option<String> },
    /// Why the end is gone.
    Failed { why: String },
}

/// Writes a line in one piece.
pub(super) fn say(stream: &mut impl Write, line: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(stream.write_all(&text)?)
}

/// Reads the next line; none when the other side is gone.
pub(super) fn hear<T: DeserializeOwned>(stream: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = Vec::new();
    let read = stream.take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    parsed(&line).map(Some)
}

/// Reads a line before `deadline`, and nothing behind it: that belongs to whoever is measured.
pub(super) fn hear_exactly<T: DeserializeOwned>(stream: &mut TcpStream, deadline: Instant) -> Result<T> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') && line.len() < LINE_BYTES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "it takes too long");
        stream.set_read_timeout(Some(left))?;
        // Byte by byte is slow, and happens once for each connection.
        match io::Read::read(stream, &mut byte)? {
            0 => break,
            _ => line.extend(byte),
        }
    }
    stream.set_read_timeout(None)?;
    parsed(&line)
}

fn parsed<T: DeserializeOwned>(line: &[u8]) -> Result<T> {
    ensure!(line.last() == Some(&b'\n'), "a line is longer than {LINE_BYTES_MAX} bytes, or was cut");
    serde_json::from_slice(line).context("a line makes no sense")
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn lines_come_back_and_others_are_refused() {
        let mut text = Vec::new();
        say(&mut text, &Answer::Waiting { number: 7, port: None }).unwrap();
        say(&mut text, &Answer::Done { wrong: None }).unwrap();
        let mut reader = BufReader::new(text.as_slice());
        assert!(matches!(hear(&mut reader).unwrap(), Some(Answer::Waiting { number: 7, port: None })));
        assert!(matches!(hear(&mut reader).unwrap(), Some(Answer::Done { wrong: None })));
        assert!(hear::<Answer>(&mut reader).unwrap().is_none());
        let refused = |text: &[u8]| hear::<Answer>(&mut BufReader::new(text)).is_err();
        assert!(refused(b"{\"done\":{}") && refused(b"{}\n") && refused(&vec![b' '; LINE_BYTES_MAX + 1]));
    }
}

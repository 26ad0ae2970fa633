//! Samples for another process, one whenever it asks, so that two builds of this program can be measured in turn.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use sealane_protocol::handshake::{KeyExchange, Suite};
use sealane_protocol::record::Rekey;
use sealane_types::Cipher;

use crate::carrier::Path;
use crate::contest::Contender;
use crate::message::Payloads;
use crate::micro::Micro;
use crate::ours::Ours;
use crate::packets::{Packets, Part};
use crate::pair::Pair;
use crate::samples::Burst;
use crate::world::World;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// A tensor in one record, built, sealed, opened and parsed on one core, in nanoseconds
    Packet,
    /// Tensors one way in process, in GB/s
    Stream,
}

/// What the process is told.
#[derive(Debug, Clone, Copy, Args)]
pub struct Options {
    #[arg(value_enum)]
    pub what: What,
    /// Of a tensor
    #[arg(long)]
    pub bytes: usize,
    /// About how long a sample takes
    #[arg(long)]
    pub microseconds: u64,
}

impl Options {
    /// As [`Options`] are parsed.
    pub(crate) fn arguments(self) -> [String; 5] {
        let Self { what, bytes, microseconds } = self;
        let (bytes, microseconds) = (bytes.to_string(), microseconds.to_string());
        let what = what.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        [what, "--bytes".to_owned(), bytes, "--microseconds".to_owned(), microseconds]
    }
}

/// Says what it was built for, then a sample as JSON for each line of `input`, until that ends.
///
/// # Errors
/// A connection that does not come about, or an output that is gone.
pub fn take(options: Options, input: impl BufRead, output: impl Write) -> Result<()> {
    let Options { what, bytes, microseconds } = options;
    let world = Arc::new(World::new(false)?);
    let ours = Ours::new(&world, Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm))?;
    let target = Duration::from_micros(microseconds);
    match what {
        What::Packet => {
            let packets = Packets::new(&ours, Rekey::default(), bytes, Part::Whole)?;
            answer(Micro::new(packets, target)?.contender(), input, output)
        }
        What::Stream => {
            let pair = Pair::connect(&ours, Path::Memory, &Payloads::new(bytes))?;
            answer(Burst::new(pair, bytes, target)?.contender(), input, output)
        }
    }
}

fn answer(mut contender: Contender<'_>, input: impl BufRead, mut output: impl Write) -> Result<()> {
    let mut say =
        |line: String| writeln!(output, "{line}").and_then(|()| output.flush()).context("answering");
    say(serde_json::to_string(&built_for())?)?;
    for line in input.lines() {
        line.context("reading what to do")?;
        say(serde_json::to_string(&contender()?)?)?;
    }
    Ok(())
}

/// Some of the instructions beyond the baseline that processors differ in, as far as the compiler was told to use them.
fn built_for() -> Vec<&'static str> {
    let told = [
        ("avx2", cfg!(target_feature = "avx2")),
        ("bmi2", cfg!(target_feature = "bmi2")),
        ("avx512f", cfg!(target_feature = "avx512f")),
        ("vaes", cfg!(target_feature = "vaes")),
        ("lse", cfg!(all(target_arch = "aarch64", target_feature = "lse"))),
        ("sve", cfg!(target_feature = "sve")),
    ];
    told.into_iter().filter_map(|(name, used)| used.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Sample;

    #[test]
    fn every_line_is_answered_with_a_sample() {
        for what in [What::Packet, What::Stream] {
            let mut output = Vec::new();
            take(Options { what, bytes: 1_456, microseconds: 20 }, &b"\n\n"[..], &mut output).unwrap();
            let text = String::from_utf8(output).unwrap();
            let (greeting, samples) = text.split_once('\n').unwrap();
            assert_eq!(serde_json::from_str::<Vec<String>>(greeting).unwrap(), built_for());
            let samples: Vec<Sample> =
                samples.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(samples.len(), 2);
            assert!(samples.iter().all(|sample| sample.value > 0.0 && sample.wrong.is_none()), "{samples:?}");
        }
    }
}

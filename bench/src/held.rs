//! Established connections that are only held, and what they take: a process of its own each time, because memory that
//! an earlier suite gave back would be used again and never be seen.
//!
//! Resident memory is what is counted. An allocator that counts would slow every other row of the program.

use std::fs;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args;
use sealane_protocol::handshake::{KeyExchange, Suite};
use sealane_protocol::record::Rekey;
use sealane_types::Cipher;
use serde::{Deserialize, Serialize};

use crate::ours::Ours;
use crate::packets::{Packets, Part};
use crate::world::World;

/// Bytes of a message.
pub(crate) const BYTES: usize = 1_456;
/// Connections that are there before any is counted: what the first ones alone take is not theirs.
const WARM: u32 = 16;

/// What the process is told.
#[derive(Debug, Clone, Copy, Args)]
pub struct Options {
    /// How many connections are held
    #[arg(long)]
    pub connections: u32,
}

/// What it found, in kibibytes for each of the two ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Held {
    /// Established, a message carried, and what an idle connection has no use for given back.
    pub idle: f64,
    /// When each has carried another message and given nothing back.
    pub carrying: f64,
    /// The first message that was not what was sent.
    pub wrong: Option<String>,
}

/// Establishes connections in this process, without carriers, and lets each carry messages.
///
/// # Errors
/// A handshake that fails, or a kernel that does not tell.
pub fn hold(options: Options) -> Result<Held> {
    let world = Arc::new(World::new(false)?);
    let ours = Ours::new(&world, Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm))?;
    let mut packets = Packets::new(&ours, Rekey::default(), BYTES, Part::Whole)?;
    let mut held = Vec::with_capacity((WARM + options.connections) as usize);
    let (mut wrong, mut before) = (None, 0.0);
    for number in 0..WARM + options.connections {
        if number == WARM {
            before = resident_kibibytes()?;
        }
        let direct = ours.direct(Rekey::default())?;
        let mut pair = (direct.dialled, direct.accepted);
        let found = packets.exchange(&mut pair);
        wrong = wrong.or(found);
        // As a sidecar does once a connection has nothing to say.
        pair.0.release_memory();
        pair.1.release_memory();
        held.push(pair);
    }
    let idle = resident_kibibytes()?;
    for pair in held.iter_mut().skip(WARM as usize) {
        let found = packets.exchange(pair);
        wrong = wrong.or(found);
    }
    let carrying = resident_kibibytes()?;
    let ends = f64::from(options.connections.max(1)) * 2.0;
    Ok(Held { idle: (idle - before) / ends, carrying: (carrying - before) / ends, wrong })
}

/// Of this process, without the files that its code is mapped from.
fn resident_kibibytes() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    Ok(line.split_whitespace().next().context("an empty RssAnon")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_are_held_take_memory_and_carry_messages() {
        let held = hold(Options { connections: 64 }).unwrap();
        assert_eq!(held.wrong, None);
        assert!(held.idle > 0.5 && held.carrying >= held.idle, "{held:?}");
    }
}

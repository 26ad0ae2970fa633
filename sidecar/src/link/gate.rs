//! Who may begin a handshake: rate and half-open caps per source, and a share that strangers cannot use up.
//!
//! A source that the configuration names is *known*. That is no trust, only a reason to serve it first: an address
//! proves nothing, and evidence is asked of everyone.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_protocol::Moment;

use crate::rate::{RateLimit, TokenBucket};

/// Caps of one class of sources.
#[derive(Debug, Clone, Copy)]
struct Caps {
    /// Unfinished handshakes of the whole class.
    half_open_all: u32,
    /// Unfinished handshakes of one source.
    half_open_each: u32,
    /// Connections of one source.
    rate: RateLimit,
}

const STRANGERS: Caps = Caps { half_open_all: 64, half_open_each: 16, rate: RateLimit::per_second(32, 10) };
const KNOWN: Caps = Caps { half_open_all: 512, half_open_each: 64, rate: RateLimit::per_second(256, 64) };

/// Sources remembered at most: beyond that, strangers are refused until others are forgotten.
const SOURCES_MAX: usize = 8192;

/// Why a connection was refused before a byte was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("too many unfinished handshakes")]
    HalfOpen,
    #[error("too many connections in a short time")]
    Rate,
}

impl Refused {
    /// As metrics name it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::HalfOpen => "HalfOpen",
            Self::Rate => "Rate",
        }
    }
}

#[derive(Debug)]
struct Source {
    half_open: u32,
    connections: TokenBucket,
}

#[derive(Debug, Default)]
struct Inner {
    known: HashSet<IpAddr>,
    sources: HashMap<IpAddr, Source>,
    half_open_known: u32,
    half_open_strangers: u32,
}

/// Decides who may begin a handshake.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    inner: Mutex<Inner>,
}

/// A handshake under way; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Admission {
    gate: Arc<Gate>,
    source: IpAddr,
    known: bool,
}

impl Gate {
    /// Replaces the known sources.
    pub(crate) fn know(&self, sources: HashSet<IpAddr>) {
        self.lock().known = sources;
    }

    /// Unfinished handshakes of known sources, and of strangers.
    pub(crate) fn half_open(&self) -> (u32, u32) {
        let inner = self.lock();
        (inner.half_open_known, inner.half_open_strangers)
    }

    /// Admits a connection from `source` or refuses it.
    pub(crate) fn admit(self: &Arc<Self>, source: IpAddr, now: Moment) -> Result<Admission, Refused> {
        let source = source.to_canonical();
        let mut inner = self.lock();
        let known = inner.known.contains(&source);
        let (caps, all) =
            if known { (KNOWN, inner.half_open_known) } else { (STRANGERS, inner.half_open_strangers) };
        if all >= caps.half_open_all {
            return Err(Refused::HalfOpen);
        }
        if inner.sources.len() >= SOURCES_MAX && !inner.sources.contains_key(&source) {
            let Inner { known: named, sources, .. } = &mut *inner;
            sources.retain(|address, source| {
                let caps = if named.contains(address) { KNOWN } else { STRANGERS };
                source.connections.refill(caps.rate, now);
                source.half_open > 0 || !source.connections.is_full(caps.rate)
            });
            if inner.sources.len() >= SOURCES_MAX && !known {
                return Err(Refused::Rate);
            }
        }
        let fresh = Source { half_open: 0, connections: TokenBucket::full(caps.rate, now) };
        let entry = inner.sources.entry(source).or_insert(fresh);
        if entry.half_open >= caps.half_open_each {
            return Err(Refused::HalfOpen);
        }
        if !entry.connections.take(caps.rate, now) {
            return Err(Refused::Rate);
        }
        entry.half_open += 1;
        *inner.half_open(known) += 1;
        Ok(Admission { gate: Arc::clone(self), source, known })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn half_open(&mut self, known: bool) -> &mut u32 {
        if known { &mut self.half_open_known } else { &mut self.half_open_strangers }
    }
}

impl Admission {
    /// Whether the configuration names its source.
    #[must_use]
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut inner = self.gate.lock();
        if let Some(source) = inner.sources.get_mut(&self.source) {
            source.half_open = source.half_open.saturating_sub(1);
        }
        let all = inner.half_open(self.known);
        *all = all.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS_PER_SECOND: u64 = 1_000_000;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn strangers_cannot_use_up_the_share_of_known_sources() {
        let gate = Arc::new(Gate::default());
        gate.know([address(1)].into());
        let now = Moment::default();
        let flood: Vec<_> = (2..=250)
            .flat_map(|last| (0..4).map(move |_| last))
            .map(|last| gate.admit(address(last), now))
            .collect();
        let admitted = flood.iter().filter(|admission| admission.is_ok()).count();
        assert_eq!(admitted, STRANGERS.half_open_all as usize);
        assert!(gate.admit(address(1), now).is_ok());
        drop(flood);
        assert!(gate.admit(address(2), now).is_ok(), "room comes back");
    }

    #[test]
    fn one_source_is_held_to_its_rate() {
        let gate = Arc::new(Gate::default());
        let now = Moment::default();
        for _ in 0..STRANGERS.rate.burst() {
            drop(gate.admit(address(9), now).unwrap());
        }
        assert_eq!(gate.admit(address(9), now).unwrap_err(), Refused::Rate);
        assert!(gate.admit(address(8), now).is_ok(), "others are not");
        assert!(gate.admit(address(9), now.plus_micros(MICROS_PER_SECOND)).is_ok());
    }

    #[test]
    fn one_source_is_held_to_its_half_open_cap() {
        let gate = Arc::new(Gate::default());
        let now = Moment::default();
        let held: Vec<_> =
            (0..STRANGERS.half_open_each).map(|_| gate.admit(address(9), now).unwrap()).collect();
        assert_eq!(gate.admit(address(9), now).unwrap_err(), Refused::HalfOpen);
        drop(held);
        assert!(gate.admit(address(9), now).is_ok());
    }

    #[test]
    fn more_sources_than_are_remembered_are_turned_away() {
        let gate = Arc::new(Gate::default());
        gate.know([address(1)].into());
        let now = Moment::default();
        let source = |number: usize| IpAddr::from(u32::try_from(0x0a00_0000 + number).unwrap().to_be_bytes());
        for number in 0..SOURCES_MAX {
            drop(gate.admit(source(number), now).unwrap());
        }
        assert_eq!(gate.admit(source(SOURCES_MAX), now).unwrap_err(), Refused::Rate);
        assert!(gate.admit(address(1), now).is_ok(), "known peers are not kept out by strangers");
        assert!(gate.admit(source(0), now).is_ok(), "nor is one that is remembered");
        let later = now.plus_micros(60 * MICROS_PER_SECOND);
        assert!(gate.admit(source(SOURCES_MAX), later).is_ok(), "what rested is forgotten");
        assert!(gate.lock().sources.len() < 8);
    }

    #[test]
    fn mapped_addresses_are_the_same_source() {
        let gate = Arc::new(Gate::default());
        gate.know([address(1)].into());
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert!(gate.admit(mapped, Moment::default()).unwrap().known);
    }
}

//! What decides which policies a sidecar follows, beside the policies themselves: each side states it in the handshake, and
//! its evidence covers it.
//!
//! ```text
//! configuration = u8 version (1) ‖ u8 root source (1 Injected, 2 File, 3 Initdata) ‖ u32 weakened checks
//!                 ‖ lp(namespace) ‖ lp(policy) ‖ u32 threshold ‖ u64 minimum epoch ‖ u16 keys ‖ keys (32 each, ascending)
//! digest        = SHA-256(lp("sealane/1 trust") ‖ configuration)
//! ```
//!
//! `lp(x)` is the length of `x` in bytes as a big-endian `u32`, followed by `x`; all integers are big-endian.

use std::collections::BTreeSet;

use sealane_policy::limits::AUTHORITY_KEYS_MAX;
use sealane_policy::{VerifiedPolicy, digest_of};
use sealane_types::{Digest, Namespace, PolicyName, PublicKey, RootSource, Roots};

use crate::codec::{Reader, put_prefixed};
use crate::rejection::Rejection;

const VERSION: u8 = 1;
const LABEL: &[u8] = b"sealane/1 trust";
/// Longest name of RFC 1123.
const NAME_BYTES_MAX: usize = 253;
/// Bit of the weakened checks: simulated evidence is accepted where a policy lists it.
const SIMULATION: u32 = 1;
/// All bits that mean something.
const DEFINED: u32 = SIMULATION;

/// Roots of the policy that a sidecar follows, where it has them from, and which of its checks are weakened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustConfiguration {
    pub source: RootSource,
    pub roots: Roots,
    /// Whether simulated evidence is accepted where a policy lists it.
    pub simulation: bool,
}

/// Bytes that no sidecar states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a trust configuration")]
pub struct InvalidTrustConfiguration;

impl TrustConfiguration {
    /// The bytes that are stated: each configuration has one form. At most
    /// [`TRUST_CONFIGURATION_BYTES_MAX`](crate::limits::TRUST_CONFIGURATION_BYTES_MAX), if a policy can be verified from
    /// its roots.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { source, roots, simulation } = self;
        let Roots { namespace, policy, threshold, keys, minimum_epoch } = roots;
        let keys: BTreeSet<&PublicKey> = keys.iter().collect();
        let mut bytes = vec![VERSION, code(*source)];
        bytes.extend_from_slice(&if *simulation { SIMULATION } else { 0 }.to_be_bytes());
        put_prefixed(&mut bytes, namespace.as_str().as_bytes());
        put_prefixed(&mut bytes, policy.as_str().as_bytes());
        bytes.extend_from_slice(&threshold.to_be_bytes());
        bytes.extend_from_slice(&minimum_epoch.to_be_bytes());
        bytes.extend_from_slice(&u16::try_from(keys.len()).unwrap_or(u16::MAX).to_be_bytes());
        keys.into_iter().for_each(|key| bytes.extend_from_slice(key.as_bytes()));
        bytes
    }

    /// Reads exactly what [`Self::to_bytes`] writes.
    ///
    /// # Errors
    /// [`InvalidTrustConfiguration`] for everything else.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidTrustConfiguration> {
        read(&mut Reader::new(bytes))
            .filter(|configuration| configuration.to_bytes() == bytes)
            .ok_or(InvalidTrustConfiguration)
    }

    /// What REPORT_DATA covers.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = Vec::new();
        put_prefixed(&mut bytes, LABEL);
        bytes.extend_from_slice(&self.to_bytes());
        digest_of(&bytes)
    }

    /// Whether a verifier under `policy` may rely on a side with this configuration: it trusts nobody whom the verifier does
    /// not trust, and its roots came from where the policy demands.
    ///
    /// # Errors
    /// [`Rejection::RootsDiffer`] and [`Rejection::RootSource`].
    pub fn satisfies(&self, policy: &VerifiedPolicy) -> Result<(), Rejection> {
        if !policy.recognises(&self.roots) {
            return Err(Rejection::RootsDiffer);
        }
        let demanded = policy.document().floors.root_source;
        if self.source < demanded {
            return Err(Rejection::RootSource { stated: self.source, demanded });
        }
        Ok(())
    }
}

const fn code(source: RootSource) -> u8 {
    match source {
        RootSource::Injected => 1,
        RootSource::File => 2,
        RootSource::Initdata => 3,
    }
}

fn read(reader: &mut Reader<'_>) -> Option<TrustConfiguration> {
    let [version, source] = reader.array()?;
    let source = RootSource::ALL.iter().copied().find(|known| code(*known) == source)?;
    let weakened = reader.u32()?;
    if version != VERSION || weakened & !DEFINED != 0 {
        return None;
    }
    let namespace = Namespace::new(name(reader)?).ok()?;
    let policy = PolicyName::new(name(reader)?).ok()?;
    let threshold = reader.u32()?;
    let minimum_epoch = reader.array().map(u64::from_be_bytes)?;
    let count = usize::from(reader.array().map(u16::from_be_bytes)?);
    if count > AUTHORITY_KEYS_MAX {
        return None;
    }
    let keys = (0..count).map(|_| reader.array().map(PublicKey::new)).collect::<Option<Vec<_>>>()?;
    let roots = Roots { namespace, policy, threshold, keys, minimum_epoch };
    Some(TrustConfiguration { source, roots, simulation: weakened & SIMULATION != 0 })
}

fn name<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    std::str::from_utf8(reader.prefixed(NAME_BYTES_MAX)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration() -> TrustConfiguration {
        let keys = vec![PublicKey::new([9; 32]), PublicKey::new([1; 32])];
        let (namespace, policy) = ("demo".parse().unwrap(), "demo".parse().unwrap());
        let roots = Roots { namespace, policy, threshold: 2, keys, minimum_epoch: 7 };
        TrustConfiguration { source: RootSource::File, roots, simulation: false }
    }

    #[test]
    fn everything_that_is_stated_counts_but_the_order_of_keys() {
        let honest = configuration();
        let changed = |change: &dyn Fn(&mut TrustConfiguration)| {
            let mut other = configuration();
            change(&mut other);
            other.digest()
        };
        for other in [
            changed(&|other| other.source = RootSource::Injected),
            changed(&|other| other.simulation = true),
            changed(&|other| other.roots.namespace = "other".parse().unwrap()),
            changed(&|other| other.roots.policy = "other".parse().unwrap()),
            changed(&|other| other.roots.threshold = 1),
            changed(&|other| other.roots.minimum_epoch = 6),
            changed(&|other| other.roots.keys.truncate(1)),
        ] {
            assert_ne!(other, honest.digest());
        }
        assert_eq!(changed(&|other| other.roots.keys.reverse()), honest.digest());
        assert_eq!(changed(&|other| other.roots.keys.extend_from_within(..)), honest.digest());
    }

    #[test]
    fn a_configuration_has_one_form() {
        for source in RootSource::ALL {
            for simulation in [false, true] {
                let stated = TrustConfiguration { source: *source, simulation, ..configuration() };
                let read = TrustConfiguration::parse(&stated.to_bytes()).unwrap();
                assert_eq!(read.to_bytes(), stated.to_bytes());
                assert_eq!((read.source, read.simulation), (*source, simulation));
            }
        }
        let bytes = configuration().to_bytes();
        for length in 0..bytes.len() {
            TrustConfiguration::parse(&bytes[..length]).unwrap_err();
        }
        TrustConfiguration::parse(&[&bytes[..], &[0]].concat()).unwrap_err();
        let spoiled = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            TrustConfiguration::parse(&bytes).unwrap_err();
        };
        for length in [16, 17] {
            let keys = (0..length).map(|key| PublicKey::new([key; 32])).collect();
            let roots = Roots { keys, ..configuration().roots };
            let bytes = TrustConfiguration { roots, ..configuration() }.to_bytes();
            assert_eq!(TrustConfiguration::parse(&bytes).is_ok(), length <= 16);
        }
        spoiled(0, 2);
        spoiled(1, 0);
        spoiled(1, 4);
        spoiled(2, 1);
        spoiled(5, 2);
        let mut unordered = bytes.clone();
        let keys = unordered.len() - 64;
        unordered[keys..].rotate_left(32);
        TrustConfiguration::parse(&unordered).unwrap_err();
    }
}

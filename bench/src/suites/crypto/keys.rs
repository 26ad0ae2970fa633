//! X25519, HKDF and comparison, through the same calls as the product's.

use anyhow::{Result, anyhow};
use aws_lc_rs::agreement::{PrivateKey, PublicKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::hmac;
use sealane_protocol::keys::{RandomFailed, Secret, StaticKey};

use crate::micro::Operation;
use crate::random::SystemRandom;

/// A private key, and the public one that goes with it.
pub(super) struct Generate {
    witness: Witness,
}

/// The secret that two keys share.
pub(super) struct Exchange {
    witness: Witness,
    own: PrivateKey,
    public: PublicKey,
}

/// The pair that a sidecar begins with.
pub(super) struct Pair {
    witness: Witness,
    last: [u8; 32],
}

/// From a handshake's output to one secret: extract, then expand.
pub(super) struct Derive {
    salt: [u8; 32],
    material: [u8; 96],
    info: [u8; 64],
}

/// Two secrets, which are equal.
pub(super) struct Compare {
    one: Secret<32>,
    other: Secret<32>,
    different: Secret<32>,
}

/// Another party, which has to come to the same secret.
struct Witness {
    private: PrivateKey,
    public: PublicKey,
}

impl Witness {
    fn new() -> Result<Self> {
        let private = PrivateKey::generate(&X25519).map_err(failed)?;
        let public = private.compute_public_key().map_err(failed)?;
        Ok(Self { private, public })
    }
}

fn shared(private: &PrivateKey, public: &[u8]) -> Result<[u8; 32], Unspecified> {
    agree(private, UnparsedPublicKey::new(&X25519, public), Unspecified, |secret| {
        secret.try_into().map_err(|_| Unspecified)
    })
}

impl Generate {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { witness: Witness::new()? })
    }
}

impl Operation for Generate {
    type Made = Result<(PrivateKey, PublicKey), Unspecified>;

    fn run(&mut self) -> Self::Made {
        let private = PrivateKey::generate(&X25519)?;
        let public = private.compute_public_key()?;
        Ok((private, public))
    }

    fn wrong(&mut self, made: Self::Made) -> Option<String> {
        let Witness { private, public } = &self.witness;
        let same = made.and_then(|(own_private, own_public)| {
            Ok(shared(&own_private, public.as_ref())? == shared(private, own_public.as_ref())?)
        });
        (same != Ok(true)).then(|| "a pair of keys that do not belong together".to_owned())
    }
}

impl Exchange {
    pub(super) fn new() -> Result<Self> {
        let Witness { private: own, public } = Witness::new()?;
        Ok(Self { witness: Witness::new()?, own, public })
    }
}

impl Operation for Exchange {
    type Made = Result<[u8; 32], Unspecified>;

    fn run(&mut self) -> Self::Made {
        shared(&self.own, self.witness.public.as_ref())
    }

    fn wrong(&mut self, made: Self::Made) -> Option<String> {
        let same = made.is_ok() && made == shared(&self.witness.private, self.public.as_ref());
        (!same).then(|| "the two sides come to other secrets".to_owned())
    }
}

impl Pair {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { witness: Witness::new()?, last: [0; 32] })
    }
}

impl Operation for Pair {
    type Made = Result<StaticKey, RandomFailed>;

    fn run(&mut self) -> Self::Made {
        StaticKey::generate(&mut SystemRandom)
    }

    /// Its private half cannot be had. What can be seen is a public key that others can use, and a new one.
    fn wrong(&mut self, made: Self::Made) -> Option<String> {
        let right = made.is_ok_and(|key| {
            let fresh = *key.public() != self.last;
            self.last = *key.public();
            fresh && shared(&self.witness.private, key.public()).is_ok()
        });
        (!right).then(|| "a pair without a public key, or not a new one".to_owned())
    }
}

impl Derive {
    pub(super) fn new() -> Result<Self> {
        let mut derive = Self { salt: [0; 32], material: [0; 96], info: [0; 64] };
        for bytes in [derive.salt.as_mut_slice(), &mut derive.material, &mut derive.info] {
            aws_lc_rs::rand::fill(bytes).map_err(failed)?;
        }
        Ok(derive)
    }
}

impl Operation for Derive {
    type Made = Result<[u8; 32], Unspecified>;

    fn run(&mut self) -> Self::Made {
        let mut secret = [0; 32];
        let root = Salt::new(HKDF_SHA256, &self.salt).extract(&self.material);
        root.expand(&[&self.info], Length)?.fill(&mut secret)?;
        Ok(secret)
    }

    /// RFC 5869 §2 in its own words: HMAC twice.
    fn wrong(&mut self, made: Self::Made) -> Option<String> {
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
        let root = sign(&self.salt, &self.material);
        let expected = sign(root.as_ref(), &[&self.info, &[1][..]].concat());
        let same = made.is_ok_and(|secret| secret == *expected.as_ref());
        (!same).then(|| "it is not what RFC 5869 says".to_owned())
    }
}

impl Compare {
    pub(super) fn new() -> Self {
        let [one, other, different] = [7, 7, 8].map(|byte| Secret::take(&mut [byte; 32]));
        Self { one, other, different }
    }
}

impl Operation for Compare {
    type Made = bool;

    fn run(&mut self) -> bool {
        std::hint::black_box(&self.one) == std::hint::black_box(&self.other)
    }

    fn wrong(&mut self, made: bool) -> Option<String> {
        (!made || self.one == self.different).then(|| "equal and different are confused".to_owned())
    }
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

fn failed<E>(_: E) -> anyhow::Error {
    anyhow!("the cryptography library refuses")
}

//! An auditor's X25519 key: in a file that its owner alone may read, in memory that is wiped.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_protocol::keys::{Random, RandomFailed, Secret, StaticKey};
use sealane_types::PublicKey;
use zeroize::{Zeroize, Zeroizing};

use crate::source::read_text;

/// Header of an X25519 PKCS#8 v1 key (RFC 8410, section 7); the 32 bytes of the key follow.
const PKCS8_HEAD: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x04, 0x22, 0x04, 0x20];
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// The operating system's random numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        aws_lc_rs::rand::fill(bytes).map_err(|_| RandomFailed)
    }
}

/// An auditor as the command line names it: a public key, or the file of a private key that it is taken from.
#[derive(Debug, Clone)]
pub(crate) enum AuditorKey {
    Public(PublicKey),
    File(PathBuf),
}

#[derive(Debug, thiserror::Error)]
#[error("expected the file of an auditor's key, or a public key of 64 lower-case hex digits")]
pub(crate) struct InvalidAuditorKey;

impl FromStr for AuditorKey {
    type Err = InvalidAuditorKey;
    fn from_str(text: &str) -> Result<Self, InvalidAuditorKey> {
        match text.parse() {
            Ok(key) => Ok(Self::Public(key)),
            Err(_) if text.is_empty() => Err(InvalidAuditorKey),
            Err(_) => Ok(Self::File(text.into())),
        }
    }
}

impl AuditorKey {
    pub(crate) fn public_key(&self) -> Result<PublicKey> {
        match self {
            Self::Public(key) => Ok(*key),
            Self::File(path) => Ok(PublicKey::new(*read(path)?.public())),
        }
    }
}

/// A fresh key: its PEM, and its public half.
pub(crate) fn generate() -> Result<(Zeroizing<String>, PublicKey)> {
    let mut bytes = Zeroizing::new([0; 32]);
    SystemRandom.fill(bytes.as_mut_slice())?;
    let pem = to_pem(&bytes);
    Ok((pem, PublicKey::new(*pair(&mut bytes)?.public())))
}

/// Reads what [`generate`] or `openssl genpkey -algorithm X25519` wrote.
pub(crate) fn read(path: &Path) -> Result<StaticKey> {
    let text = Zeroizing::new(read_text(path)?);
    from_pem(&text).with_context(|| path.display().to_string())
}

fn to_pem(key: &[u8; 32]) -> Zeroizing<String> {
    let der = Zeroizing::new([PKCS8_HEAD.as_slice(), key.as_slice()].concat());
    let body = Zeroizing::new(STANDARD.encode(&*der));
    Zeroizing::new(format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", &*body))
}

fn from_pem(pem: &str) -> Result<StaticKey> {
    let refused = || {
        anyhow!(
            "is no auditor's key: expected X25519 as PKCS#8 PEM, which `kubectl sealane policy keygen --auditor` makes"
        )
    };
    let body = pem.trim().strip_prefix(PEM_BEGIN).and_then(|rest| rest.strip_suffix(PEM_END));
    let body: Zeroizing<String> =
        Zeroizing::new(body.ok_or_else(refused)?.split_ascii_whitespace().collect());
    let der = Zeroizing::new(STANDARD.decode(body.as_bytes()).map_err(|_| refused())?);
    let key = der.strip_prefix(&PKCS8_HEAD).and_then(|key| <&[u8; 32]>::try_from(key).ok());
    pair(&mut Zeroizing::new(*key.ok_or_else(refused)?))
}

fn pair(bytes: &mut Zeroizing<[u8; 32]>) -> Result<StaticKey> {
    let key = StaticKey::new(Secret::take(bytes));
    bytes.zeroize();
    Ok(key?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back() {
        let (pem, public) = generate().unwrap();
        assert_eq!(*from_pem(&pem).unwrap().public(), *public.as_bytes());
        assert_ne!(generate().unwrap().1, public);
    }

    /// As OpenSSL writes it (RFC 8410), and the public half that OpenSSL finds to it.
    #[test]
    fn another_program_s_key_reads() {
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIHcHbQpzGKV9PBbBclGyZkXfTC+S68CZKsF3+6UduSwq\n-----END PRIVATE KEY-----\n";
        let public = PublicKey::new(*from_pem(pem).unwrap().public());
        assert_eq!(public.to_string(), "f8a9535a2d2ff605e8e144d54f4ef5c62313a2055dbb21fddd3fd9c299eb015d");
    }

    #[test]
    fn what_is_no_x25519_key_is_refused() {
        let (pem, _) = generate().unwrap();
        let owner = sealane_policy::SigningKey::generate().unwrap().to_pem().unwrap();
        let cut = pem.replace("-----END PRIVATE KEY-----\n", "");
        for other in ["", "MC4CAQ", &*owner, &cut] {
            assert!(from_pem(other).is_err());
        }
    }
}

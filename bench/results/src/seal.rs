//! A summary as text: compressed, and signed with the key that the operator made for the run.
//!
//! `sealane-result/1 BASE64 HEX`: the compressed JSON, and an Ed25519 signature over [`CONTEXT`] and the compressed bytes.
//! The signature is verified before anything is unpacked or parsed.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::str::FromStr;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use zeroize::Zeroizing;

use crate::summary::{Place, Site, Summary};

/// What the kubelet keeps of a termination message.
pub const SEALED_BYTES_MAX: usize = 4_096;
/// What a summary may be unpacked to.
const JSON_BYTES_MAX: u64 = 256 << 10;
const FORM: &str = "sealane-result/1";
/// So that a signature of this key says this and nothing else.
const CONTEXT: &[u8] = b"sealane.dev/benchmark-result/1\0";
const SEED_BYTES: usize = 32;
const PUBLIC_KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;

/// The key of one run. Wiped when it is dropped, and never printed.
pub struct RunKey(Zeroizing<[u8; SEED_BYTES]>);

impl fmt::Debug for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunKey").finish_non_exhaustive()
    }
}

impl RunKey {
    /// `seed` is random, and used for nothing else.
    #[must_use]
    pub const fn new(seed: Zeroizing<[u8; SEED_BYTES]>) -> Self {
        Self(seed)
    }

    /// The seed in hex, for the Secret that the run's pods read.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(*self.0))
    }

    /// What others verify with.
    ///
    /// # Errors
    /// [`SealError::Key`] when the cryptographic library refuses the seed, which it has no reason to.
    pub fn public(&self) -> Result<RunPublicKey, SealError> {
        let pair = self.pair()?;
        let bytes = pair.public_key().as_ref().try_into().map_err(|_| SealError::Key)?;
        Ok(RunPublicKey(bytes))
    }

    /// The summary as text of at most [`SEALED_BYTES_MAX`]. Rows at the end are left out until it fits.
    ///
    /// # Errors
    /// [`SealError`]: what does not fit without any row, or makes no sense.
    pub fn seal(&self, mut summary: Summary) -> Result<Sealed, SealError> {
        if let Some(fault) = summary.fault() {
            return Err(SealError::Fault(fault));
        }
        loop {
            let packed = pack(&summary)?;
            if length(packed.len()) <= SEALED_BYTES_MAX {
                let signature = self.pair()?.sign(&signed(&packed));
                let (body, signature) = (BASE64_STANDARD.encode(&packed), hex::encode(signature));
                return Ok(Sealed(format!("{FORM} {body} {signature}")));
            }
            if summary.rows.pop().is_none() {
                return Err(SealError::TooLong);
            }
            summary.left_out = summary.left_out.saturating_add(1);
        }
    }

    fn pair(&self) -> Result<Ed25519KeyPair, SealError> {
        Ed25519KeyPair::from_seed_unchecked(&*self.0).map_err(|_| SealError::Key)
    }
}

impl FromStr for RunKey {
    type Err = SealError;

    fn from_str(text: &str) -> Result<Self, SealError> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        hex::decode_to_slice(text.trim(), &mut *seed).map_err(|_| SealError::Key)?;
        Ok(Self(seed))
    }
}

/// The public half of a [`RunKey`], in hex where it is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPublicKey([u8; PUBLIC_KEY_BYTES]);

impl fmt::Display for RunPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl FromStr for RunPublicKey {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        let mut bytes = [0; PUBLIC_KEY_BYTES];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| OpenError::Form)?;
        Ok(Self(bytes))
    }
}

/// A signed summary, or what somebody says is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed(String);

/// What cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the run's key must be 32 bytes in hex")]
    Key,
    #[error("the summary cannot be sealed: {0}")]
    Fault(&'static str),
    #[error("the summary is longer than a termination message, without any row")]
    TooLong,
    #[error("the summary cannot be written as JSON")]
    Json,
}

/// What is no result of the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("it is not in the form of a benchmark's result")]
    Form,
    #[error("it is not signed with the key of its run")]
    Signature,
    #[error("it is signed, but {0}")]
    Content(&'static str),
    #[error("it is of {found}, not of {expected}")]
    Elsewhere { found: String, expected: String },
}

impl Sealed {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The summary, if `key` signed it for `place`.
    ///
    /// # Errors
    /// [`OpenError`]: whatever else it is.
    pub fn open(&self, key: &RunPublicKey, place: &Place) -> Result<Summary, OpenError> {
        let summary = self.open_of_any_place(key)?;
        if summary.place == *place {
            return Ok(summary);
        }
        let word = |Place { run, pool, node, server }: &Place| {
            let server = server.as_ref().map(|Site { pool, node }| format!(", to pool {pool}, node {node}"));
            format!("run {run}, pool {pool}, node {node}{}", server.unwrap_or_default())
        };
        Err(OpenError::Elsewhere { found: word(&summary.place), expected: word(place) })
    }

    /// The summary, if `key` signed it; whoever asks looks at its place.
    ///
    /// # Errors
    /// [`OpenError`]: whatever else it is.
    pub fn open_of_any_place(&self, key: &RunPublicKey) -> Result<Summary, OpenError> {
        if self.0.len() > SEALED_BYTES_MAX {
            return Err(OpenError::Form);
        }
        let mut words = self.0.trim_end().split(' ');
        let (Some(FORM), Some(body), Some(signature), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(OpenError::Form);
        };
        let packed = BASE64_STANDARD.decode(body).map_err(|_| OpenError::Form)?;
        let mut bytes = [0; SIGNATURE_BYTES];
        hex::decode_to_slice(signature, &mut bytes).map_err(|_| OpenError::Form)?;
        let key = UnparsedPublicKey::new(&ED25519, &key.0);
        key.verify(&signed(&packed), &bytes).map_err(|_| OpenError::Signature)?;
        let summary = unpack(&packed)?;
        summary.fault().map_or(Ok(summary), |fault| Err(OpenError::Content(fault)))
    }
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The length of the text around so many compressed bytes.
const fn length(packed: usize) -> usize {
    FORM.len()
        .saturating_add(1)
        .saturating_add(packed.div_ceil(3).saturating_mul(4))
        .saturating_add(1)
        .saturating_add(2 * SIGNATURE_BYTES)
}

fn signed(packed: &[u8]) -> Vec<u8> {
    [CONTEXT, packed].concat()
}

fn pack(summary: &Summary) -> Result<Vec<u8>, SealError> {
    let json = serde_json::to_vec(summary).map_err(|_| SealError::Json)?;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&json).and_then(|()| encoder.finish()).map_err(|_| SealError::Json)
}

fn unpack(packed: &[u8]) -> Result<Summary, OpenError> {
    let mut json = Vec::new();
    let mut decoder = DeflateDecoder::new(packed).take(JSON_BYTES_MAX.saturating_add(1));
    decoder.read_to_end(&mut json).map_err(|_| OpenError::Content("it cannot be unpacked"))?;
    if json.len() as u64 > JSON_BYTES_MAX {
        return Err(OpenError::Content("it is too long"));
    }
    serde_json::from_slice(&json).map_err(|_| OpenError::Content("it is not a summary of this version"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::summary::Line;
    use crate::summary::tests::{line, summary};

    fn key(byte: u8) -> RunKey {
        RunKey::new(Zeroizing::new([byte; SEED_BYTES]))
    }

    #[test]
    fn what_was_sealed_is_opened_where_it_belongs_and_nowhere_else() {
        let sealed = key(1).seal(summary()).unwrap();
        let public = key(1).public().unwrap();
        let place = summary().place;
        assert_eq!(sealed.open(&public, &place).unwrap(), summary());
        assert_eq!(sealed.open(&key(2).public().unwrap(), &place), Err(OpenError::Signature));
        for elsewhere in [
            Place { run: "7f3a-1-2".to_owned(), ..place.clone() },
            Place { pool: "cpu".to_owned(), ..place.clone() },
            Place { node: "node-1".to_owned(), ..place.clone() },
        ] {
            assert!(matches!(sealed.open(&public, &elsewhere), Err(OpenError::Elsewhere { .. })));
        }
        // The kubelet may end a message with a line.
        assert!(Sealed::new(format!("{sealed}\n")).open(&public, &place).is_ok());
    }

    #[test]
    fn no_byte_of_it_can_be_changed() {
        let sealed = key(1).seal(summary()).unwrap().to_string();
        let (public, place) = (key(1).public().unwrap(), summary().place);
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let forged = Sealed::new(String::from_utf8(bytes).unwrap());
            // Hex is read in both cases.
            assert!(forged.open(&public, &place).is_err() || forged.0.eq_ignore_ascii_case(&sealed), "{at}");
        }
    }

    #[test]
    fn rows_that_find_no_room_are_left_out_and_counted() {
        let mut long = summary();
        long.rows = (0..400).map(|row| line(&format!("C3/{row}"), f64::from(row) + 0.123_456)).collect();
        let sealed = key(1).seal(long.clone()).unwrap();
        assert!(sealed.0.len() <= SEALED_BYTES_MAX);
        let opened = sealed.open(&key(1).public().unwrap(), &long.place).unwrap();
        let kept = opened.rows.len();
        assert!((50..400).contains(&kept), "{kept}");
        let ids = |rows: &[Line]| rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&opened.rows), ids(&long.rows[..kept]));
        assert_eq!(opened.left_out as usize, 400 - kept);
    }

    #[test]
    fn what_is_signed_is_bounded_all_the_same() {
        let sign = |json: &[u8]| {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(json).unwrap();
            let packed = encoder.finish().unwrap();
            let signature = hex::encode(key(1).pair().unwrap().sign(&signed(&packed)));
            Sealed(format!("{FORM} {} {signature}", BASE64_STANDARD.encode(packed)))
        };
        let open = |sealed: &Sealed| sealed.open_of_any_place(&key(1).public().unwrap());
        assert_eq!(open(&sign(&vec![b' '; 300 << 10])), Err(OpenError::Content("it is too long")));
        assert!(matches!(open(&sign(b"{}")), Err(OpenError::Content(_))));
        let mut infinite = serde_json::to_value(summary()).unwrap();
        infinite["rows"][0]["ours"] = 1e300.into();
        assert!(matches!(open(&sign(infinite.to_string().as_bytes())), Err(OpenError::Content(_))));
        assert_eq!(open(&Sealed::new("x".repeat(5000))), Err(OpenError::Form));
    }

    #[test]
    fn keys_are_text_and_never_printed() {
        let text = key(7).to_hex();
        let again: RunKey = text.parse().unwrap();
        assert_eq!(again.public().unwrap(), key(7).public().unwrap());
        assert!(!format!("{again:?}").contains("07"));
        assert_eq!("7".parse::<RunKey>().unwrap_err(), SealError::Key);
        let public = key(7).public().unwrap();
        assert_eq!(public.to_string().parse::<RunPublicKey>().unwrap(), public);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_refused_without_harm(text in ".{0,200}") {
            let sealed = Sealed::new(format!("{FORM} {text}"));
            prop_assert!(sealed.open_of_any_place(&key(1).public().unwrap()).is_err());
        }
    }
}

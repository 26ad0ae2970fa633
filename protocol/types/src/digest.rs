//! Fixed-size public identifiers, written in lower-case hex.

use std::fmt;

/// Text that is not exactly the expected number of lower-case hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} lower-case hex digits")]
pub struct ParseHexError {
    expected: usize,
}

/// Parses exactly `2 × N` lower-case hex digits; other spellings of the same bytes are refused, so that a
/// signed text has one form.
pub(crate) fn parse<const N: usize>(text: &str) -> Result<[u8; N], ParseHexError> {
    let refused = ParseHexError { expected: 2 * N };
    if text.len() != 2 * N {
        return Err(refused);
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(refused),
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        if let [high, low] = pair {
            *byte = (digit(*high)? << 4) | digit(*low)?;
        }
    }
    Ok(bytes)
}

pub(crate) fn write(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

macro_rules! hex_bytes {
    ($(#[$doc:meta])* $type:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type([u8; $bytes]);

        impl $type {
            #[must_use]
            pub const fn new(bytes: [u8; $bytes]) -> Self {
                Self(bytes)
            }

            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; $bytes] {
                &self.0
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::digest::write(&self.0, f)
            }
        }

        impl ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, concat!(stringify!($type), "({})"), self)
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = $crate::ParseHexError;
            fn from_str(text: &str) -> Result<Self, $crate::ParseHexError> {
                $crate::digest::parse(text).map(Self)
            }
        }

        impl TryFrom<String> for $type {
            type Error = $crate::ParseHexError;
            fn try_from(text: String) -> Result<Self, $crate::ParseHexError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    };
}
pub(crate) use hex_bytes;

hex_bytes!(
    /// SHA-256 of exact bytes: a policy document, an initdata file, a certificate.
    Digest,
    32
);
hex_bytes!(
    /// SHA-256 of a policy owner's Ed25519 public key.
    KeyId,
    32
);

hex_bytes!(
    /// SHA-384 of what a guest was made of: MEASUREMENT of SEV-SNP, a register of TDX, a PCR of Nitro.
    Measurement,
    48
);
hex_bytes!(
    /// HOST_DATA of a SEV-SNP guest: SHA-256 of its initdata file.
    HostData,
    32
);
hex_bytes!(
    /// FMSPC: Intel's name for a family, model and package of processors, in their firmware's form.
    Fmspc,
    6
);
hex_bytes!(
    /// PPID: Intel's name for one processor package, as the certificate of its platform carries it.
    PlatformId,
    16
);
hex_bytes!(
    /// TEE_TCB_SVN: security version numbers of the TDX module and of what loads it, in the order of the report's bytes.
    TeeTcbSvn,
    16
);
hex_bytes!(
    /// TDATTRIBUTES of a trust domain, in the order of the report's bytes.
    TdAttributes,
    8
);
hex_bytes!(
    /// XFAM of a trust domain: the extended processor features that it may use, in the order of the report's bytes.
    Xfam,
    8
);
hex_bytes!(
    /// CHIP_ID as SEV-SNP reports carry it; Turin fills the first 8 bytes and leaves the rest zero.
    ChipId,
    64
);
hex_bytes!(
    /// SHA-384 of the public key that signed a SEV-SNP guest's ID block (ID_KEY_DIGEST), or of the key that signed that
    /// key (AUTHOR_KEY_DIGEST).
    KeyDigest,
    48
);
hex_bytes!(
    /// FAMILY_ID or IMAGE_ID: what whoever signed a SEV-SNP guest's ID block calls it.
    GuestLabel,
    16
);
hex_bytes!(
    /// Mitigations of a SEV-SNP platform, one bit each, as a big-endian number.
    MitigationVector,
    8
);

impl MitigationVector {
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits.to_be_bytes())
    }

    #[must_use]
    pub const fn bits(&self) -> u64 {
        u64::from_be_bytes(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_only() {
        let text = "00ff".repeat(16);
        let digest: Digest = text.parse().unwrap();
        assert_eq!(digest.to_string(), text);
        for bad in [text.to_uppercase(), text[2..].to_owned(), format!("{text}00"), "zz".repeat(32)] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}

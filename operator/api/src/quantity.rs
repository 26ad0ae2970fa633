//! Byte quantities and durations as users write them in Kubernetes objects.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A text that is not the quantity or duration it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuantity {
    #[error("`{0}` is not a quantity of bytes such as `64Gi` or `1000000`")]
    Bytes(String),
    #[error("`{0}` is not a duration such as `10m` or `1h30m`")]
    Duration(String),
}

/// Bytes as a Kubernetes quantity: an integer, or text with a decimal or binary suffix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ByteQuantity {
    Number(u64),
    Text(String),
}

const SUFFIXES: [(&str, u128); 12] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// More digits than this cannot be a number of bytes that fits 64 bits.
const DIGITS_MAX: usize = 20;

impl ByteQuantity {
    /// The number of bytes; fractions of a byte are rounded up, as Kubernetes does.
    ///
    /// # Errors
    /// [`InvalidQuantity::Bytes`] when the text is no quantity or exceeds 64 bits.
    pub fn bytes(&self) -> Result<u64, InvalidQuantity> {
        match self {
            Self::Number(bytes) => Ok(*bytes),
            Self::Text(text) => {
                parse_bytes(text).ok_or_else(|| InvalidQuantity::Bytes(text.chars().take(32).collect()))
            }
        }
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let (number, multiplier) = SUFFIXES
        .iter()
        .find_map(|(suffix, multiplier)| Some((text.strip_suffix(suffix)?, *multiplier)))
        .or_else(|| exponent(text))
        .unwrap_or((text, 1));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.len() <= DIGITS_MAX && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let value = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<u128>().ok() };
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole = value(whole)?.checked_mul(multiplier)?;
    let fraction = value(fraction)?.checked_mul(multiplier)?.div_ceil(scale);
    u64::try_from(whole.checked_add(fraction)?).ok()
}

fn exponent(text: &str) -> Option<(&str, u128)> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent).parse::<u32>().ok()?;
    Some((number, 10_u128.checked_pow(exponent)?))
}

impl fmt::Display for ByteQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(bytes) => bytes.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A duration in hours, minutes and seconds: `10m`, `1h30m`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DurationText(pub String);

impl DurationText {
    /// The duration in seconds.
    ///
    /// # Errors
    /// [`InvalidQuantity::Duration`] when the text is no duration or exceeds 64 bits.
    pub fn seconds(&self) -> Result<u64, InvalidQuantity> {
        parse_seconds(&self.0).ok_or_else(|| InvalidQuantity::Duration(self.0.chars().take(32).collect()))
    }
}

fn parse_seconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let unit = rest.find(|character: char| !character.is_ascii_digit())?;
        let (number, after) = rest.split_at_checked(unit)?;
        let seconds = match after.chars().next()? {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(seconds)?)?;
        rest = after.get(1..)?;
    }
    (!text.is_empty()).then_some(total)
}

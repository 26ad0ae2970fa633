//! Quantities of Kubernetes as numbers, so that they can be compared and divided. Pure.

use std::cmp::Ordering;
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Billionths of one, the smallest that a quantity can state.
const ONE: u128 = 1_000_000_000;
/// More digits than this are no quantity of anything that a machine has.
const DIGITS_MAX: usize = 20;
/// From this many on it is bytes that are counted.
const PROCESSORS_MAX: u128 = 100_000;
/// Digits of a fraction that count: those below a billionth are nothing.
const FRACTION_DIGITS_MAX: usize = 9;

/// Suffixes, with what each multiplies by, in billionths. `n` and `u` are below one.
const SUFFIXES: [(&str, u128); 16] = [
    ("", ONE),
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("k", 1_000 * ONE),
    ("M", 1_000_000 * ONE),
    ("G", 1_000_000_000 * ONE),
    ("T", 1_000_000_000_000 * ONE),
    ("P", 1_000_000_000_000_000 * ONE),
    ("E", 1_000_000_000_000_000_000 * ONE),
    ("Ki", ONE << 10),
    ("Mi", ONE << 20),
    ("Gi", ONE << 30),
    ("Ti", ONE << 40),
    ("Pi", ONE << 50),
    ("Ei", ONE << 60),
];

/// A quantity that is not negative. Two are equal if they amount to the same, however they are written.
#[derive(Debug, Clone)]
pub(crate) struct Amount {
    billionths: u128,
    /// As it was written, or in its shortest form.
    text: String,
}

impl Amount {
    /// Nothing for what is no quantity, and for one below zero.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let end = text.find(|found: char| !found.is_ascii_digit() && found != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let multiplier = multiplier(suffix)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.len() <= DIGITS_MAX && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let value = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<u128>().ok() };
        let counted = fraction.get(..FRACTION_DIGITS_MAX).unwrap_or(fraction);
        let scale = 10_u128.checked_pow(u32::try_from(counted.len()).ok()?)?;
        let part = value(counted)?.saturating_mul(multiplier).div_ceil(scale);
        let billionths = value(whole)?.saturating_mul(multiplier).saturating_add(part);
        Some(Self { billionths, text: text.to_owned() })
    }

    /// Of a quantity that the API server has accepted. One that cannot be read, or is negative, bounds nothing.
    pub(crate) fn of(quantity: &Quantity) -> Option<Self> {
        Self::parse(&quantity.0)
    }

    fn new(billionths: u128) -> Self {
        let binary = [("Gi", 30), ("Mi", 20), ("Ki", 10)];
        let divided =
            binary.iter().find(|(_, bits)| billionths > 0 && billionths.is_multiple_of(ONE << bits));
        let text = match divided {
            Some((suffix, bits)) => format!("{}{suffix}", billionths / (ONE << bits)),
            None if billionths.is_multiple_of(ONE) => (billionths / ONE).to_string(),
            None => format!("{}m", billionths.div_ceil(ONE / 1_000)),
        };
        Self { billionths, text }
    }

    pub(crate) fn zero() -> Self {
        Self::new(0)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.billionths == 0
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self::new(self.billionths.saturating_add(other.billionths))
    }

    /// What is left of it after `other`.
    pub(crate) fn less(&self, other: &Self) -> Self {
        Self::new(self.billionths.saturating_sub(other.billionths))
    }

    /// One part in `ratio` of it, rounded up: processors are given in thousandths, bytes whole. All of it for a ratio
    /// below one.
    pub(crate) fn part(&self, ratio: &Self) -> Self {
        let thousandth = ONE / 1_000;
        if ratio.billionths <= ONE {
            return self.clone();
        }
        // In thousandths, so that no amount of memory leaves 128 bits.
        let ratio = ratio.billionths / thousandth;
        let part = self.billionths.saturating_mul(1_000).div_ceil(ratio);
        let grain = if self.billionths < PROCESSORS_MAX * ONE { thousandth } else { ONE };
        Self::new(part.div_ceil(grain).saturating_mul(grain))
    }

    /// In whole units, rounded down.
    pub(crate) fn units(&self) -> u64 {
        u64::try_from(self.billionths / ONE).unwrap_or(u64::MAX)
    }

    pub(crate) fn quantity(&self) -> Quantity {
        Quantity(self.text.clone())
    }
}

/// Whether `text` is a quantity in the notation of Kubernetes, and not below zero.
#[must_use]
pub fn is_quantity(text: &str) -> bool {
    Amount::parse(text).is_some()
}

fn multiplier(suffix: &str) -> Option<u128> {
    let known = SUFFIXES.iter().find(|(known, _)| *known == suffix).map(|(_, multiplier)| *multiplier);
    known.or_else(|| {
        let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        // 10^-9 is one billionth, and 10^27 is more than an exbibyte of anything.
        let power = u32::try_from(exponent.checked_add(9)?).ok().filter(|power| *power <= 27)?;
        10_u128.checked_pow(power)
    })
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.billionths == other.billionths
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.billionths.cmp(&other.billionths)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        Amount::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn what_kubernetes_takes_is_read_and_nothing_else() {
        for good in
            ["1", "250m", "0.5", "512Mi", "2G", "1.25Gi", "100n", "3u", "1e3", "1E3", "12E", "0", "5."]
        {
            assert!(Amount::parse(good).is_some(), "{good}");
        }
        for bad in ["", "m", "-1", "1.2.3", "1 Gi", "1GiB", "½", "1e", ".", "1e99", "1i", "0x1"] {
            assert!(Amount::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn amounts_are_compared_however_they_are_written() {
        for (one, other) in
            [("1", "1000m"), ("1Gi", "1024Mi"), ("1e3", "1k"), ("0.5", "500m"), ("1500000u", "1500m")]
        {
            assert_eq!(amount(one), amount(other));
        }
        assert!(amount("1G") < amount("1Gi") && amount("999m") < amount("1"));
        assert!(amount("0.0000000001") < amount("1m"), "less than a billionth counts as nothing");
        assert!(amount("99999999999999999999Ei") > amount("1Ei"), "and nothing overflows");
    }

    #[test]
    fn what_is_worked_out_is_written_as_people_would() {
        assert_eq!(amount("1Gi").less(&amount("256Mi")).to_string(), "768Mi");
        assert_eq!(amount("256Mi").less(&amount("1Gi")).to_string(), "0");
        assert_eq!(amount("200m").plus(&amount("0.3")).to_string(), "500m");
        assert_eq!(amount("1").plus(&amount("1")).to_string(), "2");
        assert_eq!(amount("512Mi").plus(&amount("0.5Gi")).to_string(), "1Gi");
        assert_eq!(amount("1").part(&amount("4")).to_string(), "250m");
        assert_eq!(amount("100m").part(&amount("3")).to_string(), "34m", "rounded up");
        assert_eq!(amount("1Gi").part(&amount("2.5")).units(), 429_496_730);
        assert_eq!(amount("1").part(&amount("0.5")).to_string(), "1");
        assert_eq!(amount("1.9").units(), 1);
    }
}

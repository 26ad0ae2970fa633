//! The least that sealed bytes cost the processors: what moves them unsealed, and the cipher alone beside it.

use std::time::Duration;

use anyhow::Result;
use aws_lc_rs::aead::AES_256_GCM;

use super::crypto::aead::{Aead, Part};
use crate::contest::Series;
use crate::micro::Micro;

/// Bytes of the records that the cipher seals and opens.
const RECORD_BYTES: usize = 65_536;

/// The cipher alone: figures are of one record.
pub(super) fn cipher<'a>(block: Duration) -> Result<Micro<'a>> {
    Micro::new(Aead::new(&AES_256_GCM, RECORD_BYTES, Part::Round)?, block)
}

/// Nanoseconds per byte of what is `unsealed` and of `records` beside it, round by round.
pub(super) fn floor(unsealed: &Series, records: &Series) -> Series {
    let rounds = unsealed.values.iter().zip(&records.values);
    Series {
        values: rounds.map(|(bytes, record)| bytes + record / RECORD_BYTES as f64).collect(),
        latencies: Vec::new(),
        wrong: unsealed.wrong.clone().or_else(|| records.wrong.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_what_both_take_for_a_byte() {
        let series = |values: &[f64]| Series { values: values.to_vec(), ..Series::default() };
        let together = floor(&series(&[1.0, 2.0]), &series(&[65_536.0, 131_072.0]));
        assert_eq!(together.values, [2.0, 4.0]);
        let broken = Series { wrong: Some("cut".to_owned()), ..series(&[1.0]) };
        assert_eq!(floor(&series(&[1.0]), &broken).wrong.as_deref(), Some("cut"));
    }
}

//! Figures as people write them.

use crate::figure::Unit;

/// Three significant digits, never as a power of ten.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if !value.is_finite() => return "–".to_owned(),
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A number with its unit.
#[must_use]
pub fn figure(value: f64, unit: Unit) -> String {
    format!("{} {unit}", number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_mean_something() {
        assert_eq!(
            [0.6049, 1.25, 12.34, 393.21, 12_000.4].map(number),
            ["0.605", "1.25", "12.3", "393", "12000"]
        );
        assert_eq!(number(f64::NAN), "–");
        assert_eq!(figure(1.5, Unit::Microseconds), "1.50 µs");
    }
}

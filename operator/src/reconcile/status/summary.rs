//! Many values in one field: words in use, the weakest of an order.

use std::collections::BTreeSet;
use std::str::FromStr;

/// The words, each once, joined by `+`; `None` when there are none.
pub(super) fn joined<'a>(words: impl Iterator<Item = &'a str>) -> Option<String> {
    let words: BTreeSet<&str> = words.filter(|word| !word.is_empty()).collect();
    let words: Vec<&str> = words.into_iter().collect();
    (!words.is_empty()).then(|| words.join("+"))
}

/// The least of the words that can be read, in the order of their type: weakest first.
pub(super) fn weakest<'a, T: FromStr + Ord>(words: impl Iterator<Item = &'a str>) -> Option<T> {
    words.filter_map(|word| word.parse().ok()).min()
}

/// A count as statuses write it.
pub(super) fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use sealane_types::{Assurance, TcbStatus};

    use super::*;

    #[test]
    fn many_become_one() {
        assert_eq!(joined(["Tdx", "SevSnp", "Tdx", ""].into_iter()).as_deref(), Some("SevSnp+Tdx"));
        assert_eq!(joined([""].into_iter()), None);
        assert_eq!(weakest(["Pod", "Node", "nonsense"].into_iter()), Some(Assurance::Node));
        assert_eq!(weakest(["UpToDate", "OutOfDate"].into_iter()), Some(TcbStatus::OutOfDate));
        assert_eq!(weakest::<TcbStatus>(std::iter::empty()), None);
    }
}

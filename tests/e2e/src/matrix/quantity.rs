//! Kubernetes' quantities, as far as manifests of the matrix have them.

use serde_json::Value;

/// Suffixes and how many thousandths of a unit each is.
const SUFFIXES: [(&str, u64); 7] = [
    ("Ki", 1_000 << 10),
    ("Mi", 1_000 << 20),
    ("Gi", 1_000 << 30),
    ("m", 1),
    ("k", 1_000_000),
    ("M", 1_000_000_000),
    ("G", 1_000_000_000_000),
];

/// Thousandths of a unit; nothing where there is no quantity.
pub(super) fn thousandths(quantity: &Value) -> Option<u64> {
    let text = quantity
        .as_str()
        .map_or_else(|| quantity.as_u64().map(|number| number.to_string()), |text| Some(text.to_owned()))?;
    let suffixed = SUFFIXES.iter().find_map(|(suffix, each)| Some((text.strip_suffix(suffix)?, *each)));
    let (number, each) = suffixed.unwrap_or((&text, 1_000));
    number.parse::<u64>().ok()?.checked_mul(each)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_of_either_kind_compare() {
        assert_eq!(thousandths(&json!("1")), thousandths(&json!("1000m")));
        assert_eq!(thousandths(&json!("1Gi")), thousandths(&json!("1024Mi")));
        assert_eq!(thousandths(&json!(2)), Some(2_000));
        assert!(thousandths(&json!("512Mi")) < thousandths(&json!("1Gi")));
        assert_eq!((thousandths(&json!("lots")), thousandths(&json!(null))), (None, None));
    }
}

//! Quantities and durations in the words of Kubernetes.

use sealane_operator_api::{ByteQuantity, DurationText};

#[test]
fn bytes_as_kubernetes_reads_them() {
    let read = |text: &str| ByteQuantity::Text(text.to_owned()).bytes().ok();
    for (text, bytes) in [
        ("64Gi", 64 << 30),
        ("1000000", 1_000_000),
        ("1.5Mi", 1_572_864),
        ("0.5", 1),
        (".5Ki", 512),
        ("2G", 2_000_000_000),
        ("1e9", 1_000_000_000),
        ("3E", 3_000_000_000_000_000_000),
        ("0", 0),
    ] {
        assert_eq!(read(text), Some(bytes), "{text}");
    }
    for text in ["", ".", "Gi", "-1", "64GiB", "1e99", "1 Gi", "99999999999999999999", "64Ei", "ä"] {
        assert_eq!(read(text), None, "{text}");
    }
    assert_eq!(serde_json::from_str::<ByteQuantity>("42").unwrap().bytes(), Ok(42));
}

#[test]
fn durations_in_hours_minutes_seconds() {
    let read = |text: &str| DurationText(text.to_owned()).seconds().ok();
    for (text, seconds) in [("10m", 600), ("1h30m", 5400), ("90s", 90), ("0s", 0)] {
        assert_eq!(read(text), Some(seconds), "{text}");
    }
    for text in ["", "10", "m", "10ms", "-1m", "1d", "99999999999999999999h", "9999999999999999999h"] {
        assert_eq!(read(text), None, "{text}");
    }
}

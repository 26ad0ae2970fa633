//! The vectors in `tests/vectors`: computed here from fixed randomness, recomputed there in Python from the text
//! of `PROTOCOL.md`. `UPDATE_VECTORS=1 cargo test -p sealane-protocol --lib vectors` writes them anew.

mod frames;
mod handshakes;
mod keys;
mod packets;
mod records;

use std::path::PathBuf;

use sealane_support::world::trust;
use serde_json::Value;

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../tests/vectors", name].iter().collect()
}

fn stored(name: &str) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(path(name)).ok()?).ok()
}

/// Holds `computed` against the stored file, or stores it.
fn check(name: &str, computed: &Value) {
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        let text = serde_json::to_string_pretty(computed).unwrap();
        std::fs::write(path(name), text + "\n").unwrap();
    }
    let stored = stored(name).unwrap_or_else(|| panic!("{name} is missing: see the head of this module"));
    assert!(stored == *computed, "{name} is not what the code computes; {computed:#}");
}

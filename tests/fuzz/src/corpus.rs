//! The committed inputs of each target.

use std::path::PathBuf;

/// Where the inputs of `target` lie.
#[must_use]
pub fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The inputs with their names, in the order of the names.
///
/// # Panics
/// When the folder cannot be read.
#[must_use]
pub fn load(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder(target);
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}; see tests/fuzz/README.md", folder.display()));
    let mut inputs: Vec<_> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    inputs.sort();
    inputs
}

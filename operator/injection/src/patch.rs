//! A JSON patch that only adds: whatever the pod's author wrote stays byte for byte.

use std::collections::BTreeSet;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::{Value, json};

/// Collects additions in order, making the lists and maps they need on the way.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    operations: Vec<PatchOperation>,
    made: BTreeSet<String>,
}

impl Additions {
    /// Appends to the list at `path`, which `exists` in the pod already or is made.
    pub(crate) fn append(&mut self, path: &[&str], exists: bool, value: Value) {
        self.ensure(path, exists, json!([]));
        self.add(path, "-", value);
    }

    /// Puts first into the list at `path`.
    pub(crate) fn prepend(&mut self, path: &[&str], exists: bool, value: Value) {
        self.ensure(path, exists, json!([]));
        self.add(path, "0", value);
    }

    /// Sets `key` of the map at `path`.
    pub(crate) fn insert(&mut self, path: &[&str], exists: bool, key: &str, value: Value) {
        self.ensure(path, exists, json!({}));
        self.add(path, key, value);
    }

    fn ensure(&mut self, path: &[&str], exists: bool, empty: Value) {
        let pointer = PointerBuf::from_tokens(path.iter().copied());
        if !exists && self.made.insert(pointer.to_string()) {
            self.operations.push(PatchOperation::Add(AddOperation { path: pointer, value: empty }));
        }
    }

    fn add(&mut self, path: &[&str], last: &str, value: Value) {
        let path = PointerBuf::from_tokens(path.iter().copied().chain([last]));
        self.operations.push(PatchOperation::Add(AddOperation { path, value }));
    }

    pub(crate) fn finish(self) -> Patch {
        Patch(self.operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_maps_are_made_once_and_keys_are_escaped() {
        let mut additions = Additions::default();
        additions.insert(&["metadata", "labels"], false, "sealane.dev/a~b", json!("x"));
        additions.append(&["list"], false, json!(2));
        additions.prepend(&["list"], false, json!(1));
        additions.append(&["list"], true, json!(3));
        let mut document = json!({"metadata": {}});
        json_patch::patch(&mut document, &additions.finish()).unwrap();
        assert_eq!(document, json!({"metadata": {"labels": {"sealane.dev/a~b": "x"}}, "list": [1, 2, 3]}));
    }
}

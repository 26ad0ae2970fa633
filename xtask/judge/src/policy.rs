//! What an entry's `policy` demands. Keys are taken by name; one that is left over is a demand that nobody checked.

use std::{cell::RefCell, collections::BTreeMap};

use serde_json::Value;

use super::verdict::Unjudged;

#[derive(Debug)]
pub(super) struct Policy {
    kind: &'static str,
    left: RefCell<BTreeMap<String, Value>>,
}

impl Policy {
    pub(super) const fn new(kind: &'static str, keys: BTreeMap<String, Value>) -> Self {
        Self { kind, left: RefCell::new(keys) }
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Unjudged> {
        self.take(name, default, "true or false", Value::as_bool)
    }

    pub(super) fn number(&self, name: &str, default: u64) -> Result<u64, Unjudged> {
        self.take(name, default, "a whole number", Value::as_u64)
    }

    pub(super) fn words(&self, name: &str, default: &[&str]) -> Result<Vec<String>, Unjudged> {
        let default = default.iter().map(|word| (*word).to_owned()).collect();
        let read = |value: &Value| {
            let words = value.as_array()?.iter();
            words.map(|word| word.as_str().map(str::to_owned)).collect()
        };
        self.take(name, default, "a list of words", read)
    }

    /// An object of numbers, each by one of `names`; empty if the key is not there.
    pub(super) fn numbers(&self, key: &str, names: &[&str]) -> Result<BTreeMap<String, u64>, Unjudged> {
        let read = |value: &Value| {
            let parts = value.as_object()?.iter();
            let part = |(name, value): (&String, &Value)| {
                let known = names.contains(&name.as_str());
                known.then(|| value.as_u64()).flatten().map(|number| (name.clone(), number))
            };
            parts.map(part).collect()
        };
        self.take(key, BTreeMap::new(), &format!("numbers by the names {}", names.join(", ")), read)
    }

    fn take<T>(
        &self,
        name: &str,
        default: T,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, Unjudged> {
        let Some(value) = self.left.borrow_mut().remove(name) else { return Ok(default) };
        let malformed =
            || Unjudged::Malformed(format!("policy key `{name}`: expected {expected}, found {value}"));
        read(&value).ok_or_else(malformed)
    }

    /// # Errors
    /// The first key that was not asked for.
    pub(super) fn close(&self) -> Result<(), Unjudged> {
        match self.left.borrow().keys().next() {
            None => Ok(()),
            Some(name) => Err(Unjudged::Refused(format!(
                "the policy has the key `{name}`, which cannot be checked for {} evidence",
                self.kind
            ))),
        }
    }
}

//! What changed between two documents, field by field.

use std::collections::BTreeSet;
use std::fmt;

use crate::document::Document;
use crate::encode;
use crate::json::{self, Tree};

/// One difference. `before` or `after` is absent where a value was added or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Like `peers.embedder.entries[0].measurements`.
    pub path: String,
    /// Canonical JSON.
    pub before: Option<String>,
    /// Canonical JSON.
    pub after: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.before, &self.after) {
            (None, Some(after)) => write!(f, "+ {}: {after}", self.path),
            (Some(before), None) => write!(f, "- {}: {before}", self.path),
            (before, after) => {
                let shown = |side: &Option<String>| side.clone().unwrap_or_default();
                write!(f, "~ {}: {} -> {}", self.path, shown(before), shown(after))
            }
        }
    }
}

/// Every difference, in the order of the fields. Documents that mean the same have none, however they spell
/// their defaults; lists of plain values compare as sets.
#[must_use]
pub fn diff(before: &Document, after: &Document) -> Vec<Change> {
    let mut changes = Vec::new();
    compare("", &encode::document(before), &encode::document(after), &mut changes);
    changes
}

fn show(tree: &Tree) -> String {
    String::from_utf8(json::write(tree)).unwrap_or_default()
}

fn compare(path: &str, before: &Tree, after: &Tree, changes: &mut Vec<Change>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Tree::Object(old), Tree::Object(new)) => {
            let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            for name in names {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                step(&inner, old.get(name), new.get(name), changes);
            }
        }
        (Tree::List(old), Tree::List(new)) if plain(old) && plain(new) => {
            let (old, new) = (shown(old), shown(new));
            let change = |before, after| Change { path: path.to_owned(), before, after };
            changes.extend(old.difference(&new).map(|gone| change(Some(gone.clone()), None)));
            changes.extend(new.difference(&old).map(|come| change(None, Some(come.clone()))));
        }
        (Tree::List(old), Tree::List(new)) => {
            for index in 0..old.len().max(new.len()) {
                step(&format!("{path}[{index}]"), old.get(index), new.get(index), changes);
            }
        }
        _ => changes.push(Change {
            path: path.to_owned(),
            before: Some(show(before)),
            after: Some(show(after)),
        }),
    }
}

fn step(path: &str, before: Option<&Tree>, after: Option<&Tree>, changes: &mut Vec<Change>) {
    match (before, after) {
        (Some(before), Some(after)) => compare(path, before, after, changes),
        (before, after) => {
            changes.push(Change { path: path.to_owned(), before: before.map(show), after: after.map(show) });
        }
    }
}

fn plain(items: &[Tree]) -> bool {
    items.iter().all(|item| !matches!(item, Tree::List(_) | Tree::Object(_)))
}

fn shown(items: &[Tree]) -> BTreeSet<String> {
    items.iter().map(show).collect()
}

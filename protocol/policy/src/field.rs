//! Typed access to a JSON tree that says, for every refusal, which field, what is wrong, and an example.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use sealane_types::{ForwardPort, InvalidPort};

use crate::json::Tree;

/// A field that does not say what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {problem}; for example: {example}")]
pub struct FieldError {
    /// From the document's root, like `peers.embedder.entries[0].kind`.
    pub path: String,
    pub problem: Problem,
    pub example: &'static str,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    #[error("is missing")]
    Missing,
    #[error("is not a known field here; known are {known}")]
    Unknown { known: String },
    #[error("expected {expected}, found {found}")]
    WrongType { expected: &'static str, found: &'static str },
    #[error("expected {expected}, found `{found}`")]
    Malformed { expected: String, found: String },
    #[error("expected a number from {least} to {most}, found {found}")]
    OutOfRange { least: u64, most: u64, found: u64 },
    #[error("has {found} members; at most {most} are allowed")]
    TooMany { most: usize, found: usize },
    #[error("is empty")]
    Empty,
    #[error("repeats an earlier value of the same list")]
    Repeated,
    #[error("`{word}` is not implemented in this release")]
    NotInThisRelease { word: &'static str },
    #[error("{0}")]
    UnusablePort(InvalidPort),
    #[error("must name exactly one of {choices}")]
    NotExactlyOne { choices: &'static str },
    #[error("lies at or before `{other}`")]
    NotAfter { other: &'static str },
    #[error("asks for {threshold} signatures from {keys} keys")]
    Unreachable { threshold: u64, keys: usize },
    #[error("is a point of small order, with which anybody passes for its owner; no key generator made it")]
    WeakKey,
}

/// Longest quotation of a refused value in a message.
const QUOTED_CHARS_MAX: usize = 80;

fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(QUOTED_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(QUOTED_CHARS_MAX).is_some() {
        quoted.push('…');
    }
    quoted
}

/// `words` for a reader.
pub(crate) fn words<T: fmt::Display>(words: &[T]) -> String {
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// One value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Field<'t> {
    path: String,
    tree: &'t Tree,
    example: &'static str,
}

impl<'t> Field<'t> {
    pub(crate) fn root(tree: &'t Tree, example: &'static str) -> Self {
        Self { path: "document".into(), tree, example }
    }

    pub(crate) fn refuse(&self, problem: Problem) -> FieldError {
        FieldError { path: self.path.clone(), problem, example: self.example }
    }

    fn mistyped(&self, expected: &'static str) -> FieldError {
        self.refuse(Problem::WrongType { expected, found: self.tree.kind() })
    }

    pub(crate) fn flag(&self) -> Result<bool, FieldError> {
        match self.tree {
            Tree::Flag(flag) => Ok(*flag),
            _ => Err(self.mistyped("true or false")),
        }
    }

    pub(crate) fn integer(&self, least: u64, most: u64) -> Result<u64, FieldError> {
        match self.tree {
            Tree::Integer(found) if (least..=most).contains(found) => Ok(*found),
            Tree::Integer(found) => Err(self.refuse(Problem::OutOfRange { least, most, found: *found })),
            _ => Err(self.mistyped("a number")),
        }
    }

    /// An integer that fits one byte.
    pub(crate) fn byte(&self, most: u8) -> Result<u8, FieldError> {
        let value = self.integer(0, u64::from(most))?;
        Ok(u8::try_from(value).unwrap_or(most))
    }

    /// A port that a forward may reach.
    pub(crate) fn port(&self) -> Result<ForwardPort, FieldError> {
        let port = self.integer(0, u64::MAX)?;
        let port = ForwardPort::new(u32::try_from(port).unwrap_or(u32::MAX));
        port.map_err(|invalid| self.refuse(Problem::UnusablePort(invalid)))
    }

    pub(crate) fn text(&self) -> Result<&'t str, FieldError> {
        match self.tree {
            Tree::Text(text) => Ok(text),
            _ => Err(self.mistyped("a text")),
        }
    }

    /// A text that parses as `T`; `expected` says what that is.
    pub(crate) fn parse<T: FromStr>(&self, expected: &str) -> Result<T, FieldError> {
        let text = self.text()?;
        text.parse().map_err(|_| self.malformed(expected, text))
    }

    pub(crate) fn malformed(&self, expected: &str, found: &str) -> FieldError {
        self.refuse(Problem::Malformed { expected: expected.to_owned(), found: quote(found) })
    }

    /// One of `words`.
    pub(crate) fn word<T: Copy + fmt::Display>(&self, words: &[T]) -> Result<T, FieldError> {
        let text = self.text()?;
        words
            .iter()
            .copied()
            .find(|word| word.to_string() == text)
            .ok_or_else(|| self.malformed(&format!("one of {}", self::words(words)), text))
    }

    pub(crate) fn list(&self, most: usize) -> Result<Vec<Self>, FieldError> {
        let Tree::List(items) = self.tree else { return Err(self.mistyped("a list")) };
        self.bounded(items.len(), most)?;
        let items = items.iter().enumerate();
        Ok(items
            .map(|(index, tree)| Field { path: format!("{}[{index}]", self.path), tree, ..*self })
            .collect())
    }

    /// A list whose members differ from each other.
    pub(crate) fn set<T: Ord>(
        &self,
        most: usize,
        read: impl Fn(&Self) -> Result<T, FieldError>,
    ) -> Result<BTreeSet<T>, FieldError> {
        let mut set = BTreeSet::new();
        for item in self.list(most)? {
            if !set.insert(read(&item)?) {
                return Err(item.refuse(Problem::Repeated));
            }
        }
        Ok(set)
    }

    /// Whether this is a text rather than a list of them.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.tree, Tree::Text(_))
    }

    /// An object whose member names are data.
    pub(crate) fn members(&self, most: usize) -> Result<Vec<(&'t str, Self)>, FieldError> {
        let Tree::Object(members) = self.tree else { return Err(self.mistyped("an object")) };
        self.bounded(members.len(), most)?;
        let members = members.iter();
        Ok(members
            .map(|(name, tree)| {
                (name.as_str(), Field { path: format!("{}.{name}", self.path), tree, ..*self })
            })
            .collect())
    }

    /// An object with known fields.
    pub(crate) fn object(self) -> Result<Object<'t>, FieldError> {
        match self.tree {
            Tree::Object(_) => Ok(Object { field: self, known: Vec::new() }),
            _ => Err(self.mistyped("an object")),
        }
    }

    fn bounded(&self, found: usize, most: usize) -> Result<(), FieldError> {
        if found > most {
            return Err(self.refuse(Problem::TooMany { most, found }));
        }
        Ok(())
    }
}

/// An object whose fields are taken one by one; [`Object::close`] refuses what nobody asked for.
#[derive(Debug)]
pub(crate) struct Object<'t> {
    field: Field<'t>,
    known: Vec<&'static str>,
}

impl<'t> Object<'t> {
    pub(crate) fn optional(&mut self, name: &'static str, example: &'static str) -> Option<Field<'t>> {
        self.known.push(name);
        let Tree::Object(members) = self.field.tree else { return None };
        let tree = members.get(name)?;
        Some(Field { path: self.path_of(name), tree, example })
    }

    pub(crate) fn required(
        &mut self,
        name: &'static str,
        example: &'static str,
    ) -> Result<Field<'t>, FieldError> {
        self.optional(name, example).ok_or_else(|| FieldError {
            path: self.path_of(name),
            problem: Problem::Missing,
            example,
        })
    }

    /// The object itself, for a refusal that concerns several of its fields.
    pub(crate) fn field(&self) -> &Field<'t> {
        &self.field
    }

    /// # Errors
    /// The first field that was not asked for.
    pub(crate) fn close(self) -> Result<(), FieldError> {
        let Tree::Object(members) = self.field.tree else { return Ok(()) };
        let Some(unknown) = members.keys().find(|name| !self.known.contains(&name.as_str())) else {
            return Ok(());
        };
        let known = if self.known.is_empty() { "none".to_owned() } else { self.known.join(", ") };
        Err(FieldError {
            path: self.path_of(&quote(unknown)),
            problem: Problem::Unknown { known },
            example: self.field.example,
        })
    }

    fn path_of(&self, name: &str) -> String {
        // The root's own name would only make every path longer.
        if self.field.path == "document" { name.to_owned() } else { format!("{}.{name}", self.field.path) }
    }
}

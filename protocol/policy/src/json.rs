//! The JSON profile of signed documents: RFC 8785 (JCS) restricted to ASCII member names, non-negative
//! integers up to 2^53 - 1, and no `null`.
//!
//! Under these restrictions the canonical form is compact JSON with members in byte order, which is what
//! [`write`] produces; [`read_canonical`] accepts only bytes that [`write`] gives back unchanged. Duplicate
//! members would survive no re-encoding either; they are refused by name so that the author finds them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use crate::limits::{DOCUMENT_BYTES_MAX, INTEGER_MAX, JSON_DEPTH_MAX, JSON_MEMBERS_MAX};

/// A JSON value of the profile. Objects iterate in byte order of their names whatever features serde_json has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tree {
    Flag(bool),
    Integer(u64),
    Text(String),
    List(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

impl Tree {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Flag(_) => "true or false",
            Self::Integer(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// Why bytes are not a document in the signed form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    #[error("the document has {bytes} bytes; at most {DOCUMENT_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("the document is not JSON: {problem}")]
    NotJson { problem: String },
    #[error("line {line}, column {column}: {fault}")]
    Outside { line: usize, column: usize, fault: Fault },
    #[error(
        "the document is JSON but not in its signed form (RFC 8785: no spaces, members sorted by name); it differs from byte {offset} on. `kubectl sealane policy sign` writes the signed form; in Python: json.dumps(document, sort_keys=True, separators=(',', ':'))"
    )]
    NotCanonical { offset: usize },
}

/// What JSON allows and signed documents do not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    #[error("the member `{0}` appears twice in one object")]
    Repeated(String),
    #[error("the member name `{0}` is not ASCII")]
    NameNotAscii(String),
    #[error("numbers are whole, from 0 to {INTEGER_MAX}, written without exponent or fraction")]
    NotAnInteger,
    #[error("`null` is not used; leave the member out")]
    Null,
    #[error("nested more than {JSON_DEPTH_MAX} deep")]
    TooDeep,
    #[error("more than {JSON_MEMBERS_MAX} members in one list or object")]
    TooManyMembers,
}

/// Reads JSON of the profile in any formatting.
pub(crate) fn read(bytes: &[u8]) -> Result<Tree, JsonError> {
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(JsonError::TooLarge { bytes: bytes.len() });
    }
    let fault = Cell::new(None);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = Reader { depth: 0, fault: &fault }.deserialize(&mut deserializer);
    read.and_then(|tree| deserializer.end().map(|()| tree)).map_err(|error| match fault.take() {
        Some(fault) => JsonError::Outside { line: error.line(), column: error.column(), fault },
        None => JsonError::NotJson { problem: error.to_string() },
    })
}

/// Reads bytes that are exactly the canonical form of what they say.
pub(crate) fn read_canonical(bytes: &[u8]) -> Result<Tree, JsonError> {
    let tree = read(bytes)?;
    let canonical = write(&tree);
    if canonical == bytes {
        return Ok(tree);
    }
    let same = canonical.iter().zip(bytes).take_while(|(ours, theirs)| ours == theirs).count();
    Err(JsonError::NotCanonical { offset: same })
}

/// The canonical bytes of `tree`.
pub(crate) fn write(tree: &Tree) -> Vec<u8> {
    let bytes = serde_json::to_vec(tree).unwrap_or_default();
    debug_assert_eq!(read(&bytes).as_ref(), Ok(tree), "what is written reads back");
    bytes
}

/// serde_json's compact form escapes exactly what RFC 8785 section 3.2.2.2 escapes, in the same spelling.
impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Integer(integer) => serializer.serialize_u64(*integer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(members) => serializer.collect_map(members),
        }
    }
}

#[derive(Clone, Copy)]
struct Reader<'f> {
    depth: usize,
    /// Carries the typed fault past serde's textual errors.
    fault: &'f Cell<Option<Fault>>,
}

impl Reader<'_> {
    fn refuse<E: serde::de::Error>(self, fault: Fault) -> E {
        let error = E::custom(&fault);
        self.fault.set(Some(fault));
        error
    }

    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth + 1;
        if depth > JSON_DEPTH_MAX {
            return Err(self.refuse(Fault::TooDeep));
        }
        Ok(Self { depth, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Tree;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Tree, E> {
        Ok(Tree::Flag(flag))
    }

    fn visit_u64<E: serde::de::Error>(self, integer: u64) -> Result<Tree, E> {
        if integer > INTEGER_MAX {
            return Err(self.refuse(Fault::NotAnInteger));
        }
        Ok(Tree::Integer(integer))
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Tree, E> {
        Err(self.refuse(Fault::NotAnInteger))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Tree, E> {
        Err(self.refuse(Fault::NotAnInteger))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Tree, E> {
        Err(self.refuse(Fault::Null))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let inner = self.inner()?;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(inner)? {
            if items.len() == JSON_MEMBERS_MAX {
                return Err(self.refuse(Fault::TooManyMembers));
            }
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Tree, A::Error> {
        let inner = self.inner()?;
        let mut members = BTreeMap::new();
        while let Some(name) = object.next_key::<String>()? {
            if !name.is_ascii() {
                return Err(self.refuse(Fault::NameNotAscii(name)));
            }
            if members.len() == JSON_MEMBERS_MAX {
                return Err(self.refuse(Fault::TooManyMembers));
            }
            if members.contains_key(&name) {
                return Err(self.refuse(Fault::Repeated(name)));
            }
            members.insert(name, object.next_value_seed(inner)?);
        }
        Ok(Tree::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(text: &str) -> Fault {
        match read(text.as_bytes()) {
            Err(JsonError::Outside { fault, .. }) => fault,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn only_one_spelling_is_canonical() {
        let canonical = br#"{"a":[true,{"b":"x\n\u0001\u007f"}],"c":9007199254740991}"#;
        let spelled = [
            br#"{"a": 1}"#.as_slice(),
            br#"{"b":1,"a":2}"#,
            b"{\"a\":1}\n",
            br#"{"a":"\u0041"}"#,
            br#"{"a":"\/"}"#,
            br#"{"a":"\u001F"}"#,
        ];
        assert!(matches!(read_canonical(canonical), Err(JsonError::NotCanonical { offset: 26 })));
        let canonical = br#"{"a":[true,{"b":"x\n\u0001"}],"c":9007199254740991}"#;
        assert_eq!(write(&read_canonical(canonical).unwrap()), canonical);
        for other in spelled {
            assert!(read(other).is_ok());
            assert!(matches!(read_canonical(other), Err(JsonError::NotCanonical { .. })), "{other:?}");
        }
    }

    #[test]
    fn what_json_allows_and_documents_do_not() {
        assert_eq!(fault(r#"{"a":1,"b":{"a":1,"a":1}}"#), Fault::Repeated("a".into()));
        assert_eq!(fault(r#"{"a":1,"\u0061":1}"#), Fault::Repeated("a".into()));
        assert_eq!(fault(r#"{"ä":1}"#), Fault::NameNotAscii("ä".into()));
        assert_eq!(fault(r#"{"a":null}"#), Fault::Null);
        for number in ["-1", "-0", "1.0", "1e3", "0.5", "9007199254740992", "18446744073709551616"] {
            assert_eq!(fault(number), Fault::NotAnInteger, "{number}");
        }
    }

    #[test]
    fn the_place_of_a_fault_is_named() {
        let error = read(b"{\n  \"epoch\": 1.5\n}").unwrap_err();
        assert!(error.to_string().starts_with("line 2, column"), "{error}");
    }

    #[test]
    fn size_depth_and_members_are_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(fault(&nested(JSON_DEPTH_MAX + 1)), Fault::TooDeep);

        let list = |members: usize| format!("[{}1]", "1,".repeat(members - 1));
        assert!(read(list(JSON_MEMBERS_MAX).as_bytes()).is_ok());
        assert_eq!(fault(&list(JSON_MEMBERS_MAX + 1)), Fault::TooManyMembers);

        let object = |members: usize| {
            let members: Vec<_> = (0..members).map(|index| format!("\"{index}\":1")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(read(object(JSON_MEMBERS_MAX).as_bytes()).is_ok());
        assert_eq!(fault(&object(JSON_MEMBERS_MAX + 1)), Fault::TooManyMembers);

        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        assert!(read(text(DOCUMENT_BYTES_MAX).as_bytes()).is_ok());
        let bytes = DOCUMENT_BYTES_MAX + 1;
        assert_eq!(read(text(bytes).as_bytes()), Err(JsonError::TooLarge { bytes }));
    }

    #[test]
    fn trailing_bytes_and_broken_json_are_refused() {
        for text in ["", "{", "{}{}", "{} x", "\u{feff}{}", "{'a':1}", "{\"a\":1,}", "\"\\ud800\""] {
            assert!(matches!(read(text.as_bytes()), Err(JsonError::NotJson { .. })), "{text}");
        }
        assert!(matches!(read(b"\"\xff\""), Err(JsonError::NotJson { .. })));
    }

    fn tree() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Tree::Flag),
            (0..=INTEGER_MAX).prop_map(Tree::Integer),
            any::<String>().prop_map(Tree::Text),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Tree::List),
                prop::collection::btree_map("[ -~]{0,8}", inner, 0..8).prop_map(Tree::Object),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_canonical(tree in tree()) {
            prop_assert_eq!(read_canonical(&write(&tree)), Ok(tree));
        }

        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}

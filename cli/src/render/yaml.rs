//! Manifests as kubectl reads them: YAML 1.1, in which `on`, `no` and `0400` are no texts.

use anyhow::{Context, Result};
use serde::Deserialize as _;
use serde_json::Value;

/// Members that people write in octal: permissions of files.
const OCTAL: [&str; 2] = ["defaultMode", "mode"];
/// Keys that need quotes, although they look like words.
const NOT_WORDS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "true", "false"];

/// The documents of a file. Merge keys (`<<`) are applied.
///
/// # Errors
/// It is no YAML, or has values that JSON has no form for.
pub(super) fn read(text: &str) -> Result<Vec<Value>> {
    let mut documents = Vec::new();
    for document in serde_norway::Deserializer::from_str(text) {
        let mut read = serde_norway::Value::deserialize(document).context("is not YAML")?;
        read.apply_merge().context("has a merge key (<<) that merges no map")?;
        let mut value = serde_json::to_value(read).context("has keys that are no texts")?;
        octal(&mut value);
        if !value.is_null() {
            documents.push(value);
        }
    }
    Ok(documents)
}

/// Reads permissions as kubectl does.
fn octal(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let digits = member
                    .as_str()
                    .and_then(|text| text.strip_prefix('0'))
                    .filter(|_| OCTAL.contains(&name.as_str()));
                match digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()) {
                    Some(mode) => *member = mode.into(),
                    None => octal(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(octal),
        _ => {}
    }
}

/// `documents` in block style. Every text is quoted, so that no reader takes it for anything else.
pub(super) fn write(documents: &[Value]) -> String {
    let texts: Vec<String> = documents
        .iter()
        .map(|document| {
            let mut text = String::new();
            put(&mut text, document, 0);
            text
        })
        .collect();
    texts.join("---\n")
}

/// Puts `value` behind what a line has so far, or on lines of its own, `depth` steps in.
fn put(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 || !text.ends_with("- ") {
                    indent(text, depth);
                }
                text.push_str(&key(name));
                text.push(':');
                below(text, member, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 || !text.ends_with("- ") {
                    indent(text, depth);
                }
                text.push_str("- ");
                put(text, item, depth + 1);
            }
        }
        scalar => {
            // JSON is YAML, and quotes every text.
            text.push_str(&scalar.to_string());
            text.push('\n');
        }
    }
}

/// What stands behind the colon of a key.
fn below(text: &mut String, value: &Value, depth: usize) {
    let nests = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    text.push(if nests { '\n' } else { ' ' });
    put(text, value, depth + 1);
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

fn key(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|symbol| symbol.is_ascii_alphanumeric() || "._/-".contains(symbol))
        && !NOT_WORDS.contains(&name.to_ascii_lowercase().as_str());
    if plain { name.to_owned() } else { Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_reads_back_and_no_text_is_plain() {
        let value = json!({
            "a": {"b": [1, "on", {"c": [], "d": {}, "e": [["x"], [{"f": null}]]}], "yes": "no", "0x1": true},
            "text": "1_000", "lines": "a\n- b: c\n", "empty": "", "": 1.5,
        });
        let text = write(&[value.clone(), json!([{"a": 1}])]);
        assert_eq!(read(&text).unwrap(), [value, json!([{"a": 1}])], "{text}");
        for quoted in ["\"on\"", "\"yes\": \"no\"", "\"1_000\"", "\"0x1\": true"] {
            assert!(text.contains(quoted), "{quoted}: {text}");
        }
    }

    #[test]
    fn what_kubectl_reads_otherwise_is_read_as_kubectl_does() {
        let text = "base: &base {env: [1]}\nc: [{<<: *base, name: a}]\nsecret: {defaultMode: 0400, mode: \"0644\", other: 0400}\n";
        let [read] = &read(text).unwrap()[..] else { panic!() };
        assert_eq!(read["c"][0], json!({"env": [1], "name": "a"}));
        assert_eq!(read["secret"], json!({"defaultMode": 256, "mode": 420, "other": "0400"}));
    }
}

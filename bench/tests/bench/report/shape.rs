//! As much of JSON Schema as the report's schema uses; a keyword that is not known here fails rather than being ignored.

use serde_json::Value;

/// Where `value` breaks `schema`.
pub(crate) fn breaches(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().unwrap() {
        let fine = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" => true,
            "$ref" => {
                let definition = root.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap();
                check(root, definition, value, place, found);
                true
            }
            "type" => match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| is(kind, value)),
                kind => is(kind, value),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "oneOf" | "anyOf" => {
                let fits = |option: &&Value| {
                    let mut inside = Vec::new();
                    check(root, option, value, place, &mut inside);
                    inside.is_empty()
                };
                let fitting = rule.as_array().unwrap().iter().filter(fits).count();
                if keyword == "oneOf" { fitting == 1 } else { fitting > 0 }
            }
            "required" => {
                let missing = |name: &&Value| value.get(name.as_str().unwrap()).is_none();
                !rule.as_array().unwrap().iter().any(|name| missing(&name))
            }
            "properties" => {
                for (name, property) in rule.as_object().unwrap() {
                    if let Some(inside) = value.get(name) {
                        check(root, property, inside, &format!("{place}/{name}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object().unwrap();
                rule == true
                    || value
                        .as_object()
                        .is_none_or(|object| object.keys().all(|name| known.contains_key(name)))
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{place}/{index}"), found);
                }
                true
            }
            other => panic!("the schema uses {other}, which this check does not know"),
        };
        if !fine {
            found.push(format!("{place}: {keyword} {rule}"));
        }
    }
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the schema uses the type {other}"),
    }
}

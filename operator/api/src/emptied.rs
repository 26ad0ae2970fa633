//! Structures that can be written as `{}`, and what becomes of them.
//!
//! Whoever makes an object by client-side apply owns the defaults that the API server filled in. When that manager becomes
//! one of server-side apply, the API server takes them out again, and where nothing of a structure is left it leaves null
//! in place of `{}`. A schema that refused null there would refuse every later apply. So null stands for `{}`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSON, JSONSchemaProps};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Reads null as an empty structure; a field that is absent stays absent.
///
/// # Errors
/// Those of the structure.
pub(crate) fn or_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(|read| Some(read.unwrap_or_default()))
}

/// Reads a word of a status that no release before knows as none: after a downgrade it must not hide the object.
///
/// # Errors
/// It is no value at all.
pub(crate) fn or_unknown<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Option::<serde_json::Value>::deserialize(deserializer)
        .map(|read| read.and_then(|word| serde_json::from_value(word).ok()))
}

/// Lets null stand for `{}` in the specification of an object: where the structure may be left out, null is a value; where
/// it may not, or has a default, the API server puts the default in its place.
pub(crate) fn admit_emptied(object: &mut JSONSchemaProps) {
    let required =
        object.required.as_ref().is_some_and(|required| required.iter().any(|name| name == "spec"));
    let spec = object.properties.as_mut().and_then(|properties| properties.get_mut("spec"));
    let Some(spec) = spec else { return };
    if required && may_be_empty(spec) {
        spec.default = Some(JSON(serde_json::json!({})));
    }
    admit_within(spec);
}

fn admit_within(schema: &mut JSONSchemaProps) {
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        if may_be_empty(property) {
            property.nullable = Some(true);
        }
        admit_within(property);
    }
}

/// Whether `{}` is a value and nothing but null can be left of it. What is atomic is owned as a whole.
fn may_be_empty(schema: &JSONSchemaProps) -> bool {
    schema.properties.is_some()
        && schema.required.as_ref().is_none_or(Vec::is_empty)
        && schema.default.is_none()
        && schema.x_kubernetes_map_type.as_deref() != Some("atomic")
}

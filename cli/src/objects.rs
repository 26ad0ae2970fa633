//! Objects of Sealane as this release reads them, whatever release wrote them. What it does not know is told, and hides
//! nothing else.

use anyhow::{Context, Result, anyhow};
use kube::api::ListParams;
use kube::core::{DynamicObject, NamespaceResourceScope};
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::explain;
use crate::nearest::suggestion;
use crate::output;

/// Fields of a status that every release reads alike.
const STATUS_FIELDS: [&str; 3] = ["conditions", "observedGeneration", "staleAfter"];
/// Unknown fields that are named.
const FIELDS_MAX: usize = 8;
pub(crate) const UPDATE: &str = "update kubectl-sealane to the release of the operator";

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct Objects<K> {
    pub(crate) readable: Vec<K>,
    pub(crate) strange: Vec<Strange>,
}

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self { readable: Vec::new(), strange: Vec::new() }
    }
}

/// An object that this release does not know in all its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Strange {
    pub(crate) namespace: Option<String>,
    /// `KIND/NAME`.
    pub(crate) what: String,
    /// How much of it is missing, and why.
    pub(crate) message: String,
}

impl Strange {
    pub(crate) fn text(&self) -> String {
        let place = self.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace} "));
        output::printable(&format!("{place}{}: {}", self.what, self.message))
    }
}

/// The objects of a namespace, not read yet.
pub(crate) fn api<K: Resource<DynamicType = ()>>(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()))
}

/// The objects of a namespace, or of all.
pub(crate) async fn list<K>(client: &Client, namespace: Option<&str>) -> Result<Objects<K>, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned,
{
    let api = match namespace {
        Some(namespace) => api::<K>(client, namespace),
        None => Api::all_with(client.clone(), &ApiResource::erase::<K>(&())),
    };
    let mut objects = Objects::default();
    for object in api.list(&ListParams::default()).await?.items {
        let (readable, strange) = read(&object);
        objects.readable.extend(readable);
        objects.strange.extend(strange);
    }
    Ok(objects)
}

/// The object of that name, where there is one.
///
/// # Errors
/// It cannot be had, or this release cannot read it.
pub(crate) async fn named<K>(client: &Client, namespace: &str, name: &str, kinds: &str) -> Result<Option<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned,
{
    let found = api::<K>(client, namespace).get_opt(name).await.map_err(|error| explain(&error, kinds))?;
    found.as_ref().map(understood).transpose()
}

/// What this release makes of an object; what it leaves out is said to the user.
///
/// # Errors
/// It cannot be read.
pub(crate) fn understood<K>(object: &DynamicObject) -> Result<K>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let (readable, strange) = read(object);
    let said = strange.as_ref().map(Strange::text).unwrap_or_default();
    let readable = readable.ok_or_else(|| anyhow!("{said}"))?;
    if !said.is_empty() {
        output::say(&format!("note: {said}"));
    }
    Ok(readable)
}

/// The object of that name.
///
/// # Errors
/// As [`named`]; and there is none, with a name that is like it.
pub(crate) async fn demanded<K>(client: &Client, namespace: &str, name: &str, kinds: &str) -> Result<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned,
{
    if let Some(found) = named(client, namespace, name, kinds).await? {
        return Ok(found);
    }
    let near = near::<K>(client, namespace, name).await;
    None.with_context(|| format!("there is no {} {name} in namespace {namespace}{near}", K::kind(&())))
}

/// Which object of the namespace may have been meant by a name that none has. Names only add to what is known.
pub(crate) async fn near<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> String {
    let others = api::<K>(client, namespace).list_metadata(&ListParams::default()).await;
    let others: Vec<String> = others.iter().flat_map(|list| &list.items).map(|one| one.name_any()).collect();
    suggestion(name, others.iter().map(String::as_str))
}

/// What this release makes of an object, and what it leaves out.
pub(crate) fn read<K>(object: &DynamicObject) -> (Option<K>, Option<Strange>)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let strange = |message: String| {
        let what = format!("{}/{}", K::kind(&()).to_lowercase(), object.name_any());
        Some(Strange { namespace: object.namespace(), what, message: format!("{message}; {UPDATE}") })
    };
    let unreadable = |error: &serde_json::Error| strange(format!("cannot be read by this release: {error}"));
    let written = match serde_json::to_value(object) {
        Ok(written) => written,
        Err(error) => return (None, unreadable(&error)),
    };
    let error = match serde_json::from_value::<K>(written.clone()) {
        Ok(readable) => {
            let fields = unknown(&written, &readable);
            let told = (!fields.is_empty())
                .then(|| strange(format!("has what this release does not know: {}", fields.join(", "))));
            return (Some(readable), told.flatten());
        }
        Err(error) => error,
    };
    match serde_json::from_value(without_status(written)) {
        Ok(readable) => {
            (Some(readable), strange(format!("only the conditions of its status can be read: {error}")))
        }
        Err(error) => (None, unreadable(&error)),
    }
}

/// With no more of its status than every release reads.
fn without_status(mut written: Value) -> Value {
    if let Some(status) = written.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|field, _| STATUS_FIELDS.contains(&field.as_str()));
    }
    written
}

/// Paths of fields that were written and not read.
fn unknown<K: Serialize>(written: &Value, readable: &K) -> Vec<String> {
    let Ok(read) = serde_json::to_value(readable) else { return Vec::new() };
    let mut fields = Vec::new();
    for part in ["spec", "status"] {
        compare(part, &written[part], &read[part], &mut fields);
    }
    fields.truncate(FIELDS_MAX);
    fields
}

fn compare(path: &str, written: &Value, read: &Value, fields: &mut Vec<String>) {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            for (name, value) in written {
                let path = format!("{path}.{name}");
                match read.get(name) {
                    Some(read) => compare(&path, value, read, fields),
                    None if is_empty(value) => {}
                    None => fields.push(path),
                }
            }
        }
        (Value::Array(written), Value::Array(read)) => {
            // One of each is enough to say what is not known.
            for (written, read) in written.iter().zip(read) {
                let path = format!("{path}[]");
                let known = fields.len();
                compare(&path, written, read, fields);
                if fields.len() > known {
                    break;
                }
            }
        }
        _ => {}
    }
}

/// What is left out when it is written again.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use sealane_operator_api::{Peer, TransferSession, TrustPolicy};
    use serde_json::json;

    use super::*;

    fn object(kind: &str, spec: &Value, status: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": kind, "metadata": {"name": "a", "namespace": "demo"},
            "spec": spec, "status": status,
        }))
        .unwrap()
    }

    fn session(spec: &Value, status: &Value) -> (Option<TransferSession>, Option<Strange>) {
        let mut whole = json!({"from": {"peer": "embedder"}, "to": [{"peer": "ranker"}]});
        for (name, value) in spec.as_object().unwrap() {
            whole[name] = value.clone();
        }
        read(&object("TransferSession", &whole, status))
    }

    #[test]
    fn what_this_release_wrote_is_not_strange() {
        let status = json!({"phase": "Active", "conditions": [], "staleAfter": "2026-11-20T00:00:00Z"});
        let (read_back, strange) = session(&json!({"stream": {}}), &status);
        assert_eq!((read_back.is_some(), strange), (true, None));
        let (forward, strange) =
            session(&json!({"stream": null, "forward": {"listen": 1, "target": 2}}), &json!({}));
        assert_eq!((forward.is_some(), strange), (true, None));
        let spec = json!({"selector": {"matchLabels": {"app": "a"}}, "trustPolicyRef": {"name": "demo"}});
        assert_eq!(read::<Peer>(&object("Peer", &spec, &json!({}))).1, None);
        let spec = json!({
            "roots": {"threshold": 1, "keys": ["ab"], "minimumEpoch": 1}, "document": "e30=",
            "signatures": [{"keyId": "ab", "signature": "AA=="}],
        });
        assert_eq!(read::<TrustPolicy>(&object("TrustPolicy", &spec, &json!({}))).1, None);
    }

    #[test]
    fn fields_of_a_newer_release_are_told_and_the_rest_is_read() {
        let (read, strange) = session(&json!({"object": {"bucket": "b"}}), &json!({"phase": "Active"}));
        assert!(read.is_some_and(|read| read.spec.stream.is_none()));
        let said = strange.unwrap().text();
        assert!(said.contains("demo transfersession/a") && said.contains("spec.object"), "{said}");
        assert!(said.contains(UPDATE), "{said}");
    }

    #[test]
    fn words_of_a_newer_release_in_a_status_leave_its_conditions() {
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "Connected", "message": "m",
            "lastTransitionTime": "2026-11-20T00:00:00Z",
        });
        let (read, strange) =
            session(&json!({"stream": {}}), &json!({"connections": "many", "conditions": [ready]}));
        assert_eq!(read.unwrap().status.unwrap().conditions[0].reason, "Connected");
        assert!(strange.unwrap().message.contains("many"));
    }

    #[test]
    fn an_object_that_cannot_be_read_says_why() {
        let (read, strange) = session(&json!({"stream": {}, "carrier": "Quic"}), &json!({}));
        assert!(read.is_none());
        assert!(strange.unwrap().message.contains("unknown variant `Quic`"));
    }
}

//! Schema fragments that derive cannot express. Every string, list and map has a bound: the API server prices
//! CEL rules by the largest object the schema admits.

use schemars::{Schema, SchemaGenerator, json_schema};
use sealane_types::{CongestionChoice, Delivery, Provider, RESERVED_PORTS};

/// RFC 1123 subdomain, as the API server checks object names.
const NAME_PATTERN: &str = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";

fn words<'a>(words: impl Iterator<Item = &'a str>) -> Schema {
    let words: Vec<_> = words.collect();
    json_schema!({"type": "string", "enum": words})
}

pub(crate) fn provider(_: &mut SchemaGenerator) -> Schema {
    words(Provider::ALL.iter().map(|word| word.as_str()))
}

pub(crate) fn delivery(_: &mut SchemaGenerator) -> Schema {
    words(Delivery::ALL.iter().map(|word| word.as_str()))
}

pub(crate) fn congestion(_: &mut SchemaGenerator) -> Schema {
    words(CongestionChoice::ALL.iter().map(|word| word.as_str()))
}

/// Text that a rule judges. A rule says what is wanted and gives an example; a pattern would answer with itself.
fn text(length_max: usize, rule: &str, message: &str) -> Schema {
    json_schema!({
        "type": "string", "maxLength": length_max,
        "x-kubernetes-validations": [{"rule": rule, "message": message}],
    })
}

pub(crate) fn name(_: &mut SchemaGenerator) -> Schema {
    text(
        253,
        &format!("self.matches('{NAME_PATTERN}')"),
        "must be the name of an object, for example embedder",
    )
}

/// 32 bytes in lower-case hex: the one spelling that signed documents use.
pub(crate) fn hex32(_: &mut SchemaGenerator) -> Schema {
    text(
        128,
        "self.matches('^[0-9a-f]{64}$')",
        "must be 32 bytes in lower-case hex: 64 digits, for example 9f86d081 and 56 more, as kubectl sealane policy keygen prints them",
    )
}

/// As [`hex32`], of a Peer that proves itself by a key.
pub(crate) fn pinned_key(_: &mut SchemaGenerator) -> Schema {
    text(
        128,
        "self.matches('^[0-9a-f]{64}$')",
        "must be 32 bytes in lower-case hex: 64 digits, for example 9f86d081 and 56 more, as sealane-sidecar keygen prints them",
    )
}

/// IP addresses with ports. Which of them make sense is for the webhook to say.
pub(crate) fn addresses(_: &mut SchemaGenerator) -> Schema {
    let address = text(
        64,
        r"self.matches('^([0-9]{1,3}(\\.[0-9]{1,3}){3}|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$')",
        "must be an IP address and a port, for example 203.0.113.7:14710 or [2001:db8::7]:14710",
    );
    json_schema!({
        "type": "array", "items": address, "minItems": 1, "maxItems": 16,
        "x-kubernetes-list-type": "set",
    })
}

pub(crate) fn hex32_set(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "items": hex32(generator), "minItems": 1, "maxItems": 16,
        "x-kubernetes-list-type": "set",
    })
}

/// The 64 bytes of an Ed25519 signature.
pub(crate) fn signature(_: &mut SchemaGenerator) -> Schema {
    text(
        128,
        "self.matches('^[A-Za-z0-9+/]{86}==$')",
        "must be 64 bytes in standard base64 (88 characters that end in ==), as kubectl sealane policy sign writes them",
    )
}

/// A signed document. Whether it is base64 is for the webhook to say: the API server would repeat all of it.
pub(crate) fn document(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 1_048_576})
}

/// A label selector with bounds; an empty one is refused because it would select every pod of the namespace.
pub(crate) fn selector(_: &mut SchemaGenerator) -> Schema {
    label_selector(
        "an empty selector would select every pod of the namespace: name at least one label, for example matchLabels: {app: embedder}",
    )
}

/// As [`selector`], of nodes.
pub(crate) fn node_selector(_: &mut SchemaGenerator) -> Schema {
    label_selector(
        "an empty selector selects every node, as none does: leave it out, or name at least one label, for example matchLabels: {kubernetes.io/arch: amd64}",
    )
}

fn label_selector(not_empty: &str) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "type": "object", "maxProperties": 16,
                "additionalProperties": {"type": "string", "maxLength": 63},
            },
            "matchExpressions": {
                "type": "array", "maxItems": 16, "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "minLength": 1, "maxLength": 317},
                        "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                        "values": {
                            "type": "array", "maxItems": 32, "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string", "maxLength": 63},
                        },
                    },
                    "x-kubernetes-validations": [{
                        "rule": "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
                        "message": "values belong to In and NotIn, and only to them, for example {key: app, operator: In, values: [embedder]}",
                    }],
                },
            },
        },
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [{
            "rule": "(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
            "message": not_empty,
        }],
    })
}

/// A label key, or a word for a well-known one.
pub(crate) fn pool_key(_: &mut SchemaGenerator) -> Schema {
    text(
        317,
        "self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",
        "must be Auto, Gke, Eks, Aks, Karpenter or the key of a node label, for example node.kubernetes.io/instance-type",
    )
}

pub(crate) fn label_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "items": {"type": "string", "maxLength": 63}, "maxItems": 64,
        "x-kubernetes-list-type": "set",
    })
}

/// As in a pod.
pub(crate) fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 32, "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "properties": {
                "key": {"type": "string", "maxLength": 317},
                "operator": {"type": "string", "enum": ["Exists", "Equal"]},
                "value": {"type": "string", "maxLength": 63},
                "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
                "tolerationSeconds": {"type": "integer", "format": "int64"},
            },
        },
    })
}

/// A variable of the environment that is none of the operator's.
pub(crate) fn variable(_: &mut SchemaGenerator) -> Schema {
    text(
        128,
        "self.matches('^[A-Za-z_][A-Za-z0-9_]*$') && !self.startsWith('SEALANE_')",
        "must be the name of a variable that does not begin with SEALANE_, for example OPENSSL_ia32cap",
    )
}

/// Quantities by the name of the resource.
pub(crate) fn resource_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": 8,
        "additionalProperties": {
            "type": "string", "maxLength": 32,
            "x-kubernetes-validations": [{
                "rule": "isQuantity(self)", "message": "must be a quantity, for example 2 or 1Gi",
            }],
        },
    })
}

/// A TCP port that is neither Sealane's own nor one of the guest's agents.
pub(crate) fn forward_port(_: &mut SchemaGenerator) -> Schema {
    let reserved: Vec<String> = RESERVED_PORTS.iter().map(ToString::to_string).collect();
    let reserved = reserved.join(", ");
    json_schema!({
        "type": "integer", "format": "int32", "minimum": 1, "maximum": 65535,
        "x-kubernetes-validations": [{
            "rule": format!("!(self in [{reserved}])"),
            "message": format!("ports {reserved} belong to Sealane or to the guest's own agents: choose another, for example 18001"),
        }],
    })
}

/// Between 1 MiB and 64 GiB: below, rekeying dominates; above, AES-GCM's bound for one key is near.
pub(crate) fn rekey_bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "x-kubernetes-validations": [{
            "rule": "type(self) == string ? isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('64Gi')) <= 0 : self >= 1048576 && self <= 68719476736",
            "message": "must be a quantity between 1Mi and 64Gi, for example 16Gi",
        }],
    })
}

pub(crate) fn rekey_interval(_: &mut SchemaGenerator) -> Schema {
    duration("10s", "1h")
}

pub(crate) fn reattest_after(_: &mut SchemaGenerator) -> Schema {
    duration("10s", "24h")
}

fn duration(least: &str, most: &str) -> Schema {
    json_schema!({
        "type": "string", "maxLength": 16,
        "x-kubernetes-validations": [{
            "rule": format!("self.matches('^([0-9]{{1,6}}(h|m|s))+$') && duration(self) >= duration('{least}') && duration(self) <= duration('{most}')"),
            "message": format!("must be a duration between {least} and {most}, for example 10m"),
        }],
    })
}

/// Conditions as a list map, so that server-side apply merges them by type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 16,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "message": {"type": "string", "maxLength": 32768},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "type": {"type": "string", "maxLength": 316},
            },
        },
    })
}

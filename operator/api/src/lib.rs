//! The custom resources of `sealane.dev/v1alpha1`, one per file, and the names that other programs rely on.
//!
//! Invariant: plain data. What the API server can check is stated in the schemas (bounds on everything, CEL
//! rules, defaults); the rest is parsed by whoever uses it, so that an object written under another release's
//! schema is still read and answered with a condition. Deliberately absent: clients, behaviour, and fields or
//! enum values that no code implements yet.

#![expect(
    clippy::duplicated_attributes,
    reason = "printer columns repeat their type, each in a list of its own"
)]

mod benchmark;
mod emptied;
mod peer;
mod quantity;
mod reasons;
mod recommendation;
mod schema;
mod transfer_session;
mod trust_policy;
pub mod well_known;

pub use benchmark::{
    ActiveNode, ActiveRun, ActiveServer, Against, Benchmark, BenchmarkSpec, BenchmarkStatus, ComparedWith,
    ConcurrencyPolicy, Figure, Level, NodePhase, NodePools, PairStatus, PastRun, Placement, PodResources,
    PoolStatus, Regressed, Regression, RunOutcome, Setting, Suite,
};
pub use peer::{
    Attestation, External, Peer, PeerSpec, PeerStatus, ReplicaStatus, SecretReference, TrustPolicyReference,
};
pub use quantity::{ByteQuantity, DurationText, InvalidQuantity};
pub use reasons::{Explanation, explain, explanations, page, word};
pub use recommendation::{
    IgnoredRow, KnownTransports, Recommendation, RecommendedTransport, Transport, TransportFigure,
};
pub use transfer_session::{
    CarrierChoice, CipherChoice, Counted, Forward, PeerReference, Phase, ProcessCount, Rekey, Stream,
    TransferSession, TransferSessionSpec, TransferSessionStatus,
};
pub use trust_policy::{
    InvalidField, RootsSpec, SignatureSpec, SignedDocumentSpec, TrustPolicy, TrustPolicySpec,
    TrustPolicyStatus,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;

use emptied::admit_emptied;

/// API group of every custom resource.
pub const GROUP: &str = "sealane.dev";
/// The served and stored version.
pub const VERSION: &str = "v1alpha1";

/// Every custom resource definition of this release, in the order of installation.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut definitions = vec![Peer::crd(), TransferSession::crd(), TrustPolicy::crd(), Benchmark::crd()];
    for version in definitions.iter_mut().flat_map(|definition| &mut definition.spec.versions) {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            forbid_null(schema);
            admit_emptied(schema);
        }
    }
    definitions
}

/// An optional field is absent, never null: the API server then drops a null before it checks `has()` rules.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(words) = &mut schema.enum_ {
        words.retain(|word| !word.0.is_null());
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(forbid_null);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        forbid_null(items);
    }
}

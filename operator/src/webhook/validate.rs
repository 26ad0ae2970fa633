//! `/validate`: refuses custom resources that no schema can judge. Pure.
//!
//! What another object may still bring (a missing TrustPolicy, an unsigned document) is a condition, not a refusal:
//! objects may be applied in any order.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use kube::core::{DynamicObject, Selector};
use sealane_operator_api::{
    BenchmarkSpec, Forward, InvalidField, InvalidQuantity, PeerSpec, TransferSessionSpec, TrustPolicySpec,
};
use sealane_policy::{PolicyError, Timestamp};
use sealane_types::{ForwardPort, InvalidName, InvalidPort, PeerName, SessionName, UnixSeconds};

use crate::benchmark::{Schedule, ScheduleError};
use crate::external::{External, ExternalError};
use crate::membership::{PeerSelector, SelectorError};

mod carrier;
pub(super) mod forward;
pub(super) mod overlap;

/// Why a custom resource is refused; each names the field.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    #[error("spec: {0}")]
    Shape(#[source] serde_json::Error),
    #[error(transparent)]
    Selector(#[from] SelectorError),
    #[error(transparent)]
    External(#[from] ExternalError),
    #[error("{field}: {source}")]
    Name { field: &'static str, source: InvalidName },
    #[error("{field}: {source}")]
    Quantity { field: &'static str, source: InvalidQuantity },
    #[error("{field}: {source}")]
    Port { field: &'static str, source: InvalidPort },
    #[error(
        "spec.forward.listen: pods of Peer `{peer}` listen on port {port} for TransferSession `{session}` already; choose another port{}",
        example(*free)
    )]
    PortTaken { port: u32, peer: String, session: String, free: Option<u16> },
    #[error(
        "spec.selector: pod `{pod}` belongs to Peer `{peer}` already, and a pod belongs to one Peer; choose another selector, or delete Peer `{peer}` first"
    )]
    PodTaken { pod: String, peer: PeerName },
    /// The schema cannot say so: its rules take null, which stands for an empty stream, for absent.
    #[error(
        "spec: a session has exactly one kind: set either stream, for example stream: {{delivery: RoundRobin}}, or forward, for example forward: {{listen: 18001, target: 8001}}"
    )]
    NoKind,
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error("spec.nodePools.selector: {0}; an example is matchLabels: {{kubernetes.io/arch: amd64}}")]
    NodeSelector(String),
    #[error(
        "metadata.name: `{0}` is longer than {BENCHMARK_NAME_MAX} characters, the most that a name with Jobs may have, as of a CronJob"
    )]
    Long(String),
    #[error(transparent)]
    Field(#[from] InvalidField),
    #[error("{field}: not standard base64: {source}")]
    Base64 { field: String, source: base64::DecodeError },
    #[error("{field}: {source}")]
    Document { field: String, source: Box<PolicyError> },
    #[error("{field}: the document is for {found}, but this TrustPolicy is {expected}")]
    Elsewhere { field: String, found: String, expected: String },
}

fn example(free: Option<u16>) -> String {
    free.map(|port| format!(", for example {port}")).unwrap_or_default()
}

/// Answers one review at `now`.
#[must_use]
pub fn review(request: &AdmissionRequest<DynamicObject>, now: UnixSeconds) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    let Some(object) = &request.object else {
        return response.deny("the review holds no object");
    };
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let found = check(&request.kind.kind, namespace, object, now);
    let carried = carrier::warning(request).map(str::to_owned);
    answer(response, found.map(|warning| warning.into_iter().chain(carried).collect()))
}

/// The response with what was found: warnings, or why the object is refused.
pub(super) fn answer(
    mut response: AdmissionResponse,
    found: Result<Vec<String>, Invalid>,
) -> AdmissionResponse {
    match found {
        Ok(warnings) => {
            let warnings = warnings.into_iter().map(|warning| format!("sealane: {warning}"));
            let all: Vec<String> = response.warnings.take().into_iter().flatten().chain(warnings).collect();
            response.warnings = (!all.is_empty()).then_some(all);
            response
        }
        Err(invalid) => response.deny(format!("sealane: {invalid}")),
    }
}

/// A warning is for what another step may still mend.
fn check(
    kind: &str,
    namespace: &str,
    object: &DynamicObject,
    now: UnixSeconds,
) -> Result<Option<String>, Invalid> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let spec = object.data.get("spec").cloned().unwrap_or_default();
    let parse_error = Invalid::Shape;
    match kind {
        "Peer" => peer(name, &serde_json::from_value(spec).map_err(parse_error)?).map(|()| None),
        "TransferSession" => {
            session(name, &serde_json::from_value(spec).map_err(parse_error)?).map(|()| None)
        }
        "Benchmark" => benchmark(name, &serde_json::from_value(spec).map_err(parse_error)?).map(|()| None),
        "TrustPolicy" => policy(namespace, name, &serde_json::from_value(spec).map_err(parse_error)?, now),
        _ => Ok(None),
    }
}

fn peer(name: &str, spec: &PeerSpec) -> Result<(), Invalid> {
    // Which of them go together is for the schema to say.
    let PeerSpec { selector, external, trust_policy_ref: _, attestation: _ } = spec;
    let name = PeerName::new(name).map_err(|source| Invalid::Name { field: "metadata.name", source })?;
    if let Some(selector) = selector {
        PeerSelector::new(name, selector)?;
    }
    external.as_ref().map(External::read).transpose()?;
    Ok(())
}

/// Longest name of a Benchmark: its Jobs' names, which label their pods, begin with it.
const BENCHMARK_NAME_MAX: usize = 52;

fn benchmark(name: &str, spec: &BenchmarkSpec) -> Result<(), Invalid> {
    if name.len() > BENCHMARK_NAME_MAX {
        return Err(Invalid::Long(name.to_owned()));
    }
    if let Some(schedule) = &spec.schedule {
        Schedule::parse(schedule, spec.time_zone.as_deref())?;
    }
    if let Some(selector) = spec.node_pools.selector.clone() {
        Selector::try_from(selector).map_err(|error| Invalid::NodeSelector(error.to_string()))?;
    }
    Ok(())
}

fn session(name: &str, spec: &TransferSessionSpec) -> Result<(), Invalid> {
    let TransferSessionSpec {
        from,
        to,
        stream,
        forward,
        carrier: _,
        congestion: _,
        cipher: _,
        rekey,
        suspend: _,
    } = spec;
    let name_in = |field| move |source| Invalid::Name { field, source };
    let quantity_in = |field| move |source| Invalid::Quantity { field, source };
    SessionName::new(name).map_err(name_in("metadata.name"))?;
    PeerName::new(from.peer.clone()).map_err(name_in("spec.from.peer"))?;
    for entry in to {
        PeerName::new(entry.peer.clone()).map_err(name_in("spec.to[].peer"))?;
    }
    if stream.is_none() && forward.is_none() {
        return Err(Invalid::NoKind);
    }
    if let Some(Forward { listen, target, per_replica: _ }) = forward {
        port("spec.forward.listen", *listen)?;
        port("spec.forward.target", *target)?;
    }
    rekey.bytes.bytes().map_err(quantity_in("spec.rekey.bytes"))?;
    rekey.interval.seconds().map_err(quantity_in("spec.rekey.interval"))?;
    Ok(())
}

fn port(field: &'static str, number: i32) -> Result<(), Invalid> {
    let number = u32::try_from(number).unwrap_or(0);
    ForwardPort::new(number).map(|_| ()).map_err(|source| Invalid::Port { field, source })
}

fn policy(
    namespace: &str,
    name: &str,
    spec: &TrustPolicySpec,
    now: UnixSeconds,
) -> Result<Option<String>, Invalid> {
    let roots = spec.roots(namespace, name)?;
    let chain = spec.chain()?;
    document("spec.document".to_owned(), namespace, name, &spec.document)?;
    for (index, rotation) in spec.rotations.iter().enumerate() {
        document(format!("spec.rotations[{index}].document"), namespace, name, &rotation.document)?;
    }
    // Signatures may arrive one by one, and a policy may be applied before it comes into force.
    let verified = sealane_policy::verify(&chain, &roots, Timestamp::from(now), None);
    Ok(verified.err().map(|error| format!("sidecars refuse this policy as it is: {error}")))
}

/// A document must read well and be for this TrustPolicy; who signed it is a condition.
fn document(field: String, namespace: &str, name: &str, base64: &str) -> Result<(), Invalid> {
    let bytes = match BASE64_STANDARD.decode(base64) {
        Ok(bytes) => bytes,
        Err(source) => return Err(Invalid::Base64 { field, source }),
    };
    let document = match sealane_policy::parse(&bytes) {
        Ok(document) => document,
        Err(error) => return Err(Invalid::Document { field, source: Box::new(error) }),
    };
    let found = format!("{}/{}", document.namespace, document.name);
    let expected = format!("{namespace}/{name}");
    if found != expected {
        return Err(Invalid::Elsewhere { field, found, expected });
    }
    Ok(())
}

#[cfg(test)]
mod tests;

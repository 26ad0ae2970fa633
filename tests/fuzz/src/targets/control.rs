//! The control channel, from either side: what an operator tells a sidecar, and what a sidecar tells an operator.

use std::sync::LazyLock;

use prost::Message as _;
use sealane_operator::control::report::{Registration, bounded};
use sealane_operator::limits::{ADDRESSES_MAX, REPORTED_MESSAGE_BYTES_MAX, REPORTED_SESSIONS_MAX};
use sealane_sidecar::control::convert::desired;
use sealane_sidecar::desired::{REMOTES_MAX, REPLICAS_MAX, SESSIONS_MAX};
use sealane_sidecar_api::control::{Configuration, Register, Report};
use sealane_types::PodIdentity;

/// A configuration: converted whole and within bounds, or refused; and kept as what it was.
pub(super) fn configuration(data: &[u8]) {
    let Ok(message) = Configuration::decode(data) else { return };
    let Ok(desired) = desired(message) else { return };
    assert!(desired.sessions.len() <= SESSIONS_MAX);
    for session in &desired.sessions {
        assert!(session.remotes.len() <= REMOTES_MAX);
        assert!(session.remotes.iter().all(|remote| remote.replicas.len() <= REPLICAS_MAX));
    }
    // A sidecar that restarts finds what it kept.
    let kept = serde_json::to_vec(&desired).unwrap();
    assert_eq!(serde_json::from_slice(&kept).ok(), Some(desired), "what is kept reads back");
}

static POD: LazyLock<PodIdentity> = LazyLock::new(|| PodIdentity::new("demo", "embedder-0", "6b5e").unwrap());

pub(super) fn registration(data: &[u8]) {
    let Ok(message) = Register::decode(data) else { return };
    let Ok(registration) = Registration::new(message.clone(), &POD) else { return };
    assert_eq!(format!("{}/{}/{}", message.namespace, message.pod, message.uid), POD.as_str());
    assert!(registration.addresses.len() <= ADDRESSES_MAX);
    assert!(registration.data_port > 0);
    assert_eq!(registration.static_key[..], message.static_key[..]);
}

pub(super) fn report(data: &[u8]) {
    let Ok(message) = Report::decode(data) else { return };
    let Ok(report) = bounded(message) else { return };
    assert!(report.sessions.len() <= REPORTED_SESSIONS_MAX);
    let messages = report.sessions.iter().map(|session| &session.message);
    assert!(messages.into_iter().all(|message| message.len() <= REPORTED_MESSAGE_BYTES_MAX));
    assert_eq!(bounded(report.clone()), Ok(report), "within bounds is within bounds");
}

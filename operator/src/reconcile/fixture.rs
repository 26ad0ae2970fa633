//! A small namespace for tests: `embedder` streams to `ranker` under TrustPolicy `demo`, all of it working.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sealane_operator_api::{Peer, TransferSession, TrustPolicy};
use sealane_policy::{SigningKey, canonical, sign};
use sealane_sidecar_api::control::{EvidenceReport, PolicyReport, Report, SessionReport};
use sealane_types::{PodIdentity, UnixSeconds};
use serde_json::{Value, json};

use super::resources::{Applied, Resources};
use super::status::{Statuses, status};
use super::{choose, plan, validate};
use crate::control::registry::Registered;
use crate::control::report::Registration;
use crate::names::OPERATOR_VERSION;
use crate::spec::{PodPhase, PodView, Snapshot, Valid};
use crate::workload::{Completions, Owner, WorkloadState, WorkloadView};

/// 2026-11-21T00:00:00Z, within the documents that [`document`] makes.
pub(super) const NOW: u64 = 1_795_219_200;
/// 2026-11-27T00:00:00Z, when they expire.
pub(super) const EXPIRES: u64 = 1_795_737_600;

fn key() -> SigningKey {
    SigningKey::from_seed(&[1; 32]).unwrap()
}

fn platform(host_data: &str) -> Value {
    json!({"entries": [{
        "kind": "SevSnp", "assurance": "Pod", "measurements": ["ab".repeat(48)], "hostData": [host_data.repeat(32)],
        "products": ["Genoa"], "minTcb": {"bootloader": 4, "tee": 0, "snp": 24, "microcode": 219},
    }]})
}

/// A document that permits what `change` leaves permitted.
pub(crate) fn document(epoch: u64, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut document = json!({
        "version": 1, "namespace": "demo", "name": "demo", "epoch": epoch,
        "notBefore": "2026-11-20T00:00:00Z", "expires": "2026-11-27T00:00:00Z",
        "authorities": {"threshold": 1, "keys": [key().public_key()]},
        "peers": {"embedder": platform("01"), "ranker": platform("02")},
        "sessions": [{"name": "activations", "from": "embedder", "to": "ranker", "stream": {}}],
    });
    change(&mut document);
    canonical(document.to_string().as_bytes()).unwrap()
}

pub(crate) fn policy(document: &[u8]) -> TrustPolicy {
    serde_json::from_value(json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "TrustPolicy",
        "metadata": {"name": "demo", "namespace": "demo", "uid": "policy-uid", "generation": 3},
        "spec": {
            "roots": {"threshold": 1, "keys": [key().public_key()], "minimumEpoch": 1},
            "document": BASE64_STANDARD.encode(document),
            "signatures": [sign(document, &key())],
        },
    }))
    .unwrap()
}

pub(crate) fn peer(name: &str) -> Peer {
    serde_json::from_value(json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "Peer",
        "metadata": {"name": name, "namespace": "demo", "uid": format!("{name}-uid"), "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": name}}, "trustPolicyRef": {"name": "demo"}},
    }))
    .unwrap()
}

pub(crate) fn session() -> TransferSession {
    serde_json::from_value(json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession",
        "metadata": {"name": "activations", "namespace": "demo", "uid": "session-uid", "generation": 1},
        "spec": {"from": {"peer": "embedder"}, "to": [{"peer": "ranker"}], "stream": {}},
    }))
    .unwrap()
}

/// A forward from embedder to ranker; `made` orders sessions by age.
pub(super) fn forward(name: &str, made: u8, listen: u16, per_replica: bool) -> TransferSession {
    serde_json::from_value(json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession",
        "metadata": {"name": name, "namespace": "demo", "uid": format!("{name}-uid"), "generation": 1,
                     "creationTimestamp": format!("2026-11-20T00:00:{made:02}Z")},
        "spec": {"from": {"peer": "embedder"}, "to": [{"peer": "ranker"}],
                 "forward": {"listen": listen, "target": 8001, "perReplica": per_replica}},
    }))
    .unwrap()
}

/// Pod `name` with label `app`; its uid is the name with `-uid`, its address ends in `number`.
pub(super) fn pod(app: &str, number: u8) -> PodView {
    let name = format!("{app}-{number}");
    PodView {
        uid: format!("{name}-uid"),
        name,
        labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
        node: Some("node-1".to_owned()),
        phase: PodPhase::Live,
        addresses: vec![std::net::IpAddr::from([10, 0, 0, number])],
        injected: true,
        leaving: false,
        owner: None,
        made: None,
        ended: None,
    }
}

/// The sidecar of a pod, attested and without sessions.
pub(super) fn sidecar(pod: &PodView) -> Registered {
    Registered {
        identity: PodIdentity::new("demo", &pod.name, &pod.uid).unwrap(),
        registration: Registration {
            version: OPERATOR_VERSION.to_owned(),
            node: "node-1".to_owned(),
            addresses: pod.addresses.clone(),
            data_port: 14710,
            static_key: [7; 32],
            incarnation: [9; 16],
            deltas: true,
        },
        report: Some(Arc::new(report())),
        detached: None,
    }
}

pub(super) fn report() -> Report {
    Report {
        generation: 1,
        policy: Some(PolicyReport {
            verified: true,
            epoch: 1,
            root_source: "Injected".to_owned(),
            expires: EXPIRES,
            ..Default::default()
        }),
        evidence: Some(EvidenceReport {
            verified: true,
            platform: "SevSnp".to_owned(),
            assurance: "Pod".to_owned(),
            measurement: "ab".repeat(48),
            tcb_status: "UpToDate".to_owned(),
            evidence_time: NOW - 60,
            collateral_expires: NOW + 3600,
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub(super) fn session_report() -> SessionReport {
    SessionReport {
        name: "activations".to_owned(),
        uid: "session-uid".to_owned(),
        connections: 1,
        connections_desired: 1,
        carrier: "Tcp".to_owned(),
        cipher: "Aes256Gcm".to_owned(),
        post_quantum: true,
        handshake_micros: 1500,
        ..Default::default()
    }
}

/// One replica on each side, connected; 5 tensors sent, 4 taken.
pub(super) fn snapshot() -> Snapshot {
    let pods = vec![pod("embedder", 1), pod("ranker", 2)];
    let mut sidecars: Vec<_> = pods.iter().map(sidecar).collect();
    for (sidecar, tensors) in sidecars.iter_mut().zip([5, 4]) {
        let mut report = report();
        report.sessions = vec![SessionReport { tensors, bytes: tensors * 100, ..session_report() }];
        sidecar.report = Some(Arc::new(report));
    }
    Snapshot {
        namespace: "demo".to_owned(),
        now: UnixSeconds(NOW),
        peers: vec![peer("embedder"), peer("ranker")],
        sessions: vec![session()],
        policies: vec![policy(&document(1, |_| ()))],
        unreadable: Vec::new(),
        pods,
        workloads: Vec::new(),
        inherited: Arc::default(),
        sidecars,
        retired: BTreeMap::new(),
        held: BTreeMap::new(),
        advice: Arc::default(),
    }
}

/// A Job that is to complete `wanted` pods of `app`; it runs.
pub(super) fn job(name: &str, app: &str, wanted: u32) -> WorkloadView {
    let completions = Completions {
        wanted: Some(wanted),
        parallelism: wanted,
        succeeded: 0,
        failed_indexes: 0,
        decided: false,
    };
    WorkloadView {
        kind: "Job",
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        made: None,
        owner: None,
        labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
        state: WorkloadState::Running(completions),
    }
}

/// The controller that `workload` is to its pods.
pub(super) fn owner(workload: &WorkloadView) -> Option<Owner> {
    let WorkloadView { kind, name, uid, .. } = workload;
    Some(Owner { kind: (*kind).to_owned(), name: name.clone(), uid: uid.clone() })
}

/// Changes what a sidecar reported.
pub(super) fn rereport(sidecar: &mut Registered, change: impl FnOnce(&mut Report)) {
    let mut report = sidecar.report.as_deref().cloned().unwrap_or_default();
    change(&mut report);
    sidecar.report = Some(Arc::new(report));
}

/// Everything between gather and write.
pub(super) fn run(snapshot: Snapshot) -> (Valid, Resources<Applied>, Statuses) {
    let valid = validate::validate(snapshot);
    let choices = choose::choose(&valid);
    let applied = plan::plan(&valid, &choices).apply(|_, _| (), |_| ());
    let statuses = status(&valid, &applied, &choices);
    (valid, applied, statuses)
}

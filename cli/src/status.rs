//! `kubectl sealane status`.

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use sealane_operator_api::well_known::condition::READY;
use sealane_operator_api::{Peer, TransferSession, TrustPolicy};
use serde_json::{Value, json};

use crate::cluster::{Connection, explain};
use crate::output::{self, Format, table};

/// What every Peer, TransferSession and TrustPolicy of a namespace reports, and why one is not ready.
///
/// Status is what replicas and operator say about themselves. Sidecars never rely on it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug)]
struct Declared {
    namespace: String,
    peers: Vec<Peer>,
    sessions: Vec<TransferSession>,
    policies: Vec<TrustPolicy>,
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let declared = connection.with_client(async |client, namespace| {
        let list = ListParams::default();
        let peers = Api::<Peer>::namespaced(client.clone(), &namespace).list(&list).await;
        let sessions = Api::<TransferSession>::namespaced(client.clone(), &namespace).list(&list).await;
        let policies = Api::<TrustPolicy>::namespaced(client, &namespace).list(&list).await;
        Ok(Declared {
            namespace,
            peers: peers.map_err(|error| explain(&error, "Peers"))?.items,
            sessions: sessions.map_err(|error| explain(&error, "TransferSessions"))?.items,
            policies: policies.map_err(|error| explain(&error, "TrustPolicies"))?.items,
        })
    })?;
    match arguments.output {
        Format::Text => output::print(&text(&declared)),
        Format::Json => output::print_json(&value(&declared)),
    }
}

/// One object that is not ready.
#[derive(Debug, PartialEq, Eq)]
struct Unready {
    what: String,
    reason: String,
    message: String,
}

fn unready(kind: &str, name: &str, conditions: &[Condition]) -> Option<Unready> {
    let what = format!("{kind}/{name}");
    match ready(conditions) {
        Some(condition) if condition.status == "True" => None,
        Some(Condition { reason, message, .. }) => {
            Some(Unready { what, reason: reason.clone(), message: message.clone() })
        }
        None => Some(Unready {
            what,
            reason: "NotReported".to_owned(),
            message: "the operator has not reported on it yet; `kubectl sealane check` tells whether it runs"
                .to_owned(),
        }),
    }
}

fn ready(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == READY)
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn ready_word(conditions: &[Condition]) -> String {
    ready(conditions).map_or_else(|| "Unknown".to_owned(), |condition| condition.status.clone())
}

fn heading(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn peer_row(peer: &Peer) -> Vec<String> {
    let status = peer.status.clone().unwrap_or_default();
    vec![
        peer.name_any(),
        ready_word(&status.conditions),
        format!("{}/{}", shown(status.ready), shown(status.desired)),
        shown(status.platform),
        shown(status.assurance),
        shown(status.tcb_status),
        peer.spec.trust_policy_ref.name.clone(),
    ]
}

fn session_row(session: &TransferSession) -> Vec<String> {
    let status = session.status.clone().unwrap_or_default();
    let to: Vec<_> = session.spec.to.iter().map(|to| to.peer.as_str()).collect();
    vec![
        session.name_any(),
        format!("{} -> {}", session.spec.from.peer, to.join(",")),
        ready_word(&status.conditions),
        status.phase.map_or_else(|| "-".to_owned(), |phase| format!("{phase:?}")),
        format!("{}/{}", shown(status.connections), shown(status.connections_desired)),
        shown(status.carrier),
        shown(status.cipher),
        status.post_quantum.map_or("-", |post_quantum| if post_quantum { "yes" } else { "NO" }).to_owned(),
        shown(status.tensors_transferred),
        shown(status.bytes_transferred),
    ]
}

fn policy_row(policy: &TrustPolicy) -> Vec<String> {
    let status = policy.status.clone().unwrap_or_default();
    vec![
        policy.name_any(),
        ready_word(&status.conditions),
        shown(status.epoch),
        format!("{}/{}", status.signers.len(), shown(status.threshold)),
        shown(status.expires.map(|time| time.0)),
    ]
}

fn text(declared: &Declared) -> String {
    let Declared { namespace, peers, sessions, policies } = declared;
    if peers.is_empty() && sessions.is_empty() && policies.is_empty() {
        return format!("Nothing of Sealane is declared in namespace {namespace}.\n");
    }
    let peers =
        std::iter::once(heading(&["PEER", "READY", "REPLICAS", "PLATFORM", "ASSURANCE", "TCB", "POLICY"]))
            .chain(peers.iter().map(peer_row));
    let sessions = std::iter::once(heading(&[
        "SESSION", "FLOW", "READY", "PHASE", "LINKED", "CARRIER", "CIPHER", "PQ", "TENSORS", "BYTES",
    ]))
    .chain(sessions.iter().map(session_row));
    let policies = std::iter::once(heading(&["POLICY", "READY", "EPOCH", "SIGNERS", "EXPIRES"]))
        .chain(policies.iter().map(policy_row));
    let mut tables = vec![
        table(&peers.collect::<Vec<_>>()),
        table(&sessions.collect::<Vec<_>>()),
        table(&policies.collect::<Vec<_>>()),
    ];
    let unready = all_unready(declared);
    if !unready.is_empty() {
        let lines = unready
            .iter()
            .map(|Unready { what, reason, message }| format!("  {what}: {reason}: {message}\n"));
        tables.push(format!("Not ready:\n{}", lines.collect::<String>()));
    }
    tables.join("\n")
}

fn all_unready(declared: &Declared) -> Vec<Unready> {
    let Declared { namespace: _, peers, sessions, policies } = declared;
    let peers = peers.iter().flat_map(|peer| {
        let status = peer.status.clone().unwrap_or_default();
        let own = unready("peer", &peer.name_any(), &status.conditions);
        let replicas = status.replicas.into_iter().filter(|replica| !replica.ready);
        own.into_iter().chain(replicas.map(|replica| Unready {
            what: format!("pod/{}", replica.pod),
            reason: replica.reason.unwrap_or_else(|| "NotReported".to_owned()),
            message: replica.message.unwrap_or_default(),
        }))
    });
    let sessions = sessions.iter().filter_map(|session| {
        let status = session.status.clone().unwrap_or_default();
        unready("transfersession", &session.name_any(), &status.conditions)
    });
    let policies = policies.iter().filter_map(|policy| {
        let status = policy.status.clone().unwrap_or_default();
        unready("trustpolicy", &policy.name_any(), &status.conditions)
    });
    policies.chain(peers).chain(sessions).collect()
}

fn value(declared: &Declared) -> Value {
    let Declared { namespace, peers, sessions, policies } = declared;
    let unready: Vec<Value> = all_unready(declared)
        .iter()
        .map(
            |Unready { what, reason, message }| json!({"object": what, "reason": reason, "message": message}),
        )
        .collect();
    json!({
        "namespace": namespace,
        "peers": peers.iter().map(|peer| json!({"name": peer.name_any(), "status": peer.status})).collect::<Vec<_>>(),
        "transferSessions":
            sessions.iter().map(|session| json!({"name": session.name_any(), "status": session.status})).collect::<Vec<_>>(),
        "trustPolicies":
            policies.iter().map(|policy| json!({"name": policy.name_any(), "status": policy.status})).collect::<Vec<_>>(),
        "notReady": unready,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Declared {
        let peer = json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": "Peer", "metadata": {"name": "embedder"},
            "spec": {"selector": {}, "trustPolicyRef": {"name": "demo"}},
            "status": {"desired": 2, "ready": 1, "platform": "Simulated", "replicas": [
                {"pod": "embedder-0", "ready": true},
                {"pod": "embedder-1", "ready": false, "reason": "PolicyExpired", "message": "sign the next epoch"},
            ], "conditions": [{
                "type": "Ready", "status": "False", "reason": "PodsNotInjected", "message": "1 of 2 pods has no sidecar",
                "lastTransitionTime": "2026-11-20T00:00:00Z",
            }]},
        });
        let session = json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession", "metadata": {"name": "activations"},
            "spec": {"from": {"peer": "embedder"}, "to": [{"peer": "ranker"}], "stream": {}},
        });
        Declared {
            namespace: "demo".to_owned(),
            peers: vec![serde_json::from_value(peer).unwrap()],
            sessions: vec![serde_json::from_value(session).unwrap()],
            policies: vec![],
        }
    }

    #[test]
    fn what_is_not_ready_says_why() {
        let text = text(&declared());
        assert!(text.contains("peer/embedder: PodsNotInjected: 1 of 2 pods has no sidecar"), "{text}");
        assert!(text.contains("transfersession/activations: NotReported"), "{text}");
        assert!(text.contains("embedder -> ranker"), "{text}");
        assert!(text.contains("1/2"), "{text}");
        assert!(text.contains("pod/embedder-1: PolicyExpired: sign the next epoch"), "{text}");
        assert!(!text.contains("embedder-0"), "{text}");
    }

    #[test]
    fn json_holds_the_same() {
        let value = value(&declared());
        assert_eq!(value["notReady"][0]["reason"], "PodsNotInjected");
        assert_eq!(value["peers"][0]["status"]["desired"], 2);
    }

    #[test]
    fn an_empty_namespace_says_so() {
        let empty =
            Declared { namespace: "demo".to_owned(), peers: vec![], sessions: vec![], policies: vec![] };
        assert!(text(&empty).contains("Nothing of Sealane"));
    }
}

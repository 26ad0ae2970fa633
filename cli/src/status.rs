//! `kubectl sealane status`.

mod complaint;
mod replica;

use std::fmt::Debug;

use anyhow::Result;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use sealane_operator_api::well_known::condition::READY;
use sealane_operator_api::{Peer, RecommendedTransport, TransferSession, TrustPolicy};
use sealane_types::Reason;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::complaint::{Complaint, complaints};
use crate::clock;
use crate::cluster::{Connection, demand_namespace, explain};
use crate::creations::{Failure, failures};
use crate::lifetime::Lifetime;
use crate::output::{self, Format, table};

/// What every Peer, TransferSession and TrustPolicy of a namespace reports; why one is not ready or less than it could
/// be, and what to do about it.
///
/// Status is what replicas and operator say about themselves. Sidecars never rely on it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Every namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug)]
struct Declared {
    /// Absent: every one.
    namespace: Option<String>,
    peers: Vec<Peer>,
    sessions: Vec<TransferSession>,
    policies: Vec<TrustPolicy>,
    /// Of workloads whose pods cannot be made.
    failures: Vec<Failure>,
}

impl Declared {
    const fn is_empty(&self) -> bool {
        self.peers.is_empty() && self.sessions.is_empty() && self.policies.is_empty()
    }
}

fn has_no_replicas(peer: &Peer) -> bool {
    let conditions = peer.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    ready(conditions).is_some_and(|ready| ready.reason == Reason::NoReplicas.as_str())
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let declared = connection.with_client(async |client, namespace| {
        let namespace = (!arguments.all_namespaces).then_some(namespace);
        let peers = listed::<Peer>(&client, namespace.as_deref(), "Peers").await?;
        let sessions = listed::<TransferSession>(&client, namespace.as_deref(), "TransferSessions").await?;
        let policies = listed::<TrustPolicy>(&client, namespace.as_deref(), "TrustPolicies").await?;
        let mut declared = Declared { namespace, peers, sessions, policies, failures: Vec::new() };
        if let Some(namespace) = declared.namespace.as_deref().filter(|_| declared.is_empty()) {
            demand_namespace(&client, namespace).await?;
        }
        if declared.peers.iter().any(has_no_replicas) {
            declared.failures = failures(&client, declared.namespace.as_deref(), clock::now()).await;
        }
        Ok(declared)
    })?;
    match arguments.output {
        Format::Text => output::print(&text(&declared)),
        Format::Json => output::print_json(&value(&declared)),
    }
}

async fn listed<K>(client: &Client, namespace: Option<&str>, what: &str) -> Result<Vec<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let list = api.list(&ListParams::default()).await;
    Ok(list.map_err(|error| explain(&error, what))?.items)
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

/// A table of `rows` that says of which namespace each is, if that is a question.
fn listing<K: kube::ResourceExt>(
    all_namespaces: bool,
    heading: &[&str],
    objects: &[K],
    row: fn(&K) -> Vec<String>,
) -> String {
    let heading = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let mut rows: Vec<Vec<String>> = std::iter::once(heading).chain(objects.iter().map(row)).collect();
    if all_namespaces {
        let namespaces = objects.iter().map(|object| object.namespace().unwrap_or_default());
        let cells = std::iter::once("NAMESPACE".to_owned()).chain(namespaces);
        rows.iter_mut().zip(cells).for_each(|(row, cell)| row.insert(0, cell));
    }
    table(&rows)
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
        shown(status.policy_epoch),
        since(status.oldest_evidence.as_ref()),
        left(status.earliest_expiry.as_ref()),
    ]
}

fn seconds(time: &Time) -> u64 {
    u64::try_from(time.0.as_second()).unwrap_or(0)
}

/// How long ago, for people.
fn since(time: Option<&Time>) -> String {
    let age = |time| Lifetime { seconds: clock::now().unix().0.saturating_sub(seconds(time)) };
    shown(time.map(age))
}

/// How long it is still good for.
fn left(time: Option<&Time>) -> String {
    let now = clock::now().unix().0;
    let left = |time| match seconds(time).checked_sub(now) {
        None | Some(0) => "EXPIRED".to_owned(),
        Some(seconds) => format!("in {}", Lifetime { seconds }),
    };
    shown(time.map(left))
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
        carrier(shown(status.carrier), status.carrier_mode),
        cipher(shown(status.cipher), status.recommended),
        status.post_quantum.map_or("-", |post_quantum| if post_quantum { "yes" } else { "NO" }).to_owned(),
        shown(status.tensors_transferred),
        shown(status.forwarded),
        shown(status.bytes_transferred),
    ]
}

/// The carrier in use, and how it reaches the network devices if that is a question.
fn carrier(in_use: String, mode: Option<String>) -> String {
    match mode {
        Some(mode) => format!("{in_use} ({mode})"),
        None => in_use,
    }
}

/// The cipher in use, and the one that the next connection is to take if that is another.
fn cipher(in_use: String, recommended: Option<RecommendedTransport>) -> String {
    let next = recommended.and_then(|recommended| recommended.cipher);
    match next.filter(|next| *next != in_use) {
        Some(next) if in_use == "-" => format!("next {next}"),
        Some(next) => format!("{in_use}, next {next}"),
        None => in_use,
    }
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
    let Declared { namespace, peers, sessions, policies, failures: _ } = declared;
    if declared.is_empty() {
        let place = namespace.as_ref().map_or("any namespace".to_owned(), |name| format!("namespace {name}"));
        return format!("Nothing of Sealane is declared in {place}.\n");
    }
    let all = namespace.is_none();
    let mut tables = vec![
        listing(
            all,
            &[
                "PEER",
                "READY",
                "REPLICAS",
                "PLATFORM",
                "ASSURANCE",
                "TCB",
                "POLICY",
                "EPOCH",
                "APPRAISED",
                "EXPIRES",
            ],
            peers,
            peer_row,
        ),
        replica::listing(all, peers),
        listing(
            all,
            &[
                "SESSION",
                "FLOW",
                "READY",
                "PHASE",
                "LINKED",
                "CARRIER",
                "CIPHER",
                "PQ",
                "TENSORS",
                "FORWARDED",
                "BYTES",
            ],
            sessions,
            session_row,
        ),
        listing(all, &["POLICY", "READY", "EPOCH", "SIGNERS", "EXPIRES"], policies, policy_row),
    ];
    let (unready, degraded): (Vec<_>, Vec<_>) =
        complaints(declared).into_iter().partition(|complaint| !complaint.degraded);
    for (title, complaints) in [("Not ready", unready), ("Degraded", degraded)] {
        if !complaints.is_empty() {
            tables.push(format!("{title}:\n{}", complaints.iter().map(Complaint::text).collect::<String>()));
        }
    }
    tables.retain(|table| !table.is_empty());
    tables.join("\n")
}

fn value(declared: &Declared) -> Value {
    let Declared { namespace, peers, sessions, policies, failures: _ } = declared;
    let (unready, degraded): (Vec<_>, Vec<_>) =
        complaints(declared).into_iter().partition(|complaint| !complaint.degraded);
    let complaints = |complaints: &[Complaint]| complaints.iter().map(Complaint::value).collect::<Vec<_>>();
    json!({
        "namespace": namespace,
        "peers": peers.iter().map(|peer| object(peer, &peer.status)).collect::<Vec<_>>(),
        "transferSessions":
            sessions.iter().map(|session| object(session, &session.status)).collect::<Vec<_>>(),
        "trustPolicies": policies.iter().map(|policy| object(policy, &policy.status)).collect::<Vec<_>>(),
        "notReady": complaints(&unready),
        "degraded": complaints(&degraded),
    })
}

fn object(object: &impl kube::ResourceExt, status: &impl serde::Serialize) -> Value {
    json!({"namespace": object.namespace(), "name": object.name_any(), "status": status})
}

#[cfg(test)]
mod tests;

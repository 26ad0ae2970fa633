//! `kubectl sealane status`.

mod complaint;
mod replica;
mod stale;
mod versions;

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use sealane_operator_api::well_known::condition::READY;
use sealane_operator_api::{Peer, PeerStatus, RecommendedTransport, TransferSession, TrustPolicy};
use sealane_types::Reason;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::complaint::{Complaint, complaints};
use self::stale::Stale;
use crate::clock;
use crate::cluster::{Connection, demand_namespace, explain};
use crate::creations::{Failure, failures};
use crate::freshness::{STALE, stale_for};
use crate::lifetime::Lifetime;
use crate::objects::{self, Strange};
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
    /// What this release does not know in all its parts.
    strange: Vec<Strange>,
}

impl Declared {
    const fn is_empty(&self) -> bool {
        self.peers.is_empty()
            && self.sessions.is_empty()
            && self.policies.is_empty()
            && self.strange.is_empty()
    }
}

fn has_no_replicas(peer: &Peer) -> bool {
    let conditions = peer.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    ready(conditions).is_some_and(|ready| ready.reason == Reason::NoReplicas.as_str())
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let declared = connection.with_client(async |client, namespace| {
        let namespace = (!arguments.all_namespaces).then_some(namespace);
        let (place, mut strange) = (namespace.as_deref(), Vec::new());
        let peers = listed::<Peer>(&client, place, "Peers", &mut strange).await?;
        let sessions = listed::<TransferSession>(&client, place, "TransferSessions", &mut strange).await?;
        let policies = listed::<TrustPolicy>(&client, place, "TrustPolicies", &mut strange).await?;
        let mut declared = Declared { namespace, peers, sessions, policies, failures: Vec::new(), strange };
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

/// Those that can be read; what is strange about any goes to `strange`.
async fn listed<K>(
    client: &Client,
    namespace: Option<&str>,
    what: &str,
    strange: &mut Vec<Strange>,
) -> Result<Vec<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned,
{
    let found = objects::list(client, namespace).await.map_err(|error| explain(&error, what))?;
    strange.extend(found.strange);
    Ok(found.readable)
}

fn ready(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == READY)
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// What a row says of Ready: nothing that no operator has looked after.
fn ready_word(conditions: &[Condition], until: Option<&Time>) -> String {
    if stale_for(until, clock::now()).is_some() {
        return STALE.to_owned();
    }
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
        ready_word(&status.conditions, status.stale_after.as_ref()),
        replicas(&status),
        shown(status.platform),
        shown(status.assurance),
        shown(status.tcb_status),
        peer.spec.trust_policy_ref.name.clone(),
        shown(status.policy_epoch),
        since(status.oldest_evidence.as_ref()),
        left(status.earliest_expiry.as_ref()),
    ]
}

/// How many of the replicas are ready; of a Peer whose work is over there is none to be.
fn replicas(status: &PeerStatus) -> String {
    let finished = ready(&status.conditions).is_some_and(|ready| ready.reason == Reason::Finished.as_str());
    if finished && status.desired.is_none_or(|desired| desired == 0) {
        return "finished".to_owned();
    }
    format!("{}/{}", shown(status.ready), shown(status.desired))
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
        ready_word(&status.conditions, status.stale_after.as_ref()),
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
        ready_word(&status.conditions, status.stale_after.as_ref()),
        shown(status.epoch),
        format!("{}/{}", status.signers.len(), shown(status.threshold)),
        shown(status.expires.map(|time| time.0)),
    ]
}

fn text(declared: &Declared) -> String {
    let Declared { namespace, peers, sessions, policies, failures: _, strange } = declared;
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
    tables.push(versions::text(peers));
    if !strange.is_empty() {
        let lines: String = strange.iter().map(|strange| format!("  {}\n", strange.text())).collect();
        tables.push(format!("Of another release:\n{lines}"));
    }
    // What is below it may be over.
    tables.insert(0, Stale::of(declared, clock::now()).map_or(String::new(), |stale| stale.text()));
    tables.retain(|table| !table.is_empty());
    tables.join("\n")
}

fn value(declared: &Declared) -> Value {
    let Declared { namespace, peers, sessions, policies, failures: _, strange } = declared;
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
        "stale": Stale::of(declared, clock::now()).map(|stale| stale.value()),
        "outdated": versions::value(peers),
        "strange": strange.iter().map(Strange::text).collect::<Vec<_>>(),
    })
}

fn object(object: &impl kube::ResourceExt, status: &impl serde::Serialize) -> Value {
    json!({"namespace": object.namespace(), "name": object.name_any(), "status": status})
}

#[cfg(test)]
mod tests;

//! The last step: writes statuses that changed.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use sealane_operator_api::{
    Peer, PeerStatus, TransferSession, TransferSessionStatus, TrustPolicy, TrustPolicyStatus,
};
use sealane_types::UnixSeconds;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use super::{Statuses, earlier, freshness};
use crate::announce::announce;
use crate::limits::{COUNTERS_PAUSE, DEBOUNCE, WRITES_MAX, WRITES_TIME};
use crate::metrics::StatusWrite;
use crate::names::FIELD_MANAGER;
use crate::reconcile::Context;
use crate::spec::Valid;

/// A status that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the status of {kind} {namespace}/{name}")]
pub struct WriteError {
    kind: String,
    namespace: String,
    name: String,
    #[source]
    source: Box<kube::Error>,
}

/// A status of which part is counters, which may wait.
trait Status: Serialize + PartialEq + Clone + Default {
    fn conditions(&self) -> &[Condition];

    /// Until when it counts as up to date.
    fn stale_after(&self) -> Option<&Time>;

    fn with_stale_after(self, until: Time) -> Self;

    /// Takes the counters of another status of the same object, and the time until which it counts.
    fn with_counters_of(self, other: &Self) -> Self;
}

impl Status for PeerStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn stale_after(&self) -> Option<&Time> {
        self.stale_after.as_ref()
    }

    fn with_stale_after(self, until: Time) -> Self {
        Self { stale_after: Some(until), ..self }
    }

    fn with_counters_of(self, other: &Self) -> Self {
        Self { stale_after: other.stale_after.clone(), ..self }
    }
}

impl Status for TrustPolicyStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn stale_after(&self) -> Option<&Time> {
        self.stale_after.as_ref()
    }

    fn with_stale_after(self, until: Time) -> Self {
        Self { stale_after: Some(until), ..self }
    }

    fn with_counters_of(self, other: &Self) -> Self {
        Self { stale_after: other.stale_after.clone(), ..self }
    }
}

impl Status for TransferSessionStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn stale_after(&self) -> Option<&Time> {
        self.stale_after.as_ref()
    }

    fn with_stale_after(self, until: Time) -> Self {
        Self { stale_after: Some(until), ..self }
    }

    fn with_counters_of(self, other: &Self) -> Self {
        Self {
            bytes_transferred: other.bytes_transferred,
            tensors_transferred: other.tensors_transferred,
            forwarded: other.forwarded,
            handshake_micros: other.handshake_micros,
            counted: other.counted.clone(),
            stale_after: other.stale_after.clone(),
            ..self
        }
    }
}

/// An object with the status that it should have.
type Wanted<'a, K, S> = (&'a K, Option<&'a S>, S);

/// Writes what differs, as far as a pass may go: the next one finds what is left, and what sidecars are told waits for
/// one pass at most. Conditions go before counters. Returns when to look again.
///
/// # Errors
/// The first [`WriteError`]; the others are written all the same.
pub async fn write(
    context: &Context,
    valid: &Valid,
    statuses: Statuses,
) -> Result<Option<Duration>, WriteError> {
    let Statuses { peers, sessions, policies, again_in } = statuses;
    let snapshot = &valid.snapshot;
    // Of an object that cannot be read nothing is told that was made from what it was.
    let readable =
        |uid: &str| !snapshot.unreadable.iter().any(|one| one.reference.uid.as_deref() == Some(uid));
    let policies = policies.into_iter().filter_map(|(name, status)| {
        let object = snapshot.policies.get(valid.policies.get(&name)?.index)?;
        Some((object, object.status.as_ref(), status)).filter(|_| readable(uid(object)))
    });
    let peers = peers.into_iter().filter_map(|(name, status)| {
        let object = snapshot.peers.get(valid.peers.get(&name)?.index)?;
        Some((object, object.status.as_ref(), status)).filter(|_| readable(uid(object)))
    });
    let sessions = sessions.into_iter().filter_map(|(name, status)| {
        let object = snapshot.sessions.get(valid.sessions.get(&name)?.index)?;
        Some((object, object.status.as_ref(), status)).filter(|_| readable(uid(object)))
    });
    let mut pass = Pass {
        context,
        now: snapshot.now,
        until: Instant::now() + WRITES_TIME,
        outcome: Outcome { again: again_in, failure: None },
    };
    pass.write::<TrustPolicy, _>(policies.collect()).await;
    pass.write::<Peer, _>(peers.collect()).await;
    pass.write::<TransferSession, _>(sessions.collect()).await;
    let Outcome { again, failure } = pass.outcome;
    failure.map_or(Ok(again), Err)
}

/// One round of writing.
struct Pass<'a> {
    context: &'a Context,
    now: UnixSeconds,
    until: Instant,
    outcome: Outcome,
}

struct Outcome {
    again: Option<Duration>,
    failure: Option<WriteError>,
}

impl Pass<'_> {
    /// With the time until which it counts, and a look before then.
    fn dated<S: Status>(&mut self, live: &S, wanted: S) -> S {
        let until = freshness::stale_after(live.stale_after(), self.now);
        let renewal = freshness::renewal(&until, self.now);
        self.outcome.again = earlier(self.outcome.again, Some(renewal));
        wanted.with_stale_after(until)
    }

    async fn write<K, S>(&mut self, wanted: Vec<Wanted<'_, K, S>>)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
        S: Status,
    {
        let none = S::default();
        let context = self.context;
        let mut changed: Vec<Change<'_, K, S>> = wanted
            .into_iter()
            .map(|(object, live, wanted)| (object, live.unwrap_or(&none), wanted))
            .map(|(object, live, wanted)| (object, live, self.dated(live, wanted)))
            .filter(|(_, live, wanted)| *live != wanted)
            .map(|(object, live, wanted)| {
                let only_counters = wanted.clone().with_counters_of(live) == *live;
                let digest = digest(&wanted);
                Change { object, live, wanted, only_counters, digest }
            })
            .filter(|change| !context.was_written(uid(change.object), version(change.object), change.digest))
            .collect();
        changed.sort_by_key(|change| change.only_counters);
        let (mut left, mut running) = (changed.iter(), FuturesUnordered::new());
        loop {
            while running.len() < WRITES_MAX
                && let Some(change) = left.next()
            {
                running.push(change.write(context, self.until));
            }
            match running.next().await {
                Some(Ok(wait)) => self.outcome.again = earlier(self.outcome.again, wait),
                Some(Err(error)) => self.outcome.failure = self.outcome.failure.take().or(Some(error)),
                None => return,
            }
        }
    }
}

/// A status that differs.
struct Change<'a, K, S> {
    object: &'a K,
    live: &'a S,
    wanted: S,
    only_counters: bool,
    digest: u64,
}

impl<K, S> Change<'_, K, S>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    S: Status,
{
    /// Writes it, unless it has to wait: then returns how long.
    async fn write(&self, context: &Context, until: Instant) -> Result<Option<Duration>, WriteError> {
        if self.only_counters
            && let Some(wait) = context.counters_wait(uid(self.object))
        {
            return Ok(Some(wait));
        }
        if Instant::now() >= until {
            return Ok(Some(DEBOUNCE));
        }
        if self.only_counters && !context.may_count() {
            return Ok(Some(COUNTERS_PAUSE));
        }
        if object_status(context, self.object, self.live, &self.wanted).await? {
            context.wrote(uid(self.object), version(self.object), self.digest);
        }
        Ok(None)
    }
}

fn version<K: Resource>(object: &K) -> &str {
    object.meta().resource_version.as_deref().unwrap_or_default()
}

/// Tells statuses apart within this process.
fn digest(status: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(status).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// Writes one status, and an event for every condition that turned; false when the object is gone or has changed, of which
/// the caches hear.
async fn object_status<K, S>(context: &Context, object: &K, live: &S, wanted: &S) -> Result<bool, WriteError>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    S: Status,
{
    let (meta, uid) = (object.meta(), uid(object));
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    let api: Api<K> = Api::namespaced(context.client.clone(), namespace);
    // The uid makes the patch fail instead of making a new object when this one has been deleted meanwhile. The version
    // makes it fail when the status was made from an older one: a leader that was cut off must not undo what its successor
    // wrote when its connection comes back.
    let patch = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": name, "uid": uid, "resourceVersion": meta.resource_version}, "status": wanted,
    });
    let written =
        api.patch_status(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(patch)).await;
    match written {
        Ok(_) => context.metrics.status_written(&K::kind(&()), StatusWrite::Written),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {
            context.metrics.status_written(&K::kind(&()), StatusWrite::Gone);
            return Ok(false);
        }
        Err(source) => {
            context.metrics.status_written(&K::kind(&()), StatusWrite::Failed);
            return Err(WriteError {
                kind: K::kind(&()).into_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                source: Box::new(source),
            });
        }
    }
    announce(&context.recorder, &object.object_ref(&()), live.conditions(), wanted.conditions()).await;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;
    use crate::reconcile::fixture;
    use crate::spec::Unreadable;
    use crate::testing::{Asked, cluster, failure, list};
    use crate::watch;

    #[test]
    fn counters_alone_are_told_from_the_rest() {
        let live = TransferSessionStatus { tensors_transferred: Some(1), ..Default::default() };
        let counted = TransferSessionStatus {
            tensors_transferred: Some(2),
            counted: Some(Default::default()),
            stale_after: Some(crate::condition::time(UnixSeconds(1))),
            ..live.clone()
        };
        assert_eq!(counted.clone().with_counters_of(&live), live);
        let moved = TransferSessionStatus { connections: Some(1), ..counted };
        assert_ne!(moved.with_counters_of(&live), live);
    }

    /// What becomes of the statuses of a namespace that works, and what was asked of the API server.
    async fn written(
        answer: impl Fn(&Asked) -> (u16, serde_json::Value) + Send + Sync + 'static,
        change: impl FnOnce(&mut crate::spec::Snapshot),
    ) -> (Option<Duration>, Vec<Asked>) {
        let (client, log) = cluster(answer);
        let (stores, _) = watch::start(&client, &Arc::default());
        let advice = tokio::sync::watch::channel(Arc::default()).1;
        let context = Context::new(client, stores, Arc::default(), Arc::default(), advice, "operator-0");
        let mut snapshot = fixture::snapshot();
        change(&mut snapshot);
        let (valid, _, statuses) = fixture::run(snapshot);
        let again = write(&context, &valid, statuses).await.unwrap();
        let patches = log.lock().unwrap().iter().filter(|asked| asked.method == "PATCH").cloned().collect();
        (again, patches)
    }

    fn versioned(snapshot: &mut crate::spec::Snapshot) {
        snapshot.peers[0].metadata.resource_version = Some("41".to_owned());
    }

    #[tokio::test]
    async fn a_status_is_written_over_the_version_that_it_was_made_from() {
        let answer = |asked: &Asked| match asked.method.as_str() {
            "PATCH" => (200, json!(fixture::peer("embedder"))),
            _ => list(json!([])),
        };
        let (again, asked) = written(answer, |snapshot| {
            versioned(snapshot);
            snapshot.sessions.clear();
            snapshot.policies.clear();
        })
        .await;
        let patch = asked.iter().find(|asked| asked.path.contains("/peers/embedder/status")).unwrap();
        assert_eq!(patch.body["metadata"]["resourceVersion"], "41");
        assert_eq!(patch.body["metadata"]["uid"], "embedder-uid");
        let until = patch.body["status"]["staleAfter"].as_str().unwrap();
        assert_eq!(until, "2026-11-21T00:10:00Z");
        assert!(again.is_some_and(|again| again <= Duration::from_secs(300)), "it is renewed in time");
    }

    #[tokio::test]
    async fn nothing_is_told_of_what_cannot_be_read() {
        let answer = |asked: &Asked| match asked.method.as_str() {
            "PATCH" => (200, json!(fixture::peer("embedder"))),
            _ => list(json!([])),
        };
        let (_, asked) = written(answer, |snapshot| {
            snapshot.sessions.clear();
            snapshot.policies.clear();
            let uid = snapshot.peers[0].metadata.uid.clone();
            let reference = ObjectReference { uid, ..ObjectReference::default() };
            snapshot.unreadable = vec![Unreadable { reference, error: String::new(), kept: true }];
        })
        .await;
        let told = |path: &str| asked.iter().any(|asked| asked.path.contains(path));
        assert!(told("/peers/ranker/status") && !told("/peers/embedder/status"), "{asked:?}");
    }

    #[tokio::test]
    async fn a_status_of_an_older_version_is_given_up() {
        let answer = |asked: &Asked| match asked.method.as_str() {
            "PATCH" => failure(409, "Conflict"),
            _ => list(json!([])),
        };
        let (_, asked) = written(answer, versioned).await;
        assert!(!asked.is_empty() && asked.iter().all(|asked| asked.path.contains("/status")), "{asked:?}");
    }
}

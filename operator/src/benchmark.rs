//! Benchmarks: Jobs that measure node pools, when they run, and what their results mean.
//!
//! One reconciliation takes one step: [`step::decide`] says which, purely, from the object, its Jobs and the nodes;
//! [`apply`] takes it; the status that follows causes the next one. Nothing waits for a Job.

mod advice;
mod apply;
mod group;
mod job;
mod pairs;
mod part;
mod pool;
mod records;
mod schedule;
mod situation;
mod standing;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod transports;
mod verdict;
mod view;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Api, Client, Resource, ResourceExt};
use sealane_operator_api::well_known::{RUN_ANNOTATION, benchmark_results};
use sealane_operator_api::{ActiveRun, Benchmark, BenchmarkStatus, NodePhase, RunOutcome, word};
use sealane_results::{NodeRecord, RunKey};
use tokio::sync::watch as channel;
use zeroize::Zeroizing;

use self::advice::{Publisher, contribution};
use self::apply::{ApplyError, Hands};
use self::job::Owner;
pub use self::job::Runner;
use self::pool::NodeView;
pub use self::schedule::{Schedule, ScheduleError};
use self::situation::Situation;
use self::step::{Advance, Begin, Finish, Outlook, Step, active, bounded, decide};
use self::view::JobView;
use self::watch::Stores;
use crate::advice::{Advice, Contribution};
use crate::announce::announce;
use crate::causes::Causes;
use crate::limits::RETRY;
use crate::metrics::{Metrics, RunEnd};
use crate::names::CONTROLLER;
use crate::queue::Queue;
use crate::spec::Problem;

/// How Benchmarks are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub runner: Runner,
    /// Namespaces in which the operator may make Jobs.
    pub namespaces: Vec<String>,
}

/// Follows the Benchmarks of the cluster.
pub struct Benchmarks {
    client: Client,
    settings: Settings,
    stores: Stores,
    recorder: Recorder,
    metrics: Arc<Metrics>,
    /// Nodes on which Jobs were made that the cache may not have yet, by Benchmark.
    claims: BTreeMap<String, BTreeSet<String>>,
    publisher: Publisher,
}

impl fmt::Debug for Benchmarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Benchmarks").finish_non_exhaustive()
    }
}

/// What kept a reconciliation from its end.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot read the Benchmark")]
    Read(#[source] Box<kube::Error>),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("the system has no random numbers")]
    Random,
}

/// Follows Benchmarks until it is dropped, and tells what they recommend.
pub async fn run(
    client: Client,
    settings: Settings,
    pod_name: String,
    metrics: Arc<Metrics>,
    advice: channel::Sender<Arc<Advice>>,
) {
    let queue = Arc::new(Queue::default());
    let (stores, watching) = watch::start(&client, &settings.namespaces, &queue);
    let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(pod_name) };
    let recorder = Recorder::new(client.clone(), reporter);
    let publisher = Publisher::new(settings.namespaces.clone(), advice);
    let benchmarks =
        Benchmarks { client, settings, stores, recorder, metrics, claims: BTreeMap::new(), publisher };
    tokio::join!(watching, benchmarks.follow(&queue));
}

impl Benchmarks {
    /// One at a time, so that two never take the same node.
    async fn follow(mut self, queue: &Queue) {
        // Which nodes are being measured must be known before another is.
        self.stores.ready().await;
        self.publisher.publish(None, self.stores.keys());
        loop {
            let key = queue.next(&BTreeSet::new()).await;
            let outcome = self.reconcile(&key).await;
            self.publisher.publish(Some(&key), self.stores.keys());
            match outcome {
                Ok(Some(again)) => queue.request(&key, again),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(benchmark = key, error = %Causes(&error), "reconciliation failed");
                    queue.request(&key, RETRY);
                }
            }
        }
    }

    async fn reconcile(&mut self, key: &str) -> Result<Option<Duration>, Failure> {
        let Some((namespace, name)) = key.split_once('/') else { return Ok(None) };
        let api = Api::<Benchmark>::namespaced(self.client.clone(), namespace);
        let object = api.get_opt(name).await.map_err(|error| Failure::Read(Box::new(error)))?;
        let Some(object) = object.filter(|object| object.metadata.deletion_timestamp.is_none()) else {
            // Its Jobs go with it: they are owned by it.
            self.claims.remove(key);
            self.publisher.hear(key, Contribution::default());
            self.metrics.benchmark_gone(key);
            return Ok(None);
        };
        let uid = object.uid().unwrap_or_default();
        let now = Timestamp::from_second(i64::try_from(crate::clock::now().0).unwrap_or(i64::MAX))
            .unwrap_or_default();
        let nodes: Vec<NodeView> =
            self.stores.nodes.state().iter().filter_map(|node| NodeView::new(node)).collect();
        let (jobs, busy) = self.jobs(key);
        let live = object.status.clone().unwrap_or_default();
        self.publisher.hear(key, contribution(key, &object.spec, &live, &nodes));
        let situation = Situation {
            now,
            owner: Owner { namespace, name, uid: &uid },
            generation: object.metadata.generation.unwrap_or_default(),
            created: object.creation_timestamp().map_or(now, |time| time.0),
            request: object.annotations().get(RUN_ANNOTATION).map(String::as_str),
            spec: &object.spec,
            status: &live,
            enabled: self.enabled(namespace),
            nodes: &nodes,
            jobs: &jobs,
            busy: &busy,
        };
        let (step, mut outlook) = decide(&situation);
        let taken = self.take(key, &situation, step, &mut outlook).await?;
        let status = status::told(&situation, &outlook, taken);
        self.write(key, &object, &situation, &status).await?;
        let stale = transports::stale_in(&object.spec.recommendation, &status, now);
        Ok(outlook.again.into_iter().chain(stale).min())
    }

    /// Takes a step: the status that follows.
    async fn take(
        &mut self,
        key: &str,
        situation: &Situation<'_>,
        step: Step,
        outlook: &mut Outlook,
    ) -> Result<BenchmarkStatus, Failure> {
        let hands = Hands { client: &self.client, owner: situation.owner };
        for job in &outlook.surplus {
            hands.drop_job(job).await;
        }
        match step {
            Step::Rest => {
                self.claims.remove(key);
                Ok(situation.status.clone())
            }
            Step::Begin(begin) => Ok(begin_run(&hands, situation, &begin).await?.unwrap_or_else(|problem| {
                outlook.next = Err(problem);
                outlook.again = Some(RETRY);
                situation.status.clone()
            })),
            Step::Advance(advance) => {
                // What is being measured after this step: what is over leaves its pool to others.
                let running = advance.nodes.iter().filter(|node| node.phase == NodePhase::Running);
                let measured = running.flat_map(part::sites).map(|(_, node)| node.to_owned());
                self.claims.insert(key.to_owned(), measured.collect());
                advance_run(&hands, situation, advance, &self.settings.runner).await
            }
            Step::Finish(finish) => {
                self.claims.remove(key);
                finish_run(&hands, situation, outlook, &finish).await
            }
        }
    }

    /// Writes the status if it differs, and tells of what it says.
    async fn write(
        &self,
        key: &str,
        object: &Benchmark,
        situation: &Situation<'_>,
        status: &BenchmarkStatus,
    ) -> Result<(), Failure> {
        let live = situation.status;
        if situation.enabled.is_ok() {
            let of_pools = status.pools.iter().map(|pool| pool.regressions.len());
            let worse = of_pools.chain(status.pairs.iter().map(|pair| pair.regressions.len())).sum();
            let success = status.last_successful_time.as_ref().map(|time| time.0.as_second());
            self.metrics.benchmark(key, worse, success);
        }
        if status == live {
            return Ok(());
        }
        let hands = Hands { client: &self.client, owner: situation.owner };
        let written = hands.write_status(object, status).await;
        if let (None, Some(begun), Err(_) | Ok(false)) = (&live.active, &status.active, &written) {
            // Nobody knows of this run: the next try makes another key.
            hands.drop_secret(&begun.secret).await;
        }
        if written? {
            if live.active.is_some() && status.active.is_none() {
                status.runs.first().into_iter().for_each(|run| self.metrics.ran(end(run.outcome)));
            }
            announce(&self.recorder, &object.object_ref(&()), &live.conditions, &status.conditions).await;
        }
        Ok(())
    }

    /// Whether Jobs can be made and followed in `namespace`, or why not.
    fn enabled(&self, namespace: &str) -> Result<(), String> {
        if !self.settings.namespaces.iter().any(|enabled| enabled == namespace) {
            return Err(format!(
                "the operator may not make Jobs in namespace {namespace}; add it to the chart's benchmarks.namespaces"
            ));
        }
        if self.stores.follows(namespace) {
            return Ok(());
        }
        Err(format!(
            "Jobs in namespace {namespace} cannot be watched: the release has no rights there, or not yet"
        ))
    }

    /// The Jobs of a Benchmark, and the nodes that all others measure.
    fn jobs(&self, key: &str) -> (Vec<JobView>, BTreeSet<String>) {
        let pods = self.stores.pods();
        let all = self.stores.jobs().filter_map(|job| JobView::new(&job, &pods));
        let (own, others): (Vec<_>, Vec<_>) =
            all.partition(|job| watch::key(&job.namespace, &job.benchmark) == key);
        let active = others.into_iter().filter(JobView::is_active);
        let measured = active.flat_map(|job| std::iter::once(job.node).chain(job.client));
        let claimed =
            self.claims.iter().filter(|(other, _)| *other != key).flat_map(|(_, nodes)| nodes.clone());
        (own, measured.chain(claimed).collect())
    }
}

async fn begin_run(
    hands: &Hands<'_>,
    situation: &Situation<'_>,
    begin: &Begin,
) -> Result<Result<BenchmarkStatus, Problem>, Failure> {
    if let Some(stranger) = hands.stranger().await? {
        return Ok(Err(Problem { reason: word::SPEC_INVALID, message: stranger }));
    }
    let mut seed = Zeroizing::new([0; 32]);
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.secure_random.fill(&mut *seed).map_err(|_| Failure::Random)?;
    let key = RunKey::new(seed);
    let public = key.public().map_err(|_| Failure::Random)?;
    let run = active(situation, begin, &public);
    if let Some(refused) = hands.make_secret(&run, &key).await? {
        let message = format!("the Secret of a run cannot be made: {}", bounded(&refused));
        return Ok(Err(Problem { reason: word::NAMESPACE_NOT_ENABLED, message }));
    }
    Ok(Ok(status::begun(situation.status, run, &begin.cause)))
}

async fn advance_run(
    hands: &Hands<'_>,
    situation: &Situation<'_>,
    advance: Advance,
    runner: &Runner,
) -> Result<BenchmarkStatus, Failure> {
    let Advance { mut nodes, start, mut results } = advance;
    let mut status = situation.status.clone();
    let Some(run) = status.active.clone() else { return Ok(status) };
    for (node, role) in start {
        let Some(refused) = hands.make_job(situation, &run, &node, role, runner).await? else { continue };
        let message = bounded(&format!("its Job cannot be made: {refused}"));
        if let Some(failed) = nodes.iter_mut().find(|one| one.job == node.job) {
            (failed.phase, failed.message) = (NodePhase::Failed, Some(message.clone()));
        }
        results.push(NodeRecord { failure: Some(message), ..part::record(&node, None) });
    }
    if !results.is_empty() {
        let mut records = hands.records().await?;
        records.add(&run, results);
        hands.keep(records, &newest(&status)).await?;
        status.results = Some(benchmark_results(hands.owner.name));
    }
    status.active = Some(ActiveRun { nodes, ..run });
    Ok(status)
}

async fn finish_run(
    hands: &Hands<'_>,
    situation: &Situation<'_>,
    outlook: &Outlook,
    finish: &Finish,
) -> Result<BenchmarkStatus, Failure> {
    let Some(run) = &situation.status.active else { return Ok(situation.status.clone()) };
    let mut records = hands.records().await?;
    let mut status = status::finished(situation, outlook, finish, &mut records);
    hands.keep(records, &newest(&status)).await?;
    status.results = Some(benchmark_results(hands.owner.name));
    hands.drop_secret(&run.secret).await;
    Ok(status)
}

const fn end(outcome: RunOutcome) -> RunEnd {
    match outcome {
        RunOutcome::Succeeded => RunEnd::Succeeded,
        RunOutcome::Failed => RunEnd::Failed,
        RunOutcome::Replaced => RunEnd::Replaced,
    }
}

/// The runs of a status whose records are kept longest first: the newest, the baseline, and then the others by age.
fn newest(status: &BenchmarkStatus) -> Vec<&str> {
    let active = status.active.iter().map(|run| run.id.as_str());
    let all: Vec<&str> = active.chain(status.runs.iter().map(|run| run.id.as_str())).collect();
    let first = all.first().copied().into_iter().chain(status.baseline.as_deref());
    let mut order: Vec<&str> = Vec::new();
    for run in first.chain(all.iter().copied()) {
        if !order.contains(&run) {
            order.push(run);
        }
    }
    order
}

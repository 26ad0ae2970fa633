//! What makes pods, as far as it matters here: how many pods are still to come, and how the work ended.
//!
//! Kinds that finish (Job) and kinds that go on for as long as they are declared (Deployment, ReplicaSet, StatefulSet,
//! DaemonSet) are known. Pods of any other controller are judged by themselves.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use sealane_operator_api::well_known::INJECT_LABEL;

/// Kinds of [`WorkloadView`]s.
const KINDS: [&str; 5] = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"];
/// The kind whose Jobs are one after another the same work.
const CRON_JOB: &str = "CronJob";
/// Longest part of a Job's own message that is repeated.
const MESSAGE_CHARS_MAX: usize = 256;

/// The controller of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl Owner {
    /// None: nothing makes the object anew.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let mut owners = metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        Some(Self { kind: owner.kind.clone(), name: owner.name.clone(), uid: owner.uid.clone() })
    }

    /// Whether what it does is known here.
    #[must_use]
    pub fn is_known(&self) -> bool {
        KINDS.contains(&self.kind.as_str())
    }
}

/// Where a workload is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadState {
    /// Keeps this many pods for as long as it is declared.
    Serving {
        pods: u32,
    },
    /// Makes pods until enough of them have succeeded.
    Running(Completions),
    Succeeded,
    /// For good, and why.
    Failed(String),
}

/// What a Job that is not finished still asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completions {
    /// None: the first pod that succeeds says that there is no more work.
    pub wanted: Option<u32>,
    pub parallelism: u32,
    /// As the Job's status counts them, which is some seconds behind.
    pub succeeded: u32,
    /// Indexes that are given up.
    pub failed_indexes: u32,
    /// It is decided how the Job ends: it makes no more pods.
    pub decided: bool,
}

impl Completions {
    /// Pods that have to succeed and have not, of which `succeeded` are known to have.
    #[must_use]
    pub fn left(&self, succeeded: u32) -> u32 {
        let succeeded = self.succeeded.max(succeeded);
        match self.wanted {
            _ if self.decided => 0,
            Some(wanted) => wanted.saturating_sub(succeeded).saturating_sub(self.failed_indexes),
            None if succeeded > 0 => 0,
            None => self.parallelism,
        }
    }

    /// Whether nothing is left to do but for the Job's controller to say so.
    #[must_use]
    pub fn are_complete(&self, succeeded: u32) -> bool {
        !self.decided && self.failed_indexes == 0 && self.left(succeeded) == 0
    }
}

/// The few facts of a workload that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadView {
    pub kind: &'static str,
    pub name: String,
    pub uid: String,
    pub made: Option<Timestamp>,
    pub owner: Option<Owner>,
    /// Of the pods that it makes.
    pub labels: BTreeMap<String, String>,
    pub state: WorkloadState,
}

impl WorkloadView {
    /// None for one that is being deleted: it makes no more pods, and its end says nothing.
    #[must_use]
    pub fn of_deployment(deployment: &Deployment) -> Option<Self> {
        let spec = &deployment.spec;
        let state = WorkloadState::Serving { pods: replicas(spec.replicas) };
        Self::new("Deployment", &deployment.metadata, Some(&spec.template), state)
    }

    /// As [`Self::of_deployment`].
    #[must_use]
    pub fn of_replica_set(set: &ReplicaSet) -> Option<Self> {
        let spec = &set.spec;
        let state = WorkloadState::Serving { pods: replicas(spec.replicas) };
        Self::new("ReplicaSet", &set.metadata, spec.template.as_ref(), state)
    }

    /// As [`Self::of_deployment`].
    #[must_use]
    pub fn of_stateful_set(set: &StatefulSet) -> Option<Self> {
        let spec = &set.spec;
        let state = WorkloadState::Serving { pods: replicas(spec.replicas) };
        Self::new("StatefulSet", &set.metadata, Some(&spec.template), state)
    }

    /// As [`Self::of_deployment`]. How many nodes it is for is in its status alone.
    #[must_use]
    pub fn of_daemon_set(set: &DaemonSet) -> Option<Self> {
        let spec = &set.spec;
        let pods = set.status.as_ref().map_or(0, |status| status.desired_number_scheduled);
        let state = WorkloadState::Serving { pods: u32::try_from(pods).unwrap_or(0) };
        Self::new("DaemonSet", &set.metadata, Some(&spec.template), state)
    }

    /// As [`Self::of_deployment`]. A Job that is suspended is to go on some day, and so are its pods.
    #[must_use]
    pub fn of_job(job: &Job) -> Option<Self> {
        let spec = job.spec.as_ref()?;
        let none = JobStatus::default();
        let status = job.status.as_ref().unwrap_or(&none);
        let number = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
        let state = ended(status).unwrap_or_else(|| {
            WorkloadState::Running(Completions {
                wanted: number(spec.completions),
                parallelism: number(spec.parallelism).unwrap_or(1),
                succeeded: number(status.succeeded).unwrap_or(0),
                failed_indexes: status.failed_indexes.as_deref().map_or(0, count_indexes),
                decided: holds(status, "SuccessCriteriaMet") || holds(status, "FailureTarget"),
            })
        });
        Self::new("Job", &job.metadata, Some(&spec.template), state)
    }

    fn new(
        kind: &'static str,
        metadata: &ObjectMeta,
        template: Option<&PodTemplateSpec>,
        state: WorkloadState,
    ) -> Option<Self> {
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        let of_pods = template.and_then(|template| template.metadata.as_ref());
        Some(Self {
            kind,
            name: metadata.name.clone()?,
            uid: metadata.uid.clone()?,
            made: metadata.creation_timestamp.as_ref().map(|time| time.0),
            owner: Owner::of(metadata),
            labels: of_pods.and_then(|metadata| metadata.labels.clone()).unwrap_or_default(),
            state,
        })
    }

    /// Whether its pods get a sidecar, as far as its own labels say.
    #[must_use]
    pub fn takes_part(&self) -> bool {
        self.labels.get(INJECT_LABEL).is_none_or(|value| value != "false")
    }

    /// The CronJob of which it is one run.
    #[must_use]
    pub fn cron_job(&self) -> Option<&Owner> {
        self.owner.as_ref().filter(|owner| owner.kind == CRON_JOB)
    }

    /// `Kind/name`.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

/// Keeps of a workload's metadata what [`WorkloadView`] reads.
pub fn trim_metadata<K: Resource>(object: &mut K) {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    metadata.annotations = None;
    metadata.labels = None;
    metadata.finalizers = None;
}

/// Keeps of a template what [`WorkloadView`] reads.
pub fn trim_template(template: &mut PodTemplateSpec) {
    template.spec = None;
    if let Some(metadata) = &mut template.metadata {
        *metadata = ObjectMeta { labels: metadata.labels.take(), ..ObjectMeta::default() };
    }
}

fn replicas(replicas: Option<i32>) -> u32 {
    replicas.map_or(1, |replicas| u32::try_from(replicas).unwrap_or(0))
}

fn holds(status: &JobStatus, type_: &str) -> bool {
    status.conditions.iter().flatten().any(|one| one.type_ == type_ && one.status == "True")
}

/// How a Job ended, if it has.
fn ended(status: &JobStatus) -> Option<WorkloadState> {
    if holds(status, "Complete") {
        return Some(WorkloadState::Succeeded);
    }
    let mut conditions = status.conditions.iter().flatten();
    let failed = conditions.find(|one| one.type_ == "Failed" && one.status == "True")?;
    let words = [failed.reason.as_deref(), failed.message.as_deref()].into_iter().flatten();
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    Some(WorkloadState::Failed(words.join(": ").chars().take(MESSAGE_CHARS_MAX).collect()))
}

/// How many indexes a Job's status lists, as in `1,3-5,7`.
fn count_indexes(text: &str) -> u32 {
    let count = |part: &str| -> Option<u32> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(last.checked_sub(first)?.saturating_add(1))
    };
    text.split(',').filter_map(count).fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests;

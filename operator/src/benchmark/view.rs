//! What matters of a run's Jobs and their pods. Pure.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use sealane_operator_api::well_known::{BENCHMARK_CONTAINER, BENCHMARK_LABEL, RUN_LABEL};

use super::job::{CLIENT_ANNOTATION, NODE_ANNOTATION};

/// Kubernetes' label of a Job's pods.
const JOB_LABEL: &str = "batch.kubernetes.io/job-name";

/// A Job that measures a node, and the pod that it made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobView {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) benchmark: String,
    pub(super) run: String,
    pub(super) node: String,
    /// Of a server: the node of its client.
    pub(super) client: Option<String>,
    pub(super) state: JobState,
    pub(super) pod: Option<MeasuringPod>,
}

/// How a Job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobState {
    Active,
    Over {
        at: Timestamp,
        /// Why it failed, if it did.
        failure: Option<String>,
    },
}

/// A pod that measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MeasuringPod {
    /// What keeps it from running.
    pub(super) waits: Option<String>,
    /// What it said at its end, once it has ended.
    pub(super) said: Option<String>,
    /// Its IP address, while its container runs.
    pub(super) address: Option<IpAddr>,
}

impl JobView {
    /// `None` for a Job that is no benchmark's.
    #[must_use]
    pub(super) fn new(job: &Job, pods: &[impl AsRef<Pod>]) -> Option<Self> {
        let meta = &job.metadata;
        let label = |key: &str| meta.labels.as_ref()?.get(key).cloned();
        let name = meta.name.clone()?;
        let namespace = meta.namespace.clone()?;
        let is_of = |pod: &Pod| {
            pod.metadata.namespace.as_deref() == Some(namespace.as_str())
                && pod.metadata.labels.as_ref().and_then(|labels| labels.get(JOB_LABEL)) == Some(&name)
        };
        let pod = pods.iter().map(AsRef::as_ref).find(|pod| is_of(pod)).map(MeasuringPod::new);
        Some(Self {
            benchmark: label(BENCHMARK_LABEL)?,
            run: label(RUN_LABEL)?,
            node: meta.annotations.as_ref()?.get(NODE_ANNOTATION)?.clone(),
            client: meta.annotations.as_ref()?.get(CLIENT_ANNOTATION).cloned(),
            state: JobState::of(job),
            pod,
            namespace,
            name,
        })
    }

    /// Whether it may use its node.
    #[must_use]
    pub(super) fn is_active(&self) -> bool {
        self.state == JobState::Active
    }
}

impl JobState {
    fn of(job: &Job) -> Self {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let over = conditions.into_iter().find_map(|condition| {
            let failure = match condition.type_.as_str() {
                "Complete" => None,
                "Failed" => Some(
                    [condition.reason.as_deref(), condition.message.as_deref()]
                        .into_iter()
                        .flatten()
                        .collect::<Vec<_>>()
                        .join(": "),
                ),
                _ => return None,
            };
            let at = condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            (condition.status == "True").then_some(Self::Over { at, failure })
        });
        over.unwrap_or(Self::Active)
    }
}

impl MeasuringPod {
    fn new(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let containers = status.into_iter().flat_map(|status| status.container_statuses.iter().flatten());
        let container = containers.into_iter().find(|container| container.name == BENCHMARK_CONTAINER);
        let state = container.and_then(|container: &ContainerStatus| container.state.as_ref());
        let waiting = state.and_then(|state| state.waiting.as_ref());
        let waiting = waiting.and_then(|waiting| {
            let reason = waiting.reason.as_deref().filter(|reason| *reason != "ContainerCreating")?;
            Some(told(reason, waiting.message.as_deref()))
        });
        let conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
        let unscheduled = conditions
            .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
            .map(|condition| {
                told(condition.reason.as_deref().unwrap_or_default(), condition.message.as_deref())
            })
            .next();
        let runs = state.is_some_and(|state| state.running.is_some());
        let ended = state.and_then(|state| state.terminated.as_ref());
        Self {
            waits: unscheduled.or(waiting),
            said: ended.map(|ended| ended.message.clone().unwrap_or_default()),
            address: status.and_then(|status| status.pod_ip.as_deref()?.parse().ok()).filter(|_| runs),
        }
    }
}

fn told(reason: &str, message: Option<&str>) -> String {
    message.map_or_else(|| reason.to_owned(), |message| format!("{reason}: {message}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn job(status: Value) -> Job {
        serde_json::from_value(json!({
            "metadata": {"name": "nightly-1-a", "namespace": "bench", "annotations": {"sealane.dev/node": "a"},
                         "labels": {"sealane.dev/benchmark": "nightly", "sealane.dev/benchmark-run": "u-1-5"}},
            "status": status,
        }))
        .unwrap()
    }

    fn pod(namespace: &str, status: Value) -> Arc<Pod> {
        let labels = json!({"batch.kubernetes.io/job-name": "nightly-1-a"});
        let pod = json!({"metadata": {"namespace": namespace, "labels": labels}, "status": status});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_job_is_active_until_a_condition_says_otherwise() {
        let state = |status| JobView::new(&job(status), &[] as &[Arc<Pod>]).unwrap().state;
        assert_eq!(state(json!({})), JobState::Active);
        let condition = |type_: &str, status: &str| {
            json!({"conditions": [{"type": type_, "status": status, "reason": "DeadlineExceeded",
                                   "message": "too long", "lastTransitionTime": "2026-11-23T01:00:00Z"}]})
        };
        let at = "2026-11-23T01:00:00Z".parse().unwrap();
        assert_eq!(state(condition("Complete", "True")), JobState::Over { at, failure: None });
        let failure = Some("DeadlineExceeded: too long".to_owned());
        assert_eq!(state(condition("Failed", "True")), JobState::Over { at, failure });
        assert_eq!(state(condition("Failed", "False")), JobState::Active);
        assert_eq!(state(condition("FailureTarget", "True")), JobState::Active, "its pod may still run");
        assert!(JobView::new(&Job::default(), &[] as &[Arc<Pod>]).is_none());
    }

    #[test]
    fn its_pod_tells_what_it_waits_for_and_what_it_said() {
        let of = |status| {
            JobView::new(&job(json!({})), &[pod("other", json!({})), pod("bench", status)])
                .unwrap()
                .pod
                .unwrap()
        };
        let state = |state: Value| {
            of(
                json!({"containerStatuses": [{"name": "bench", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}]}),
            )
        };
        let unscheduled = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}]});
        assert_eq!(of(unscheduled).waits.unwrap(), "Unschedulable: 0/2 nodes");
        assert_eq!(
            state(json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}})).waits.unwrap(),
            "ErrImagePull: no such image"
        );
        assert_eq!(state(json!({"waiting": {"reason": "ContainerCreating"}})).waits, None);
        assert_eq!(state(json!({"running": {}})), MeasuringPod { waits: None, said: None, address: None });
        let listening = of(json!({
            "podIP": "fd00::7",
            "containerStatuses": [{"name": "bench", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}],
        }));
        assert_eq!(listening.address, "fd00::7".parse().ok());
        assert_eq!(of(json!({"podIP": "10.0.0.7"})).address, None, "its container does not run");
        assert_eq!(state(json!({"terminated": {"exitCode": 0, "message": "m"}})).said.unwrap(), "m");
        assert_eq!(state(json!({"terminated": {"exitCode": 137}})).said.unwrap(), "");
    }
}

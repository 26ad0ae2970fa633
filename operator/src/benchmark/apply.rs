//! Takes a step: what it changes in the API server.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use sealane_operator_api::well_known::benchmark_results;
use sealane_operator_api::{ActiveNode, ActiveRun, Benchmark, BenchmarkStatus};
use sealane_results::RunKey;
use serde_json::{Value, json};

use super::job::{Owner, Role, Runner, job, secret};
use super::records::Records;
use super::situation::Situation;
use crate::names::FIELD_MANAGER;

/// Label of what the operator makes.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const OPERATOR: &str = "sealane-operator";

/// A step that was not taken, or not whole; it is taken again.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub(super) struct ApplyError {
    what: &'static str,
    #[source]
    source: Box<kube::Error>,
}

fn cannot(what: &'static str) -> impl FnOnce(kube::Error) -> ApplyError {
    move |source| ApplyError { what, source: Box::new(source) }
}

/// The answer of an API server that will not change its mind.
fn refusal(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422) => Some(status.message.clone()),
        _ => None,
    }
}

const fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, kube::Error> {
    serde_json::from_value(value).map_err(kube::Error::SerdeError)
}

/// What a Benchmark's steps change.
#[derive(Clone)]
pub(super) struct Hands<'a> {
    pub(super) client: &'a Client,
    pub(super) owner: Owner<'a>,
}

impl Hands<'_> {
    /// Makes the Secret of a run: the answer is why the API server will not take it.
    ///
    /// # Errors
    /// [`ApplyError`] where another try may do.
    pub(super) async fn make_secret(
        &self,
        run: &ActiveRun,
        key: &RunKey,
    ) -> Result<Option<String>, ApplyError> {
        let what = "make the Secret of the run";
        let secret: Secret =
            read(secret(self.owner, &run.id, &run.secret, &key.to_hex())).map_err(cannot(what))?;
        let api = Api::<Secret>::namespaced(self.client.clone(), self.owner.namespace);
        match api.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(None),
            Err(error) => match refusal(&error) {
                Some(why) => Ok(Some(why)),
                None => Err(cannot(what)(error)),
            },
        }
    }

    /// The run is over: nobody signs for it any more.
    pub(super) async fn drop_secret(&self, name: &str) {
        let api = Api::<Secret>::namespaced(self.client.clone(), self.owner.namespace);
        if let Err(error) = api.delete(name, &DeleteParams::default()).await
            && code(&error) != 404
        {
            // It goes with the Benchmark, and signs for nothing but a run that is over.
            tracing::warn!(secret = name, %error, "the Secret of a run was not deleted");
        }
    }

    /// Makes a node's Job, unless it is there: the answer is why the API server will never take it.
    ///
    /// # Errors
    /// [`ApplyError`] where another try may do.
    pub(super) async fn make_job(
        &self,
        situation: &Situation<'_>,
        run: &ActiveRun,
        node: &ActiveNode,
        role: Role,
        runner: &Runner,
    ) -> Result<Option<String>, ApplyError> {
        let what = "make the Job of a node";
        let job = job(self.owner, situation.spec, (run, node, role), runner);
        let job: Job = read(job).map_err(cannot(what))?;
        let api = Api::<Job>::namespaced(self.client.clone(), self.owner.namespace);
        match api.create(&PostParams::default(), &job).await {
            Ok(_) => Ok(None),
            Err(error) if code(&error) == 409 => Ok(None),
            Err(error) => match refusal(&error) {
                Some(why) => Ok(Some(why)),
                None => Err(cannot(what)(error)),
            },
        }
    }

    /// Deletes a Job and its pods.
    pub(super) async fn drop_job(&self, name: &str) {
        let api = Api::<Job>::namespaced(self.client.clone(), self.owner.namespace);
        if let Err(error) = api.delete(name, &DeleteParams::background()).await
            && code(&error) != 404
        {
            tracing::warn!(job = name, %error, "a Job was not deleted; trying again");
        }
    }

    /// Why the ConfigMap of the results is none of the operator's, if it is not: it would go with the Benchmark.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub(super) async fn stranger(&self) -> Result<Option<String>, ApplyError> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), self.owner.namespace);
        let name = benchmark_results(self.owner.name);
        let found = api.get_opt(&name).await.map_err(cannot("read the results"))?;
        let ours = |map: &ConfigMap| map.labels().get(MANAGED_BY).map(String::as_str) == Some(OPERATOR);
        let message = || format!("ConfigMap {name} is somebody else's: give the Benchmark another name");
        Ok(found.filter(|map| !ours(map)).map(|_| message()))
    }

    /// Every record that is kept, by run.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub(super) async fn records(&self) -> Result<Records, ApplyError> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), self.owner.namespace);
        let found =
            api.get_opt(&benchmark_results(self.owner.name)).await.map_err(cannot("read the results"))?;
        Ok(Records(found.and_then(|found| found.data).unwrap_or_default()))
    }

    /// Writes all records. Of too many the oldest are dropped; `newest` names runs from the newest on.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub(super) async fn keep(&self, mut records: Records, newest: &[&str]) -> Result<(), ApplyError> {
        records.bound(newest);
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), self.owner.namespace);
        let name = benchmark_results(self.owner.name);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": self.owner.namespace, "ownerReferences": [self.owner.reference()],
                "labels": {MANAGED_BY: OPERATOR},
            },
            "data": records.0,
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&name, &parameters, &Patch::Apply(map))
            .await
            .map(|_| ())
            .map_err(cannot("write the results"))
    }

    /// Writes the status over the version of the object that it was made from; false when there is a newer one.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub(super) async fn write_status(
        &self,
        object: &Benchmark,
        status: &BenchmarkStatus,
    ) -> Result<bool, ApplyError> {
        let api = Api::<Benchmark>::namespaced(self.client.clone(), self.owner.namespace);
        let patch = json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": "Benchmark",
            "metadata": {"name": self.owner.name, "uid": self.owner.uid, "resourceVersion": object.resource_version()},
            "status": status,
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        match api.patch_status(self.owner.name, &parameters, &Patch::Apply(patch)).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(code(&error), 404 | 409) => Ok(false),
            Err(error) => Err(cannot("write the status of the Benchmark")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::Timestamp;
    use sealane_operator_api::BenchmarkSpec;
    use serde_json::json;

    use super::*;
    use crate::testing::{cluster, failure};

    const OWNER: Owner<'static> = Owner { namespace: "bench", name: "nightly", uid: "u" };

    fn run() -> ActiveRun {
        let node = json!({"pool": "x", "node": "a", "job": "nightly-1", "phase": "Running"});
        let run = json!({
            "id": "u-1", "generation": 1, "key": "", "secret": "s", "startTime": "2026-11-23T10:00:00Z", "nodes": [node],
        });
        serde_json::from_value(run).unwrap()
    }

    /// What becomes of a Job when the API server answers so.
    async fn made(code: u16) -> Result<Option<String>, ApplyError> {
        let (client, _) = cluster(move |asked| match code {
            201 => (201, asked.body.clone()),
            code => failure(code, "no"),
        });
        let spec: BenchmarkSpec = serde_json::from_value(json!({})).unwrap();
        let (status, busy) = (BenchmarkStatus::default(), BTreeSet::new());
        let situation = Situation {
            now: Timestamp::UNIX_EPOCH,
            owner: OWNER,
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            request: None,
            spec: &spec,
            status: &status,
            enabled: Ok(()),
            nodes: &[],
            jobs: &[],
            busy: &busy,
        };
        let runner =
            Runner { image: "i".to_owned(), pull_policy: "Never".to_owned(), pull_secrets: Vec::new() };
        let hands = Hands { client: &client, owner: OWNER };
        hands.make_job(&situation, &run(), &run().nodes[0], Role::Alone, &runner).await
    }

    #[tokio::test]
    async fn a_job_that_is_there_is_made_and_one_that_is_refused_is_told() {
        assert_eq!(made(201).await.unwrap(), None);
        assert_eq!(made(409).await.unwrap(), None, "another try found it");
        for code in [400, 403, 422] {
            assert_eq!(made(code).await.unwrap().as_deref(), Some("no"));
        }
        for code in [429, 500, 503] {
            assert!(made(code).await.is_err(), "{code} may pass");
        }
    }

    #[tokio::test]
    async fn a_status_is_written_over_the_version_that_it_was_made_from() {
        let answers = |code: u16| {
            cluster(move |asked| match code {
                200 => (200, asked.body.clone()),
                code => failure(code, "no"),
            })
        };
        let object: Benchmark = serde_json::from_value(json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": "Benchmark", "spec": {},
            "metadata": {"name": "nightly", "namespace": "bench", "uid": "u", "resourceVersion": "7"},
        }))
        .unwrap();
        for (code, written) in [(409, false), (404, false)] {
            let (client, log) = answers(code);
            let hands = Hands { client: &client, owner: OWNER };
            assert_eq!(hands.write_status(&object, &BenchmarkStatus::default()).await.unwrap(), written);
            let sent = log.lock().unwrap()[0].body["metadata"].clone();
            assert_eq!((&sent["resourceVersion"], &sent["uid"]), (&json!("7"), &json!("u")));
        }
        let (client, _) = answers(500);
        let hands = Hands { client: &client, owner: OWNER };
        assert!(hands.write_status(&object, &BenchmarkStatus::default()).await.is_err());
    }
}

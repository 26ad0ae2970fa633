//! What the commands ask of a cluster, and the one thing that they change in it.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use sealane_operator_api::Benchmark;
use sealane_operator_api::well_known::{RUN_ANNOTATION, benchmark_results};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::runs::Runs;
use crate::cluster::{FIELD_MANAGER, explain, words};
use crate::{objects, output};

const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A namespace of a cluster.
pub(super) struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    pub(super) const fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    fn benchmarks(&self) -> Api<DynamicObject> {
        objects::api::<Benchmark>(&self.client, &self.namespace)
    }

    /// The Benchmark of that name. With `patience` an API server that does not answer is asked again for so long.
    pub(super) async fn benchmark(&self, name: &str, patience: Duration) -> Result<Benchmark> {
        let began = Instant::now();
        let found = loop {
            match self.benchmarks().get_opt(name).await {
                Err(error) if is_passing(&error) && began.elapsed() < patience => {
                    sleep(ASK_AGAIN_AFTER).await
                }
                found => break found.map_err(|error| explain(&error, "Benchmarks"))?,
            }
        };
        let namespace = &self.namespace;
        let Some(found) = found else {
            let near = objects::near::<Benchmark>(&self.client, namespace, name).await;
            bail!(
                "there is no Benchmark {name} in namespace {namespace}{near}; `kubectl get benchmarks -n {namespace}` lists them"
            )
        };
        objects::understood(&found)
    }

    /// The Benchmark of that name; without one the only one of the namespace.
    pub(super) async fn benchmark_or_only(&self, name: Option<&str>) -> Result<Benchmark> {
        if let Some(name) = name {
            return self.benchmark(name, Duration::ZERO).await;
        }
        let list = objects::list::<Benchmark>(&self.client, Some(&self.namespace)).await;
        let found = list.map_err(|error| explain(&error, "Benchmarks"))?;
        found.strange.iter().for_each(|strange| output::say(&format!("note: {}", strange.text())));
        let mut found = found.readable;
        match (found.pop(), found.as_slice()) {
            (Some(only), []) => Ok(only),
            (Some(last), others) => {
                let names: Vec<_> =
                    others.iter().chain([&last]).map(|benchmark| benchmark.name_any()).collect();
                bail!(
                    "namespace {} has several Benchmarks, name one of them: {}",
                    self.namespace,
                    names.join(", ")
                )
            }
            (None, _) => bail!("there is no Benchmark in namespace {}", self.namespace),
        }
    }

    /// What the runs of `benchmark` found.
    pub(super) async fn runs(&self, benchmark: &Benchmark) -> Result<Runs> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = benchmark_results(&benchmark.name_any());
        let map = maps.get_opt(&name).await;
        let map = map.map_err(|error| anyhow!("cannot read the ConfigMap {name}: {}", words(&error)))?;
        Ok(Runs::open(benchmark, map.and_then(|map| map.data).as_ref()))
    }

    /// Asks for a run with a text that no other request has.
    pub(super) async fn ask(&self, name: &str, request: &str) -> Result<Benchmark> {
        // What there is not is told in the same words everywhere.
        self.benchmark(name, Duration::ZERO).await?;
        let patch = json!({"metadata": {"annotations": {RUN_ANNOTATION: request}}});
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patched = self.benchmarks().patch(name, &parameters, &Patch::Merge(&patch)).await;
        let patched = patched.map_err(|error| {
            anyhow!("cannot annotate Benchmark {name} in {}: {}", self.namespace, words(&error))
        })?;
        objects::understood(&patched)
    }
}

/// Whether the same question may be answered a moment later: the API server did not, or not as it should.
const fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500,
        _ => true,
    }
}

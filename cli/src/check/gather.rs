//! Reads what the diagnosis is made of. What cannot be read becomes a line of the diagnosis instead of its end.

use anyhow::{Context, Result};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use sealane_operator_api::{Peer, TrustPolicy, well_known};
use serde::de::DeserializeOwned;

use crate::cluster::{is_absent, words};

/// A deployment of this name runs the operator; its Lease has the same name.
const OPERATOR: &str = "sealane-operator";
const MUTATING_WEBHOOK: &str = "sealane-inject";
const VALIDATING_WEBHOOK: &str = "sealane-validate";

/// A fact, or why it could not be read.
pub(super) type Fact<T> = Result<T, String>;

#[derive(Debug)]
pub(super) struct Facts {
    /// Major and minor version of the API server.
    pub(super) version: (u32, u32),
    pub(super) definitions: Fact<Vec<CustomResourceDefinition>>,
    pub(super) operator: Fact<Option<Deployment>>,
    pub(super) mutating: Fact<Option<MutatingWebhookConfiguration>>,
    pub(super) validating: Fact<Option<ValidatingWebhookConfiguration>>,
    pub(super) lease: Fact<Option<Lease>>,
    pub(super) leaders: Fact<Vec<Pod>>,
    pub(super) namespaces: Fact<Vec<Namespace>>,
    /// Of opted-in namespaces.
    pub(super) pods: Fact<Vec<Pod>>,
    pub(super) peers: Fact<Vec<Peer>>,
    pub(super) policies: Fact<Vec<TrustPolicy>>,
}

pub(super) async fn facts(client: &Client, release: &str) -> Result<Facts> {
    let version = client.apiserver_version().await.context("the API server does not answer")?;
    let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    let cluster_wide = Api::<CustomResourceDefinition>::all(client.clone());
    let leaders = ListParams::default().labels(&format!("{}=true", well_known::LEADER_LABEL));
    let namespaces: Fact<Vec<Namespace>> = all(&Api::all(client.clone()), &ListParams::default()).await;
    let opted_in = namespaces.as_deref().map(opted_in).unwrap_or_default();
    Ok(Facts {
        version: (number(&version.major), number(&version.minor)),
        definitions: all(&cluster_wide, &ListParams::default()).await,
        operator: one(&namespaced(client, release), OPERATOR).await,
        mutating: one(&Api::all(client.clone()), MUTATING_WEBHOOK).await,
        validating: one(&Api::all(client.clone()), VALIDATING_WEBHOOK).await,
        lease: one(&namespaced(client, release), OPERATOR).await,
        leaders: all(&namespaced(client, release), &leaders).await,
        pods: pods(client, &opted_in).await,
        namespaces,
        peers: all(&Api::all(client.clone()), &ListParams::default()).await,
        policies: all(&Api::all(client.clone()), &ListParams::default()).await,
    })
}

/// Names of the namespaces whose pods go to the webhook.
pub(super) fn opted_in(namespaces: &[Namespace]) -> Vec<String> {
    let enabled = |namespace: &&Namespace| {
        let labels = namespace.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(well_known::INJECTION_LABEL))
            .is_some_and(|value| value == "enabled")
    };
    namespaces.iter().filter(enabled).filter_map(|namespace| namespace.metadata.name.clone()).collect()
}

fn namespaced<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(client.clone(), namespace)
}

async fn one<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str) -> Fact<Option<K>> {
    api.get_opt(name).await.map_err(|error| words(&error))
}

/// Every object; none where the API server does not know the kind, since the CRDs have their own line.
async fn all<K: Clone + DeserializeOwned + std::fmt::Debug>(
    api: &Api<K>,
    parameters: &ListParams,
) -> Fact<Vec<K>> {
    match api.list(parameters).await {
        Ok(list) => Ok(list.items),
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(words(&error)),
    }
}

async fn pods(client: &Client, namespaces: &[String]) -> Fact<Vec<Pod>> {
    let mut pods = Vec::new();
    for namespace in namespaces {
        pods.extend(all(&namespaced::<Pod>(client, namespace), &ListParams::default()).await?);
    }
    Ok(pods)
}

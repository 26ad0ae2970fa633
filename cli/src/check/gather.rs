//! Reads what the diagnosis is made of. What cannot be read becomes a line of the diagnosis instead of its end.

use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource};
use sealane_operator_api::{Peer, TransferSession, TrustPolicy, well_known};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::probe::{self, Answer};
use crate::clock;
use crate::cluster::{demand_namespace, explain, is_absent, words};
use crate::creations::{Failure, failures};
use crate::objects::{self, Strange};

/// A deployment of this name runs the operator; its Lease has the same name.
const OPERATOR: &str = "sealane-operator";
/// A deployment of this name serves admission. In older releases the operator does.
const WEBHOOK: &str = "sealane-webhook";
const OPERATOR_PODS: &str = "app.kubernetes.io/name=sealane,app.kubernetes.io/component=operator";
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
    pub(super) operator_pods: Fact<Vec<Pod>>,
    pub(super) webhook: Fact<Option<Deployment>>,
    pub(super) mutating: Fact<Option<MutatingWebhookConfiguration>>,
    pub(super) validating: Fact<Option<ValidatingWebhookConfiguration>>,
    /// How the injecting webhook answered; absent where no namespace opted in.
    pub(super) injection: Option<Answer>,
    pub(super) validation: Answer,
    pub(super) lease: Fact<Option<Lease>>,
    pub(super) leaders: Fact<Vec<Pod>>,
    pub(super) namespaces: Fact<Vec<Namespace>>,
    /// Of namespaces that opted in or hold Peers.
    pub(super) pods: Fact<Vec<Pod>>,
    /// Of the same namespaces, as the metrics API has them; none where there is no such API.
    pub(super) usage: Vec<DynamicObject>,
    pub(super) nodes: Fact<Vec<Node>>,
    pub(super) peers: Fact<Vec<Peer>>,
    pub(super) sessions: Fact<Vec<TransferSession>>,
    pub(super) policies: Fact<Vec<TrustPolicy>>,
    /// Peers, sessions and policies that this release does not know in all their parts.
    pub(super) strange: Vec<Strange>,
    /// Of workloads whose pods cannot be made.
    pub(super) failures: Vec<Failure>,
}

/// With `only` what concerns this namespace, for which no right in others is needed.
pub(super) async fn facts(client: &Client, release: &str, only: Option<&str>) -> Result<Facts> {
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| explain(&error, "the version of the API server"))?;
    if let Some(only) = only {
        demand_namespace(client, only).await?;
    }
    let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    let everything = ListParams::default();
    let leaders = ListParams::default().labels(&format!("{}=true", well_known::LEADER_LABEL));
    let operator_pods = ListParams::default().labels(OPERATOR_PODS);
    let namespaces: Fact<Vec<Namespace>> = match only {
        Some(only) => one(&Api::all(client.clone()), only).await.map(|found| found.into_iter().collect()),
        None => all(&Api::all(client.clone()), &everything).await,
    };
    let mut strange = Vec::new();
    let peers: Fact<Vec<Peer>> = declared(client, only, &mut strange).await;
    let opted_in = namespaces.as_deref().map(opted_in).unwrap_or_default();
    let concerned = match only {
        Some(only) => [only.to_owned()].into(),
        None => concerned(&opted_in, peers.as_deref().unwrap_or_default()),
    };
    let alive = namespaces.as_deref().map(alive).unwrap_or_default();
    let injection = match (&namespaces, opted_in.iter().find(|namespace| alive.contains(*namespace))) {
        (_, Some(namespace)) => Some(probe::injection(client, namespace).await),
        // Whether there is one to ask it from is not known.
        (Err(words), None) => Some(Answer::Untried(words.clone())),
        (Ok(_), None) => None,
    };
    Ok(Facts {
        version: (number(&version.major), number(&version.minor)),
        definitions: all(&Api::all(client.clone()), &everything).await,
        operator: one(&namespaced(client, release), OPERATOR).await,
        operator_pods: all(&namespaced(client, release), &operator_pods).await,
        webhook: one(&namespaced(client, release), WEBHOOK).await,
        mutating: one(&Api::all(client.clone()), MUTATING_WEBHOOK).await,
        validating: one(&Api::all(client.clone()), VALIDATING_WEBHOOK).await,
        injection,
        validation: probe::validation(client, only.unwrap_or(release)).await,
        lease: one(&namespaced(client, release), OPERATOR).await,
        leaders: all(&namespaced(client, release), &leaders).await,
        pods: pods(client, &concerned).await,
        usage: usage(client, &concerned).await,
        nodes: all(&Api::all(client.clone()), &everything).await,
        namespaces,
        peers,
        sessions: declared(client, only, &mut strange).await,
        policies: declared(client, only, &mut strange).await,
        strange,
        failures: failures(client, only, clock::now()).await,
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

/// Names of the namespaces in which something can be made.
fn alive(namespaces: &[Namespace]) -> BTreeSet<String> {
    let stays = |namespace: &&Namespace| namespace.metadata.deletion_timestamp.is_none();
    namespaces.iter().filter(stays).filter_map(|namespace| namespace.metadata.name.clone()).collect()
}

fn concerned(opted_in: &[String], peers: &[Peer]) -> BTreeSet<String> {
    let of_peers = peers.iter().filter_map(|peer| peer.metadata.namespace.clone());
    opted_in.iter().cloned().chain(of_peers).collect()
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

/// Objects of Sealane, whatever release wrote them; none where the API server does not know the kind.
async fn declared<K>(client: &Client, only: Option<&str>, strange: &mut Vec<Strange>) -> Fact<Vec<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize + DeserializeOwned,
{
    match objects::list(client, only).await {
        Ok(found) => {
            strange.extend(found.strange);
            Ok(found.readable)
        }
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        Err(error) => Err(words(&error)),
    }
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

async fn pods(client: &Client, namespaces: &BTreeSet<String>) -> Fact<Vec<Pod>> {
    let mut pods = Vec::new();
    for namespace in namespaces {
        pods.extend(all(&namespaced::<Pod>(client, namespace), &ListParams::default()).await?);
    }
    Ok(pods)
}

/// What containers use. Many clusters have no metrics API, and that is no fault.
async fn usage(client: &Client, namespaces: &BTreeSet<String>) -> Vec<DynamicObject> {
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "PodMetrics");
    let resource = ApiResource { plural: "pods".to_owned(), ..ApiResource::from_gvk(&kind) };
    let mut usage = Vec::new();
    for namespace in namespaces {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let Ok(list) = api.list(&ListParams::default()).await else { return usage };
        usage.extend(list.items);
    }
    usage
}

//! What the agent reads of a pod: what it is asked to run. What its status says came from the API server, and is not read.

use sealane_types::Digest;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(in crate::agent) struct PodList {
    pub(in crate::agent) items: Option<Vec<Pod>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::agent) struct Pod {
    pub(in crate::agent) metadata: Metadata,
    pub(in crate::agent) spec: Spec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::agent) struct Metadata {
    pub(in crate::agent) namespace: String,
    pub(in crate::agent) name: String,
    pub(in crate::agent) uid: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::agent) struct Spec {
    pub(in crate::agent) service_account_name: String,
    init_containers: Option<Vec<Declared>>,
    containers: Option<Vec<Declared>>,
    ephemeral_containers: Option<Vec<Declared>>,
}

/// A container as it was asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::agent) struct Declared {
    pub(in crate::agent) name: String,
    pub(in crate::agent) image: String,
}

impl Spec {
    /// Every container, init and ephemeral ones among them.
    pub(in crate::agent) fn all(&self) -> impl Iterator<Item = &Declared> {
        [&self.init_containers, &self.containers, &self.ephemeral_containers].into_iter().flatten().flatten()
    }
}

impl Declared {
    /// What the container will run, if it is asked for by digest.
    pub(in crate::agent) fn digest(&self) -> Option<Digest> {
        self.image.rsplit_once("@sha256:")?.1.parse().ok()
    }
}

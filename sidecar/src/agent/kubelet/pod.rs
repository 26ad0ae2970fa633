//! What the agent reads of a pod, and nothing else of it.

use sealane_types::Digest;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(in crate::agent) struct PodList {
    pub(in crate::agent) items: Option<Vec<Pod>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::agent) struct Pod {
    pub(in crate::agent) metadata: Metadata,
    pub(in crate::agent) spec: Spec,
    pub(in crate::agent) status: Status,
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

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::agent) struct Status {
    init_container_statuses: Option<Vec<Stated>>,
    container_statuses: Option<Vec<Stated>>,
    ephemeral_container_statuses: Option<Vec<Stated>>,
}

/// A container as it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::agent) struct Stated {
    pub(in crate::agent) name: String,
    /// `containerd://<64 digits>`
    #[serde(rename = "containerID")]
    container: String,
    /// `registry.example/app@sha256:<64 digits>`, or `sha256:<64 digits>` of an image that was never pulled.
    #[serde(rename = "imageID")]
    image: String,
}

impl Spec {
    /// Every container, init and ephemeral ones among them.
    pub(in crate::agent) fn all(&self) -> impl Iterator<Item = &Declared> {
        [&self.init_containers, &self.containers, &self.ephemeral_containers].into_iter().flatten().flatten()
    }
}

impl Status {
    /// Every container that has a status, init and ephemeral ones among them.
    pub(in crate::agent) fn all(&self) -> impl Iterator<Item = &Stated> {
        [&self.init_container_statuses, &self.container_statuses, &self.ephemeral_container_statuses]
            .into_iter()
            .flatten()
            .flatten()
    }
}

impl Declared {
    /// What the container will run, if it is asked for by digest.
    pub(in crate::agent) fn digest(&self) -> Option<Digest> {
        self.image.rsplit_once("@sha256:")?.1.parse().ok()
    }
}

impl Stated {
    /// The id that its cgroup has.
    pub(in crate::agent) fn id(&self) -> &str {
        self.container.split_once("://").map_or("", |(_, id)| id)
    }

    /// What it runs: nothing before the image is there. CRI-O may state the digits alone.
    pub(in crate::agent) fn digest(&self) -> Option<Digest> {
        self.image.rsplit_once("sha256:").map_or(self.image.as_str(), |(_, digits)| digits).parse().ok()
    }
}

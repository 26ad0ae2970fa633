//! What the agent reads of a container that the runtime has.

use std::collections::{BTreeMap, BTreeSet};

use sealane_sidecar_api::cri;
use sealane_types::Digest;

/// The kubelet's labels on each container that it makes (pkg/kubelet/types/labels.go); no pod can set others.
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_UID: &str = "io.kubernetes.pod.uid";

/// Names of images in the runtime, with the digests of the manifests under which each was pulled: a list of platforms has
/// another one than the list's entry.
pub(in crate::agent) type ImageDigests = BTreeMap<String, BTreeSet<Digest>>;

/// A container of a pod, whether it is to run, runs or has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::agent) struct PodContainer {
    /// As in its cgroup.
    pub(in crate::agent) id: String,
    pub(in crate::agent) namespace: String,
    pub(in crate::agent) pod: String,
    pub(in crate::agent) name: String,
    pub(in crate::agent) running: bool,
    /// The runtime's name for its image.
    pub(in crate::agent) image: String,
}

impl PodContainer {
    /// `container`, if it is of the pod with `uid`.
    pub(super) fn new(container: cri::Container, uid: &str) -> Option<Self> {
        let running = container.state() == cri::ContainerState::ContainerRunning;
        let cri::Container { id, metadata, labels, image_ref: image, .. } = container;
        let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
        let name = metadata.unwrap_or_default().name;
        let (namespace, pod) = (label(POD_NAMESPACE), label(POD_NAME));
        (label(POD_UID) == uid).then_some(Self { id, namespace, pod, name, running, image })
    }
}

/// The filter for containers of the pod with `uid`.
pub(super) fn of_pod(uid: &str) -> cri::ContainerFilter {
    cri::ContainerFilter { label_selector: [(POD_UID.to_owned(), uid.to_owned())].into() }
}

/// Whether a name of an image says what is in it: `sha256:<64 digits>`, the digits alone, or `app@sha256:<64 digits>`.
pub(super) fn is_content(name: &str) -> bool {
    let digits = name.rsplit_once("sha256:").map_or(name, |(_, digits)| digits);
    digits.parse::<Digest>().is_ok()
}

/// Digests of an image by the names under which it was pulled. One that was built or loaded on the node has none.
pub(super) fn digests(image: Option<cri::Image>) -> BTreeSet<Digest> {
    let names = image.unwrap_or_default().repo_digests;
    names.iter().filter_map(|name| name.rsplit_once("@sha256:")?.1.parse().ok()).collect()
}

//! From a process's container to the pod that evidence is for, and what of it is stated. Pure: what the kernel, the kubelet
//! and the container runtime said in, a verdict out.

use std::collections::{BTreeMap, BTreeSet};

use sealane_attestation::StatedWorkload;
use sealane_types::{Digest, PodIdentity};

use super::cgroup::Container;
use super::kubelet::pod::Pod;
use super::refusal::Refusal;
use super::runtime::container::PodContainer;

/// The container that the operator injects.
const SIDECAR: &str = "sealane";

/// Whom evidence is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) pod: PodIdentity,
    pub(super) workload: StatedWorkload,
}

/// Who the process in `caller` is. Its container has to be the sidecar's, from one of the images `sidecars`, and the pod's
/// `containers` have to be those that it asks for, by digest.
///
/// # Errors
/// [`Refusal`] for everybody else, and as long as kubelet and runtime do not know enough.
pub(super) fn identify(
    caller: &Container,
    pods: &[Pod],
    containers: &[PodContainer],
    sidecars: &BTreeSet<Digest>,
) -> Result<Identity, Refusal> {
    let pod = pods.iter().find(|pod| pod.metadata.uid == caller.pod_uid).ok_or(Refusal::UnknownPod)?;
    let asking = containers.iter().find(|container| container.running && container.id == caller.id);
    let asking = asking.ok_or(Refusal::UnknownContainer)?;
    if asking.name != SIDECAR {
        return Err(Refusal::OtherContainer(asking.name.clone()));
    }
    let names = (&pod.metadata.namespace, &pod.metadata.name, &pod.metadata.uid);
    if (&asking.namespace, &asking.pod) != (names.0, names.1) {
        return Err(Refusal::OtherNames);
    }
    let images = declared(pod)?;
    for container in containers {
        let image = images.get(&container.name);
        let image = *image.ok_or_else(|| Refusal::UndeclaredContainer(container.name.clone()))?;
        if !container.digests.contains(&image) {
            return Err(Refusal::OtherImage { container: container.name.clone(), image });
        }
    }
    if let Some(image) = images.get(SIDECAR).filter(|image| !sidecars.contains(image)) {
        return Err(Refusal::OtherSidecar(*image));
    }
    let identity = PodIdentity::new(names.0, names.1, names.2).map_err(|_| Refusal::Names)?;
    let workload = StatedWorkload::new(pod.spec.service_account_name.clone(), images)?;
    Ok(Identity { pod: identity, workload })
}

/// The image of every container that the pod asks for, whether it runs, ended or is still to come.
fn declared(pod: &Pod) -> Result<BTreeMap<String, Digest>, Refusal> {
    let images = pod.spec.all().map(|declared| {
        let image = declared.digest().ok_or_else(|| Refusal::ImageByTag(declared.name.clone()))?;
        Ok((declared.name.clone(), image))
    });
    images.collect()
}

#[cfg(test)]
mod tests;

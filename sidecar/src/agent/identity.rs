//! From a process's container to the pod that evidence is for, and what of it is stated. Pure: what the kernel, the kubelet
//! and the container runtime said in, a verdict out.

use std::collections::{BTreeMap, BTreeSet};

use sealane_attestation::StatedWorkload;
use sealane_types::{Digest, PodIdentity};

use super::cgroup::Container;
use super::kubelet::pod::Pod;
use super::refusal::Refusal;
use super::runtime::container::{ImageDigests, PodContainer};

/// The container that the operator injects.
const SIDECAR: &str = "sealane";

/// Whom evidence is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) pod: PodIdentity,
    pub(super) workload: StatedWorkload,
}

/// What a pod's spec says of a sidecar that asks: as good as its word as long as the runtime has not confirmed the images.
#[derive(Debug)]
pub(super) struct Claim {
    pod: PodIdentity,
    service_account: String,
    images: BTreeMap<String, Digest>,
}

impl Claim {
    /// Of the process in `caller`, whose pod has `containers`. It has to be in the sidecar's, which the pod asks for by a
    /// digest among `sidecars`, as it asks for all others by digest.
    ///
    /// # Errors
    /// [`Refusal`] for everybody else, and as long as kubelet and runtime do not know enough.
    pub(super) fn of(
        caller: &Container,
        pods: &[Pod],
        containers: &[PodContainer],
        sidecars: &BTreeSet<Digest>,
    ) -> Result<Self, Refusal> {
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
        let undeclared = || Refusal::UndeclaredContainer(SIDECAR.to_owned());
        let sidecar = images.get(SIDECAR).ok_or_else(undeclared)?;
        if !sidecars.contains(sidecar) {
            return Err(Refusal::OtherSidecar(*sidecar));
        }
        let identity = PodIdentity::new(names.0, names.1, names.2).map_err(|_| Refusal::Names)?;
        Ok(Self { pod: identity, service_account: pod.spec.service_account_name.clone(), images })
    }

    /// The claim is true: each of the pod's `containers` is one that the pod asks for, and its image among `known` has the
    /// digest by which it does.
    ///
    /// # Errors
    /// [`Refusal`] where that is not so.
    pub(super) fn confirmed(
        self,
        containers: &[PodContainer],
        known: &ImageDigests,
    ) -> Result<Identity, Refusal> {
        for container in containers {
            let name = || container.name.clone();
            let image = self.images.get(&container.name);
            let image = *image.ok_or_else(|| Refusal::UndeclaredContainer(name()))?;
            match known.get(&container.image) {
                Some(digests) if digests.contains(&image) => {}
                Some(digests) if !digests.is_empty() => {
                    return Err(Refusal::OtherImage { container: name(), image });
                }
                _ => return Err(Refusal::UnknownImage(name())),
            }
        }
        Ok(Identity { pod: self.pod, workload: StatedWorkload::new(self.service_account, self.images)? })
    }
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

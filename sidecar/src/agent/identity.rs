//! From a process's container to the pod that evidence is for, and what of it is stated. Pure: what the kernel and the
//! kubelet said in, a verdict out.

use std::collections::{BTreeMap, BTreeSet};

use sealane_attestation::StatedWorkload;
use sealane_types::{Digest, PodIdentity};

use super::cgroup::Container;
use super::kubelet::pod::Pod;
use super::refusal::Refusal;

/// The container that the operator injects.
const SIDECAR: &str = "sealane";

/// Whom evidence is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) pod: PodIdentity,
    pub(super) workload: StatedWorkload,
}

/// Who the process in `caller` is, when it asks through the socket of the pod with uid `socket`. Its container has to be
/// the sidecar's, from one of the images `sidecars`.
///
/// # Errors
/// [`Refusal`] for everybody else, and as long as the kubelet does not know enough.
pub(super) fn identify(
    caller: &Container,
    socket: &str,
    pods: &[Pod],
    sidecars: &BTreeSet<Digest>,
) -> Result<Identity, Refusal> {
    if caller.pod_uid != socket {
        return Err(Refusal::OtherPod);
    }
    let pod = pods.iter().find(|pod| pod.metadata.uid == caller.pod_uid).ok_or(Refusal::UnknownPod)?;
    let container = pod.status.all().find(|stated| stated.id() == caller.id);
    let container = container.ok_or(Refusal::UnknownContainer)?;
    if container.name != SIDECAR {
        return Err(Refusal::OtherContainer(container.name.clone()));
    }
    let image = container.digest().ok_or_else(|| Refusal::UnknownImage(container.name.clone()))?;
    if !sidecars.contains(&image) {
        return Err(Refusal::OtherImage(image));
    }
    let names = (&pod.metadata.namespace, &pod.metadata.name, &pod.metadata.uid);
    let identity = PodIdentity::new(names.0, names.1, names.2).map_err(|_| Refusal::Names)?;
    Ok(Identity { pod: identity, workload: workload(pod)? })
}

/// Every container that the pod asks for counts, whether it runs, ended or is still to come.
fn workload(pod: &Pod) -> Result<StatedWorkload, Refusal> {
    let running: BTreeMap<&str, Digest> =
        pod.status.all().filter_map(|stated| Some((stated.name.as_str(), stated.digest()?))).collect();
    let mut images = BTreeMap::new();
    for declared in pod.spec.all() {
        let image = running.get(declared.name.as_str()).copied().or_else(|| declared.digest());
        let image = image.ok_or_else(|| Refusal::UnknownImage(declared.name.clone()))?;
        images.insert(declared.name.clone(), image);
    }
    Ok(StatedWorkload::new(pod.spec.service_account_name.clone(), images)?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const UID: &str = "6f1c8c0e-9d5e-4a51-8d6f-2f4f6e0c8a11";

    fn id(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn stated(name: &str, container: char, image: char) -> Value {
        json!({
            "name": name, "containerID": format!("containerd://{}", id(container)),
            "imageID": format!("registry.example/{name}@sha256:{}", id(image)),
        })
    }

    /// A pod whose sidecar runs in container `1` from image `a`, and whose application in `2` from `b`.
    fn running() -> Value {
        json!({
            "metadata": {"namespace": "demo", "name": "embedder-0", "uid": UID},
            "spec": {
                "serviceAccountName": "embedder",
                "initContainers": [{"name": "sealane", "image": "registry.example/sealane:1"}],
                "containers": [{"name": "app", "image": "registry.example/app:1"}],
            },
            "status": {
                "initContainerStatuses": [stated("sealane", '1', 'a')],
                "containerStatuses": [stated("app", '2', 'b')],
            },
        })
    }

    fn asked(container: char, pod: Value) -> Result<Identity, Refusal> {
        asked_through(UID, container, pod)
    }

    fn asked_through(socket: &str, container: char, pod: Value) -> Result<Identity, Refusal> {
        let caller = Container { pod_uid: UID.to_owned(), id: id(container) };
        let pods = [serde_json::from_value(json!({})).unwrap(), serde_json::from_value(pod).unwrap()];
        identify(&caller, socket, &pods, &[id('a').parse().unwrap()].into())
    }

    #[test]
    fn the_sidecar_is_known_and_its_whole_pod_is_stated() {
        let identity = asked('1', running()).unwrap();
        assert_eq!(identity.pod.as_str(), format!("demo/embedder-0/{UID}"));
        assert_eq!(identity.workload.service_account(), "embedder");
        let images: BTreeMap<String, Digest> = [("app", 'b'), ("sealane", 'a')]
            .map(|(name, image)| (name.to_owned(), id(image).parse().unwrap()))
            .into();
        assert_eq!(identity.workload.images(), &images);
    }

    #[test]
    fn another_container_of_the_pod_is_refused() {
        let refused = asked('2', running()).unwrap_err();
        assert!(matches!(&refused, Refusal::OtherContainer(name) if name == "app"), "{refused}");
        // One that somebody adds for debugging is no sidecar either, whatever it runs.
        let mut debugged = running();
        debugged["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "x"}]);
        debugged["status"]["ephemeralContainerStatuses"] = json!([stated("debugger", '3', 'a')]);
        assert!(matches!(asked('3', debugged), Err(Refusal::OtherContainer(_))));
    }

    #[test]
    fn another_image_is_no_sidecar() {
        let mut other = running();
        other["status"]["initContainerStatuses"] = json!([stated("sealane", '1', 'c')]);
        let refused = asked('1', other).unwrap_err();
        assert!(matches!(refused, Refusal::OtherImage(_)), "{refused}");
        assert!(!refused.passes(), "asking again does not help");
    }

    #[test]
    fn another_pods_socket_serves_nobody() {
        let refused = asked_through("00000000-9d5e-4a51-8d6f-2f4f6e0c8a11", '1', running()).unwrap_err();
        assert!(matches!(refused, Refusal::OtherPod), "{refused}");
    }

    #[test]
    fn what_the_kubelet_does_not_say_yet_is_waited_for() {
        let gone = json!({"metadata": {"uid": "other"}});
        assert!(matches!(asked('1', gone), Err(Refusal::UnknownPod)));
        let refused = asked('4', running()).unwrap_err();
        assert!(matches!(refused, Refusal::UnknownContainer), "{refused}");
        let mut pulling = running();
        pulling["status"]["containerStatuses"] = json!([{"name": "app", "imageID": "", "containerID": ""}]);
        let refused = asked('1', pulling).unwrap_err();
        assert!(matches!(&refused, Refusal::UnknownImage(name) if name == "app"), "{refused}");
        assert!(refused.passes());
    }

    #[test]
    fn an_image_by_digest_is_known_before_it_runs() {
        let mut coming = running();
        coming["spec"]["containers"] =
            json!([{"name": "app", "image": format!("registry.example/app:1@sha256:{}", id('d'))}]);
        coming["status"]["containerStatuses"] = json!([]);
        let stated = asked('1', coming).unwrap().workload;
        assert_eq!(stated.images()["app"], id('d').parse().unwrap());
    }

    #[test]
    fn no_container_is_left_out() {
        let mut more = running();
        more["spec"]["initContainers"].as_array_mut().unwrap().push(json!({"name": "prepare", "image": "x"}));
        more["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "x"}]);
        let refused = |pod| asked('1', pod).unwrap_err();
        assert!(matches!(refused(more.clone()), Refusal::UnknownImage(_)));
        let statuses = json!([stated("sealane", '1', 'a'), stated("prepare", '5', 'e')]);
        more["status"]["initContainerStatuses"] = statuses;
        assert!(matches!(refused(more.clone()), Refusal::UnknownImage(name) if name == "debugger"));
        more["status"]["ephemeralContainerStatuses"] = json!([stated("debugger", '6', 'f')]);
        assert_eq!(asked('1', more).unwrap().workload.images().len(), 4);
    }

    #[test]
    fn digests_are_read_as_every_runtime_writes_them() {
        for image in [
            format!("sha256:{}", id('a')),
            format!("docker-pullable://registry.example/x@sha256:{}", id('a')),
            id('a'),
        ] {
            let mut pod = running();
            pod["status"]["initContainerStatuses"][0]["imageID"] = json!(image);
            asked('1', pod).unwrap();
        }
        for image in ["sealane:1".to_owned(), format!("sha256:{}", "A".repeat(64)), "sha256:".to_owned()] {
            let mut pod = running();
            pod["status"]["initContainerStatuses"][0]["imageID"] = json!(image);
            assert!(matches!(asked('1', pod), Err(Refusal::UnknownImage(_))), "{image}");
        }
    }
}

//! A pod for the agent's tests, as its kubelet and its runtime know it: the sidecar runs in container `1` from image `a`,
//! and the application in `2` from `b`.

use serde_json::{Value, json};

use super::kubelet::pod::Pod;
use super::runtime::container::{ImageDigests, PodContainer};

pub(super) const UID: &str = "6f1c8c0e-9d5e-4a51-8d6f-2f4f6e0c8a11";
pub(super) const OTHER_UID: &str = "00000000-9d5e-4a51-8d6f-2f4f6e0c8a11";

/// Of a container, or the digest of an image.
pub(super) fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A container as a pod's spec asks for it.
pub(super) fn declared(name: &str, image: char) -> Value {
    json!({"name": name, "image": format!("registry.example/{name}:1@sha256:{}", id(image))})
}

pub(super) fn pod() -> Value {
    json!({
        "metadata": {"namespace": "demo", "name": "embedder-0", "uid": UID},
        "spec": {
            "serviceAccountName": "embedder",
            "initContainers": [declared("sealane", 'a')],
            "containers": [declared("app", 'b')],
        },
    })
}

pub(super) fn read(pod: Value) -> Pod {
    serde_json::from_value(pod).unwrap()
}

/// A container of the pod that runs, whose image has the digest `image`.
pub(super) fn running(name: &str, container: char, image: char) -> PodContainer {
    PodContainer {
        id: id(container),
        namespace: "demo".to_owned(),
        pod: "embedder-0".to_owned(),
        name: name.to_owned(),
        running: true,
        image: image_name(image),
    }
}

/// The runtime's name for the image with a digest: another digest, of its configuration.
pub(super) fn image_name(image: char) -> String {
    format!("sha256:{}", format!("{image}0").repeat(32))
}

/// What the runtime knows of images, each under a digest.
pub(super) fn images() -> ImageDigests {
    ('a'..='f').map(|image| (image_name(image), [id(image).parse().unwrap()].into())).collect()
}

pub(super) fn containers() -> Vec<PodContainer> {
    vec![running("sealane", '1', 'a'), running("app", '2', 'b')]
}

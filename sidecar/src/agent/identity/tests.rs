use serde_json::{Value, json};

use super::*;
use crate::agent::example::{UID, containers, declared, id, images, pod, read, running};

fn asked(container: char, pod: Value, containers: &[PodContainer]) -> Result<Identity, Refusal> {
    asked_with(container, pod, containers, &images())
}

fn asked_with(
    container: char,
    pod: Value,
    containers: &[PodContainer],
    images: &ImageDigests,
) -> Result<Identity, Refusal> {
    let caller = Container { pod_uid: UID.to_owned(), id: id(container) };
    let pods = [Pod::default(), read(pod)];
    let claim = Claim::of(&caller, &pods, containers, &[id('a').parse().unwrap()].into())?;
    claim.confirmed(containers, images)
}

#[test]
fn the_sidecar_is_known_and_its_whole_pod_is_stated() {
    let identity = asked('1', pod(), &containers()).unwrap();
    assert_eq!(identity.pod.as_str(), format!("demo/embedder-0/{UID}"));
    assert_eq!(identity.workload.service_account(), "embedder");
    let images: BTreeMap<String, Digest> = [("app", 'b'), ("sealane", 'a')]
        .map(|(name, image)| (name.to_owned(), id(image).parse().unwrap()))
        .into();
    assert_eq!(identity.workload.images(), &images);
}

#[test]
fn another_container_of_the_pod_is_refused() {
    let refused = asked('2', pod(), &containers()).unwrap_err();
    assert!(matches!(&refused, Refusal::OtherContainer(name) if name == "app"), "{refused}");
    // One that somebody adds for debugging is no sidecar either, whatever it runs.
    let mut debugged = pod();
    debugged["spec"]["ephemeralContainers"] = json!([declared("debugger", 'a')]);
    let with_debugger = [containers(), vec![running("debugger", '3', 'a')]].concat();
    assert!(matches!(asked('3', debugged, &with_debugger), Err(Refusal::OtherContainer(_))));
}

#[test]
fn another_image_is_no_sidecar() {
    let mut other = pod();
    other["spec"]["initContainers"] = json!([declared("sealane", 'c')]);
    let refused = asked('1', other, &[running("sealane", '1', 'c'), running("app", '2', 'b')]).unwrap_err();
    assert!(matches!(refused, Refusal::OtherSidecar(_)), "{refused}");
    assert!(!refused.passes(), "asking again does not help");
}

/// Whoever writes `pods/status` can have the kubelet list any image and any container.
#[test]
fn what_the_api_server_states_of_containers_is_not_believed() {
    let stated = |name: &str, container: char, image: char| {
        json!({"name": name, "containerID": format!("containerd://{}", id(container)),
            "imageID": format!("registry.example/{name}@sha256:{}", id(image))})
    };
    let mut claimed = pod();
    claimed["status"] = json!({
        "initContainerStatuses": [stated("sealane", '2', 'a')],
        "containerStatuses": [stated("app", '1', 'b')],
    });
    let refused = asked('2', claimed.clone(), &containers()).unwrap_err();
    assert!(matches!(refused, Refusal::OtherContainer(_)), "{refused}");
    let evil = [running("sealane", '1', 'a'), running("app", '2', 'e')];
    let refused = asked('1', claimed, &evil).unwrap_err();
    assert!(matches!(&refused, Refusal::OtherImage { container, .. } if container == "app"), "{refused}");
}

#[test]
fn an_image_by_tag_is_refused() {
    for image in ["registry.example/app:1".to_owned(), format!("app@sha256:{}", "A".repeat(64)), id('b')] {
        let mut tagged = pod();
        tagged["spec"]["containers"][0]["image"] = json!(image);
        let refused = asked('1', tagged, &containers()).unwrap_err();
        assert!(matches!(&refused, Refusal::ImageByTag(name) if name == "app"), "{refused}");
        assert!(!refused.passes());
    }
}

#[test]
fn what_runs_is_what_the_pod_asks_for() {
    let refused = |containers: &[PodContainer]| asked('1', pod(), containers).unwrap_err();
    let other = refused(&[running("sealane", '1', 'a'), running("app", '2', 'e')]);
    assert!(matches!(&other, Refusal::OtherImage { container, .. } if container == "app"), "{other}");
    // The sidecar's own too: its digest in the spec says nothing of what runs.
    let sidecar = refused(&[running("sealane", '1', 'e'), running("app", '2', 'b')]);
    assert!(matches!(&sidecar, Refusal::OtherImage { container, .. } if container == "sealane"), "{sidecar}");
    // What ran before shared the pod's volumes, as long as the runtime has a record of it.
    let ended = PodContainer { running: false, ..running("app", '3', 'e') };
    let before = refused(&[containers(), vec![ended]].concat());
    assert!(matches!(before, Refusal::OtherImage { .. }), "{before}");
    let unasked = refused(&[containers(), vec![running("miner", '4', 'b')]].concat());
    assert!(matches!(&unasked, Refusal::UndeclaredContainer(name) if name == "miner"), "{unasked}");
    assert!(unasked.passes(), "the kubelet may list it in a moment");
}

#[test]
fn an_image_counts_by_a_digest_of_those_that_the_runtime_knows() {
    let mut known = images();
    let app = containers()[1].image.clone();
    known.insert(app.clone(), [id('e').parse().unwrap(), id('b').parse().unwrap()].into());
    asked_with('1', pod(), &containers(), &known).unwrap();
    // One that was loaded on the node has none, and one that was taken away is not known.
    known.insert(app.clone(), BTreeSet::new());
    let refused = asked_with('1', pod(), &containers(), &known).unwrap_err();
    assert!(matches!(&refused, Refusal::UnknownImage(name) if name == "app"), "{refused}");
    known.remove(&app);
    let refused = asked_with('1', pod(), &containers(), &known).unwrap_err();
    assert!(matches!(refused, Refusal::UnknownImage(_)), "{refused}");
}

#[test]
fn what_is_not_known_yet_is_waited_for() {
    let gone = json!({"metadata": {"uid": "other"}});
    assert!(matches!(asked('1', gone, &containers()), Err(Refusal::UnknownPod)));
    let refused = asked('4', pod(), &containers()).unwrap_err();
    assert!(matches!(refused, Refusal::UnknownContainer), "{refused}");
    assert!(refused.passes());
    let ended = PodContainer { running: false, ..running("sealane", '1', 'a') };
    assert!(matches!(asked('1', pod(), &[ended]), Err(Refusal::UnknownContainer)));
}

#[test]
fn a_container_is_of_the_pod_that_the_kubelet_names() {
    let renamed = PodContainer { pod: "embedder-1".to_owned(), ..running("sealane", '1', 'a') };
    assert!(matches!(asked('1', pod(), &[renamed]), Err(Refusal::OtherNames)));
    let moved = PodContainer { namespace: "prod".to_owned(), ..running("sealane", '1', 'a') };
    assert!(matches!(asked('1', pod(), &[moved]), Err(Refusal::OtherNames)));
}

#[test]
fn containers_that_have_not_started_are_stated_too() {
    let stated = asked('1', pod(), &[running("sealane", '1', 'a')]).unwrap().workload;
    assert_eq!(stated.images()["app"], id('b').parse().unwrap());
}

#[test]
fn no_container_is_left_out() {
    let mut more = pod();
    more["spec"]["initContainers"].as_array_mut().unwrap().push(json!({"name": "prepare", "image": "x"}));
    let refused = asked('1', more.clone(), &containers()).unwrap_err();
    assert!(matches!(&refused, Refusal::ImageByTag(name) if name == "prepare"), "{refused}");
    more["spec"]["initContainers"][1] = declared("prepare", 'e');
    more["spec"]["ephemeralContainers"] = json!([declared("debugger", 'f')]);
    assert_eq!(asked('1', more, &containers()).unwrap().workload.images().len(), 4);
}

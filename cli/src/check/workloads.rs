//! Namespaces that opted in, and pods that should have a sidecar.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt as _;
use sealane_operator_api::{Peer, well_known};
use sealane_types::Provider;

use super::Line;
use super::gather::{Facts, opted_in};
use super::judge::{read, unreadable};
use super::names::{full_name, some};
use super::selector::selects;

/// How the text begins that the webhook gives to pods of a simulated installation, which ends with their Peer.
const SIMULATED_INITDATA: &str = "sealane simulated initdata\n";
/// The volume that the webhook gives to pods of a Peer with a key.
const KEY_VOLUME: &str = "sealane-key";

pub(super) fn judge(facts: &Facts) -> Vec<Line> {
    let what = "namespaces";
    let peers = match &facts.peers {
        Ok(peers) => peers,
        Err(error) => return vec![unreadable("Peers", error)],
    };
    vec![
        read(what, &facts.namespaces, |namespaces| namespaces_line(namespaces, peers)),
        read("sidecars", &facts.pods, |pods| sidecars_line(pods, peers)),
    ]
    .into_iter()
    .chain(facts.pods.as_ref().ok().and_then(|pods| early_line(pods, peers)))
    .collect()
}

/// Pods that asked for a sidecar before a Peer selected them: what injection takes from the Peer is not in them.
fn early_line(pods: &[Pod], peers: &[Peer]) -> Option<Line> {
    let early: Vec<String> = pods
        .iter()
        .filter(|pod| runs(pod) && has_sidecar(pod))
        .filter(|pod| peers.iter().any(|peer| selects_pod(peer, pod) && lacks(pod, peer)))
        .map(full_name)
        .collect();
    (!early.is_empty()).then(|| {
        Line::failed(
            "pods before their Peer",
            format!("made before their Peer, so that they lack what it gives them: {}", some(&early)),
            "make them again, for example with kubectl rollout restart",
        )
    })
}

/// Whether a pod lacks what it would have been given as a replica of `peer`.
fn lacks(pod: &Pod, peer: &Peer) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let initdata = annotations.and_then(|all| all.get(well_known::INITDATA_ANNOTATION));
    let of_another = initdata.is_some_and(|text| {
        text.starts_with(SIMULATED_INITDATA) && !text.ends_with(&format!("\npeer: {}\n", peer.name_any()))
    });
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    let has_key = volumes.into_iter().flatten().any(|volume| volume.name == KEY_VOLUME);
    let keyed = peer.spec.attestation.provider == Provider::Key;
    of_another || (keyed && peer.spec.attestation.key_secret_ref.is_some() && !has_key)
}

fn selects_pod(peer: &Peer, pod: &Pod) -> bool {
    let selector = peer.spec.selector.as_ref().filter(|_| peer.metadata.namespace == pod.metadata.namespace);
    selector.is_some_and(|selector| selects(selector, pod.metadata.labels.as_ref()))
}

fn namespaces_line(namespaces: &[Namespace], peers: &[Peer]) -> Line {
    let what = "namespaces";
    let opted_in: BTreeSet<String> = opted_in(namespaces).into_iter().collect();
    // A Peer outside of the cluster has no pods to inject.
    let selecting = peers.iter().filter(|peer| peer.spec.selector.is_some());
    let with_peers: BTreeSet<String> = selecting.filter_map(|peer| peer.metadata.namespace.clone()).collect();
    let closed: Vec<&String> = with_peers.difference(&opted_in).collect();
    if let Some(first) = closed.first() {
        return Line::failed(
            what,
            format!("Peers are declared where no pod is injected: {}", some(&closed)),
            format!(
                "kubectl label namespace {first} {}=enabled, then restart its pods",
                well_known::INJECTION_LABEL
            ),
        );
    }
    if opted_in.is_empty() {
        return Line::warning(
            what,
            "none has opted in",
            format!("kubectl label namespace NAMESPACE {}=enabled", well_known::INJECTION_LABEL),
        );
    }
    Line::good(what, format!("opted in: {}", some(&opted_in.iter().collect::<Vec<_>>())))
}

fn sidecars_line(pods: &[Pod], peers: &[Peer]) -> Line {
    let what = "sidecars";
    let wanted: Vec<&Pod> = pods.iter().filter(|pod| runs(pod) && wants_sidecar(pod, peers)).collect();
    let lacking: Vec<String> =
        wanted.iter().filter(|pod| !has_sidecar(pod)).map(|pod| full_name(pod)).collect();
    if lacking.is_empty() {
        return Line::good(what, format!("{} pods have one", wanted.len()));
    }
    Line::failed(
        what,
        format!("missing in {} of {} pods: {}", lacking.len(), wanted.len(), some(&lacking)),
        "they were created before their namespace opted in, or before the Peer: restart them, for example with kubectl rollout restart",
    )
}

pub(super) fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// As the webhook decides it: never against the pod's own label.
fn wants_sidecar(pod: &Pod, peers: &[Peer]) -> bool {
    let labels = pod.metadata.labels.as_ref();
    match labels.and_then(|labels| labels.get(well_known::INJECT_LABEL)).map(String::as_str) {
        Some("true") => true,
        Some("false") => false,
        _ => peers.iter().any(|peer| selects_pod(peer, pod)),
    }
}

pub(super) fn has_sidecar(pod: &Pod) -> bool {
    let containers = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
    containers.is_some_and(|containers| {
        containers.iter().any(|container| container.name == well_known::SIDECAR_CONTAINER)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::check::Outcome;

    fn peer() -> Peer {
        let spec = json!({"selector": {"matchLabels": {"app": "a"}}, "trustPolicyRef": {"name": "demo"}});
        let mut peer = Peer::new("a", serde_json::from_value(spec).unwrap());
        peer.metadata.namespace = Some("demo".into());
        peer
    }

    fn namespace(label: Option<&str>) -> Namespace {
        let labels = label.map(|label| json!({"sealane.dev/injection": label}));
        serde_json::from_value(json!({"metadata": {"name": "demo", "labels": labels}})).unwrap()
    }

    fn pod(labels: Value, sidecar: bool, phase: &str) -> Pod {
        let containers = if sidecar { json!([{"name": "sealane"}]) } else { json!([]) };
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "demo", "labels": labels},
            "spec": {"containers": [], "initContainers": containers},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn peers_in_a_namespace_that_did_not_opt_in_are_found() {
        let line = |label, peers: &[Peer]| namespaces_line(&[namespace(label)], peers).outcome;
        assert_eq!(line(None, &[peer()]), Outcome::Failed);
        assert_eq!(line(Some("disabled"), &[peer()]), Outcome::Failed);
        assert_eq!(line(Some("enabled"), &[peer()]), Outcome::Good);
        assert_eq!(line(None, &[]), Outcome::Warning);
        let external = json!({"addresses": ["203.0.113.7:14710"], "publicKey": "0a".repeat(32)});
        let spec = json!({"external": external, "trustPolicyRef": {"name": "demo"}});
        let external = Peer { spec: serde_json::from_value(spec).unwrap(), ..peer() };
        assert_eq!(line(None, &[external]), Outcome::Warning, "it has no pods to inject");
    }

    #[test]
    fn pods_without_a_sidecar_are_found() {
        let line = |pod: Pod| sidecars_line(&[pod], &[peer()]);
        assert_eq!(line(pod(json!({"app": "a"}), true, "Running")).outcome, Outcome::Good);
        let lacking = line(pod(json!({"app": "a"}), false, "Running"));
        assert_eq!(lacking.outcome, Outcome::Failed);
        assert!(lacking.detail.contains("demo/p"), "{lacking:?}");
        assert_eq!(line(pod(json!({"app": "a"}), false, "Succeeded")).outcome, Outcome::Good);
        assert_eq!(line(pod(json!({"app": "b"}), false, "Running")).outcome, Outcome::Good);
        let asks = json!({"app": "b", "sealane.dev/inject": "true"});
        assert_eq!(line(pod(asks, false, "Running")).outcome, Outcome::Failed);
        let declines = json!({"app": "a", "sealane.dev/inject": "false"});
        assert_eq!(line(pod(declines, false, "Running")).outcome, Outcome::Good);
    }

    #[test]
    fn pods_that_were_made_before_their_peer_are_found() {
        let with_initdata = |peer: &str| {
            let mut pod = pod(json!({"app": "a", "sealane.dev/inject": "true"}), true, "Running");
            let text = format!("{SIMULATED_INITDATA}namespace: demo\npeer: {peer}\n");
            pod.metadata.annotations = Some([(well_known::INITDATA_ANNOTATION.to_owned(), text)].into());
            pod
        };
        let line = early_line(&[with_initdata("")], &[peer()]).unwrap();
        assert!(line.outcome == Outcome::Failed && line.detail.contains("demo/p"), "{line:?}");
        assert!(early_line(&[with_initdata("other")], &[peer()]).is_some());
        assert_eq!(early_line(&[with_initdata("a")], &[peer()]), None);
        // An author's own initdata says nothing, and a pod that no Peer selects waits for one.
        assert_eq!(early_line(&[pod(json!({"app": "a"}), true, "Running")], &[peer()]), None);
        assert_eq!(early_line(&[with_initdata("")], &[]), None);
        let mut keyed = peer();
        keyed.spec.attestation =
            serde_json::from_value(json!({"provider": "Key", "keySecretRef": {"name": "k"}})).unwrap();
        assert!(early_line(&[with_initdata("a")], &[keyed]).is_some());
    }
}

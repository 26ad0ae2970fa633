//! A forward beside its neighbours. Pure.

use k8s_openapi::api::core::v1::{Container, Pod};
use sealane_operator_api::{Forward, TransferSession, TransferSessionSpec};
use sealane_types::ForwardPort;

use super::Invalid;
use crate::ports::{listened, shared};
use crate::spec::PodView;
use crate::webhook::neighbours::Neighbours;

mod socket;

/// Refuses a port that another session of the same Peer listens on. Returns warnings: what pods declare is
/// information and no promise, so nothing of it is a reason to refuse.
pub(in crate::webhook) fn check(
    name: &str,
    spec: &TransferSessionSpec,
    neighbours: &Neighbours,
) -> Result<Vec<String>, Invalid> {
    let (Some(forward), [to]) = (&spec.forward, spec.to.as_slice()) else { return Ok(Vec::new()) };
    let pods = |peer: &str| neighbours.pods.get(peer).map(Vec::as_slice).unwrap_or_default();
    let own = listened(forward, highest_ordinal(pods(&to.peer)));
    for (other, theirs) in beside(name, spec, neighbours) {
        let held = listened(theirs, highest_ordinal(pods(other.spec.to.first().map_or("", |to| &to.peer))));
        if let Some(port) = shared(&own, &held) {
            return Err(Invalid::PortTaken {
                port,
                peer: spec.from.peer.clone(),
                session: other.metadata.name.clone().unwrap_or_default(),
                free: free_port(forward, neighbours, name, spec),
            });
        }
    }
    let (listening, serving) = (pods(&spec.from.peer), pods(&to.peer));
    let warnings = [
        occupied(forward, &spec.from.peer, listening),
        nothing_there(forward, &to.peer, serving),
        no_ordinals(forward, &to.peer, serving),
        steps_on_reserved(forward, serving),
        not_all_seen(&spec.from.peer, neighbours),
        socket::warning(name, forward),
    ];
    Ok(warnings.into_iter().flatten().collect())
}

/// Other forwards that listen in the same pods.
fn beside<'a>(
    name: &'a str,
    spec: &'a TransferSessionSpec,
    neighbours: &'a Neighbours,
) -> impl Iterator<Item = (&'a TransferSession, &'a Forward)> {
    neighbours
        .sessions
        .iter()
        .filter(move |other| other.metadata.name.as_deref() != Some(name) && other.spec.from == spec.from)
        .filter_map(|other| Some((other, other.spec.forward.as_ref()?)))
}

/// The next port above the wanted one that no neighbour names, to have an example in the refusal.
fn free_port(
    forward: &Forward,
    neighbours: &Neighbours,
    name: &str,
    spec: &TransferSessionSpec,
) -> Option<u16> {
    let taken: Vec<i32> = beside(name, spec, neighbours).map(|(_, other)| other.listen).collect();
    let above = (forward.listen..=i32::from(u16::MAX)).filter(|port| !taken.contains(port));
    above.filter_map(|port| ForwardPort::new(u32::try_from(port).ok()?).ok()).map(ForwardPort::number).next()
}

fn highest_ordinal(pods: &[Pod]) -> Option<u32> {
    pods.iter().filter_map(PodView::new).filter(PodView::is_wanted).filter_map(|pod| pod.ordinal()).max()
}

/// TCP ports that a pod's containers say they listen on, the sidecar's own excepted.
fn declared(pods: &[Pod]) -> impl Iterator<Item = (&Container, i32)> {
    let containers = pods.iter().filter_map(|pod| pod.spec.as_ref()).flat_map(|spec| &spec.containers);
    containers.flat_map(|container| {
        let ports = container.ports.iter().flatten();
        let tcp = ports.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
        tcp.map(move |port| (container, port.container_port))
    })
}

fn not_all_seen(peer: &str, neighbours: &Neighbours) -> Option<String> {
    neighbours.partial.then(|| {
        format!(
            "spec.forward.listen: more forwards from Peer `{peer}` lead replica by replica than are looked at here; if one of them listens on the same port, condition Ready says PortConflict"
        )
    })
}

fn occupied(forward: &Forward, peer: &str, pods: &[Pod]) -> Option<String> {
    let (container, port) = declared(pods).find(|(_, port)| *port == forward.listen)?;
    Some(format!(
        "spec.forward.listen: container `{}` of Peer `{peer}` declares port {port} itself; if it listens there, the forward cannot (PortConflict)",
        container.name
    ))
}

fn nothing_there(forward: &Forward, peer: &str, pods: &[Pod]) -> Option<String> {
    let mut ports: Vec<i32> = declared(pods).map(|(_, port)| port).collect();
    ports.sort_unstable();
    ports.dedup();
    let known = !ports.is_empty() && !ports.contains(&forward.target);
    known.then(|| {
        let ports: Vec<String> = ports.iter().take(8).map(ToString::to_string).collect();
        format!(
            "spec.forward.target: no container of Peer `{peer}` declares port {} (they declare {}); connections are refused unless something listens there",
            forward.target,
            ports.join(", ")
        )
    })
}

fn no_ordinals(forward: &Forward, peer: &str, pods: &[Pod]) -> Option<String> {
    let pointless = forward.per_replica && !pods.is_empty() && highest_ordinal(pods).is_none();
    pointless.then(|| {
        format!(
            "spec.forward.perReplica: pods of Peer `{peer}` have no ordinal; only pods of a StatefulSet can be reached one by one"
        )
    })
}

fn steps_on_reserved(forward: &Forward, pods: &[Pod]) -> Option<String> {
    let ports = listened(forward, highest_ordinal(pods));
    let first = *ports.start();
    let error =
        ports.clone().find_map(|port| ForwardPort::new(port).err().map(|error| (port - first, error)))?;
    Some(format!("spec.forward.listen: the replica with ordinal {} is out of reach: {}", error.0, error.1))
}

#[cfg(test)]
mod tests;

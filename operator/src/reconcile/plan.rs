//! Step four, pure: what every attached sidecar is to be told.

mod configuration;
mod replicas;

use std::collections::{BTreeMap, BTreeSet};

use self::configuration::Remotes;
use super::choose::Choices;
use super::resources::{Planned, Resources};
use crate::desired::Desired;
use crate::spec::Valid;

/// Plans the desired state of each sidecar whose pod is known.
#[must_use]
pub fn plan(valid: &Valid, choices: &Choices) -> Resources<Planned> {
    let pods: BTreeSet<&str> = valid.snapshot.pods.iter().map(|pod| pod.uid.as_str()).collect();
    let dialable = replicas::by_peer(valid);
    let senders = replicas::senders_by_peer(valid, &dialable);
    let configurations = configuration::by_peer(valid, &Remotes { dialable, senders }, choices);
    let (mut desired, mut gone) = (BTreeMap::new(), Vec::new());
    for sidecar in &valid.snapshot.sidecars {
        let uid = sidecar.identity.uid();
        if pods.contains(uid) {
            let of_peer = valid.peer_of(uid).and_then(|peer| configurations.get(peer));
            desired.insert(uid.to_owned(), of_peer.cloned().unwrap_or(Desired::NoPeer));
        } else if sidecar.detached.is_some() {
            gone.push(uid.to_owned());
        }
        // Else its pod was alive at registration and the cache has not seen it yet: wait.
    }
    Resources::new(desired, gone)
}

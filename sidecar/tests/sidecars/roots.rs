//! Whom a sidecar starts its trust from is part of what its peers judge.

use sealane_sidecar::config::Anchors;
use sealane_sidecar::handoff::LaneFailure;
use sealane_simulated::host_data;
use sealane_types::{Reason, RootSource, Roots};
use serde_json::json;

use crate::client::sender;
use crate::support::{Plan, document, owner, roots, signed};
use crate::trust::refused_for;

/// An owner of the control plane's choice.
const ROGUE: u8 = 66;

/// What the control plane gives a sidecar that is to follow its own policies later: roots of its own, which it had sign the
/// genuine document beside its owners, so that it is followed meanwhile.
fn misled(plan: Plan) -> Plan {
    let roots = Roots { threshold: 1, keys: vec![owner(ROGUE).public_key()], ..roots() };
    let anchors = Anchors { roots: vec![roots], source: RootSource::Injected };
    Plan { anchors, chain: signed(&document(1), &[1, 2, ROGUE]), ..plan }
}

#[tokio::test]
async fn nothing_is_sent_to_a_peer_whose_roots_the_control_plane_chose() {
    let receiver = misled(Plan::receiver()).start();
    assert_eq!(receiver.node.policy_epoch(), Some(1), "it follows the genuine document");
    let from = Plan::sender(&[receiver.address]).start();
    let error = refused_for(&from, Reason::RootsDiffer).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
}

#[tokio::test]
async fn nothing_is_taken_from_a_peer_whose_roots_the_control_plane_chose() {
    let receiver = Plan::receiver().start();
    let from = misled(Plan::sender(&[receiver.address])).start();
    let error = refused_for(&from, Reason::RootsDiffer).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
}

#[tokio::test]
async fn roots_from_a_weaker_source_than_the_owners_demand_are_refused() {
    let mut strict = document(1);
    strict["floors"] = json!({"rootSource": "File"});
    let chain = signed(&strict, &[1, 2]);
    let injected = Anchors { roots: vec![roots()], source: RootSource::Injected };
    let receiver = Plan { anchors: injected, chain: chain.clone(), ..Plan::receiver() }.start();
    let from = Plan { chain: chain.clone(), ..Plan::sender(&[receiver.address]) }.start();
    let error = refused_for(&from, Reason::RootSourceTooWeak).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
    let receiver = Plan { chain: chain.clone(), ..Plan::receiver() }.start();
    let _lane = sender(&Plan { chain, ..Plan::sender(&[receiver.address]) }.start().lanes).await;
}

/// Initdata of a pod of `peer` with the owners' roots in it.
fn initdata_with_roots(peer: &str) -> Vec<u8> {
    let roots = serde_json::to_string(&[roots()]).unwrap();
    format!("algorithm = \"sha256\"\n[data]\npeer = \"{peer}\"\n\"sealane-roots.json\" = '''{roots}'''\n")
        .into_bytes()
}

#[tokio::test]
async fn roots_count_that_the_guest_was_started_with() {
    let mut strict = document(1);
    strict["floors"] = json!({"rootSource": "Initdata"});
    for peer in ["embedder", "ranker"] {
        let measured = host_data(Some(&initdata_with_roots(peer)));
        strict["peers"][peer]["entries"][0]["hostData"] = json!([measured.to_string()]);
    }
    let started = |plan: Plan| {
        let anchors = Anchors { roots: vec![roots()], source: RootSource::Initdata };
        let initdata = Some(initdata_with_roots(plan.peer));
        Plan { anchors, initdata, chain: signed(&strict, &[1, 2]), ..plan }.start()
    };
    let receiver = started(Plan::receiver());
    let from = started(Plan::sender(&[receiver.address]));
    let _lane = sender(&from.lanes).await;
}

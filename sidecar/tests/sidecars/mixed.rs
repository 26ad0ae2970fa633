//! Peers on different platforms under one policy: each judges the other in the terms of the other's platform.

use sealane_sidecar::handoff::{LaneFailure, Turn};
use sealane_simulated::{MEASUREMENT, nitro, tdx};
use sealane_types::{Reason, SimulatedForm};
use serde_json::{Value, json};

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::support::{Plan, Sidecar, document, initdata, installation, signed, within};
use crate::trust::refused_for;

const ZERO: [u8; 48] = [0; 48];

/// What the guest of `peer` must show on a platform of this form.
fn entry(form: SimulatedForm, peer: &str) -> Value {
    let (root, initdata) = (installation().fingerprint(form).unwrap().to_string(), initdata(peer));
    let zero = sealane_types::Measurement::new(ZERO).to_string();
    match form {
        SimulatedForm::SevSnp => document(1)["peers"][peer]["entries"][0].clone(),
        SimulatedForm::Tdx => json!({
            "kind": "Simulated", "form": "Tdx", "root": root,
            "measurements": [{
                "mrtd": MEASUREMENT.to_string(), "rtmr0": tdx::rtmr(0).to_string(),
                "rtmr1": tdx::rtmr(1).to_string(), "rtmr2": tdx::rtmr(2).to_string(), "rtmr3": zero,
            }],
            "mrConfigId": [tdx::mr_config_id(Some(&initdata)).to_string()],
            "mrOwner": [zero], "mrOwnerConfig": [zero],
            "tcbStatuses": ["UpToDate"],
        }),
        SimulatedForm::Nitro => {
            let [image, kernel, application] = nitro::measurements().map(|pcr| pcr.to_string());
            let role = nitro::register(&initdata).to_string();
            json!({
                "kind": "Simulated", "form": "Nitro", "root": root,
                "measurements": [{"pcr0": image, "pcr1": kernel, "pcr2": application, "pcr3": role}],
            })
        }
    }
}

/// Embedders and rankers on platforms of these forms.
fn fleet(embedder: SimulatedForm, ranker: SimulatedForm) -> Value {
    let mut document = document(1);
    document["peers"]["embedder"]["entries"] = json!([entry(embedder, "embedder")]);
    document["peers"]["ranker"]["entries"] = json!([entry(ranker, "ranker")]);
    document
}

fn start(document: &Value, embedder: SimulatedForm, ranker: SimulatedForm) -> (Sidecar, Sidecar) {
    let chain = signed(document, &[1, 2]);
    let to = Plan { chain: chain.clone(), form: ranker, ..Plan::receiver() }.start();
    let from = Plan { chain, form: embedder, ..Plan::sender(&[to.address]) }.start();
    (from, to)
}

#[tokio::test]
async fn every_platform_streams_to_every_other_under_one_policy() {
    for embedder in SimulatedForm::ALL {
        for ranker in SimulatedForm::ALL {
            let (from, to) = start(&fleet(*embedder, *ranker), *embedder, *ranker);
            let (lane, events) = sender(&from.lanes).await;
            passing_on(events);
            let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
            lane.offer(parcel(0, 100_000)).await.unwrap();
            assert_eq!(receiver.next_taken().await, 0, "{embedder} to {ranker}");
            within("the end", lane.close()).await.unwrap();
            assert_eq!(receiver.turn().await, Turn::End);
        }
    }
}

#[tokio::test]
async fn a_guest_on_another_platform_than_its_entry_s_is_refused() {
    let policy = fleet(SimulatedForm::Tdx, SimulatedForm::Nitro);
    let (from, _to) = start(&policy, SimulatedForm::SevSnp, SimulatedForm::Nitro);
    // Its root is not that of the entry, which is what comes first.
    let error = refused_for(&from, Reason::RootMismatch).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
}

#[tokio::test]
async fn each_platform_pins_which_workload_it_runs() {
    for (form, reason) in [
        (SimulatedForm::SevSnp, Reason::HostDataMismatch),
        (SimulatedForm::Tdx, Reason::HostDataMismatch),
        (SimulatedForm::Nitro, Reason::MeasurementMismatch),
    ] {
        let chain = signed(&fleet(form, form), &[1, 2]);
        let to = Plan { chain: chain.clone(), form, ..Plan::receiver() }.start();
        let from = Plan { chain, form, proves: "ranker", ..Plan::sender(&[to.address]) }.start();
        let error = refused_for(&from, reason).await;
        assert_eq!(error.failure, LaneFailure::Refused, "{error}");
    }
}

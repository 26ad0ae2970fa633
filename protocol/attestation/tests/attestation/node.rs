//! Evidence of a node, on which a node agent states the workload.

use sealane_attestation::{Degradation, EvidenceMessage, Rejection, StatedWorkload, rejudge};
use sealane_policy::{Entry, Floors, VerifiedPolicy, Workload};
use sealane_types::{Assurance, Digest, Reason};

use crate::support::{MATERIAL, Prover, entry, honest, judged, now, policy, policy_of_epoch};

fn image(number: u8) -> String {
    format!("r.example/app@sha256:{}", Digest::new([number; 32]))
}

/// A policy that wants pods of this service account which run these images.
fn wanting(epoch: u64, service_account: &str, images: &[u8]) -> VerifiedPolicy {
    let images = images.iter().map(|number| image(*number)).collect();
    let workload = Workload { service_account: service_account.to_owned(), images };
    let entry = Entry { workload: Some(workload), ..entry(&MATERIAL) };
    policy_of_epoch(epoch, vec![entry], Floors { complete: true, ..Floors::default() })
}

fn stated(service_account: &str, images: &[(&str, u8)]) -> StatedWorkload {
    let images = images.iter().map(|(name, image)| ((*name).to_owned(), Digest::new([*image; 32])));
    StatedWorkload::new(service_account.to_owned(), images.collect()).unwrap()
}

fn embedder() -> StatedWorkload {
    stated("embedder", &[("app", 1), ("sealane", 2)])
}

/// What the agent of an honest node has quoted for this workload.
fn sent(policy: &VerifiedPolicy, workload: StatedWorkload) -> EvidenceMessage {
    Prover { workload: Some(workload), ..Prover::honest(policy) }.send()
}

#[test]
fn the_pinned_workload_is_verified() {
    let policy = wanting(1, "embedder", &[1, 2]);
    let verified = judged(&sent(&policy, embedder()), &policy).unwrap();
    assert_eq!(verified.workload(), Some(&embedder()));
    assert_eq!((verified.degradations(), verified.assurance()), (&[][..], Assurance::Simulated));
}

#[test]
fn another_workload_is_refused() {
    let policy = wanting(1, "embedder", &[1, 2]);
    let refused = |workload| judged(&sent(&policy, workload), &policy).unwrap_err();
    assert_eq!(refused(stated("ranker", &[("app", 1), ("sealane", 2)])), Rejection::ServiceAccount);
    assert_eq!(refused(stated("embedder", &[("app", 3), ("sealane", 2)])), Rejection::Image);
    // The sidecar's own image counts like any other, and so does one container more.
    assert_eq!(refused(stated("embedder", &[("app", 1), ("sealane", 3)])), Rejection::Image);
    assert_eq!(refused(stated("embedder", &[("app", 1), ("debug", 9), ("sealane", 2)])), Rejection::Image);
}

#[test]
fn the_statement_is_the_one_that_the_quote_covers() {
    let policy = wanting(1, "embedder", &[1, 2]);
    let other = sent(&policy, stated("embedder", &[("app", 9), ("sealane", 2)]));
    let swapped = EvidenceMessage { workload: Some(embedder()), ..other.clone() };
    let dropped = EvidenceMessage { workload: None, ..other };
    // Evidence of a pod gains no statement either: the two kinds of REPORT_DATA never meet.
    let added = EvidenceMessage { workload: Some(embedder()), ..Prover::honest(&policy).send() };
    for message in [swapped, dropped, added] {
        let outcome = judged(&message, &policy);
        assert!(matches!(outcome, Err(Rejection::NotBound(_))), "{outcome:?}");
    }
}

#[test]
fn without_a_statement_the_node_alone_is_proved() {
    let policy = wanting(1, "embedder", &[1, 2]);
    let refused = judged(&Prover::honest(&policy).send(), &policy).unwrap_err();
    assert_eq!(refused.reason(), Reason::WorkloadUnverified);
    let workload = Workload { service_account: "embedder".to_owned(), images: [image(1)].into() };
    let tolerant = Entry { workload: Some(workload), unverified_workload: true, ..entry(&MATERIAL) };
    let tolerant = self::policy(vec![tolerant], Floors::default());
    let verified = judged(&Prover::honest(&tolerant).send(), &tolerant).unwrap();
    assert_eq!(verified.degradations(), [Degradation::WorkloadUnverified]);
    // An entry that asks for no workload takes a statement or leaves it.
    let indifferent = honest();
    assert!(judged(&sent(&indifferent, embedder()), &indifferent).is_ok());
}

#[test]
fn a_new_epoch_judges_the_statement_that_was_verified() {
    let first = wanting(1, "embedder", &[1, 2]);
    let held = judged(&sent(&first, embedder()), &first).unwrap();
    let kept = rejudge(&held, &wanting(2, "embedder", &[1, 2, 3]), now()).unwrap();
    assert_eq!(kept.workload(), Some(&embedder()));
    let without = wanting(3, "embedder", &[2, 3]);
    assert_eq!(rejudge(&held, &without, now()), Err(Rejection::Image));
}

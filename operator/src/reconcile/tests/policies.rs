use std::sync::Arc;
use std::time::Duration;

use sealane_operator_api::TrustPolicyStatus;
use sealane_types::UnixSeconds;

use super::{condition, message};
use crate::reconcile::fixture::{EXPIRES, NOW, document, policy, rereport, run, snapshot};
use crate::spec::Snapshot;

fn demo(snapshot: Snapshot) -> (TrustPolicyStatus, Option<Duration>) {
    let (_, _, statuses) = run(snapshot);
    (statuses.policies.into_iter().next().unwrap().1, statuses.again_in)
}

#[test]
fn a_verified_policy_shows_what_was_signed_and_by_whom() {
    let mut lasting = snapshot();
    for sidecar in &mut lasting.sidecars {
        rereport(sidecar, |report| report.evidence.as_mut().unwrap().collateral_expires = 0);
    }
    let (status, again) = demo(lasting);
    assert_eq!(condition(&status.conditions, "Ready"), "True InForce");
    assert_eq!(condition(&status.conditions, "Verified"), "True Verified");
    assert_eq!(condition(&status.conditions, "Expiring"), "False InForce");
    assert_eq!((status.epoch, status.threshold, status.signers.len()), (Some(1), Some(1), 1));
    assert_eq!(status.digest.unwrap().len(), 64);
    assert_eq!(status.expires.unwrap().0.as_second() as u64, EXPIRES);
    assert_eq!((status.adopted, status.replicas), (Some(2), Some(2)));
    // It looks again a day before the end.
    assert_eq!(again, Some(Duration::from_secs(EXPIRES - 24 * 60 * 60 - NOW)));
}

#[test]
fn a_policy_says_how_many_replicas_act_by_it() {
    let mut snapshot = snapshot();
    snapshot.policies = vec![policy(&document(2, |_| ()))];
    rereport(&mut snapshot.sidecars[0], |report| report.policy.as_mut().unwrap().epoch = 2);
    let (status, _) = demo(snapshot);
    assert_eq!((status.adopted, status.replicas), (Some(1), Some(2)));
}

#[test]
fn the_last_day_is_announced_and_the_end_is_the_end() {
    let mut snapshot = snapshot();
    snapshot.now = UnixSeconds(EXPIRES - 3600);
    let (status, again) = demo(snapshot.clone());
    assert_eq!(condition(&status.conditions, "Ready"), "True InForce");
    assert_eq!(condition(&status.conditions, "Expiring"), "True PolicyExpiring");
    assert_eq!(again, Some(Duration::from_secs(3600)));
    snapshot.policies[0].status = Some(status);
    snapshot.now = UnixSeconds(EXPIRES);
    let (status, _) = demo(snapshot);
    assert_eq!(condition(&status.conditions, "Ready"), "False PolicyExpired");
    assert_eq!(condition(&status.conditions, "Expiring"), "True PolicyExpired");
    assert_eq!(status.epoch, Some(1), "what was in force stays visible");
}

#[test]
fn a_document_that_a_sidecar_would_refuse_is_refused_here_in_the_same_word() {
    let mut unsigned = snapshot();
    unsigned.policies[0].spec.signatures[0].signature = format!("{}==", "A".repeat(86));
    assert_eq!(condition(&demo(unsigned).0.conditions, "Verified"), "False PolicyUnderSigned");
    let mut later = snapshot();
    later.policies =
        vec![policy(&document(1, |document| document["notBefore"] = "2026-11-22T00:00:00Z".into()))];
    let (status, again) = demo(later);
    assert_eq!(condition(&status.conditions, "Ready"), "False PolicyNotYetValid");
    assert!(again.is_some());
    let mut garbled = snapshot();
    garbled.policies[0].spec.roots.keys[0] = "XY".to_owned();
    let (status, _) = demo(garbled);
    assert_eq!(condition(&status.conditions, "Ready"), "False SpecInvalid");
    assert!(message(&status.conditions, "Ready").starts_with("spec.roots.keys[0]"));
}

#[test]
fn an_older_epoch_is_a_rollback_whoever_remembers() {
    // The status remembers across a restart of the operator.
    let mut restarted = snapshot();
    restarted.policies[0].status = Some(TrustPolicyStatus { epoch: Some(2), ..Default::default() });
    assert_eq!(condition(&demo(restarted).0.conditions, "Verified"), "False PolicyRolledBack");
    // A running operator remembers the document itself, and so notices a fork too.
    let mut running = snapshot();
    running.policies = vec![policy(&document(2, |_| ()))];
    let (valid, _, _) = run(running);
    let held = Arc::clone(valid.policies["demo"].verdict.as_ref().unwrap());
    let mut back = snapshot();
    back.held.insert("policy-uid".to_owned(), held);
    assert_eq!(condition(&demo(back.clone()).0.conditions, "Verified"), "False PolicyRolledBack");
    back.policies = vec![policy(&document(2, |document| document["sessions"] = serde_json::json!([])))];
    assert_eq!(condition(&demo(back).0.conditions, "Verified"), "False PolicyConflict");
}

/// Sidecars hold what was applied before, and refuse what is applied now with `word`; without one they have not seen it.
fn holding(snapshot: &mut Snapshot, digest: &str, word: &str) {
    for sidecar in &mut snapshot.sidecars {
        rereport(sidecar, |report| {
            let policy = report.policy.as_mut().unwrap();
            (policy.digest, policy.reason) = (digest.to_owned(), word.to_owned());
            policy.message = "0 of 1 owners signed".to_owned();
        });
    }
}

/// What Peer `embedder` and the session say of being ready, and the Peer of its policy.
fn told(snapshot: Snapshot) -> [String; 3] {
    let (_, _, statuses) = run(snapshot);
    let (peer, session) = (&statuses.peers[0].1.conditions, &statuses.sessions[0].1.conditions);
    [condition(peer, "Ready"), condition(peer, "PolicyVerified"), condition(session, "Ready")]
}

#[test]
fn a_policy_that_sidecars_refuse_is_not_verified_by_them_although_they_hold_another() {
    let applied = run(snapshot()).0.policies["demo"].verdict.as_ref().unwrap().digest().to_string();
    let with = |digest: &str, word: &str| {
        let mut snapshot = snapshot();
        holding(&mut snapshot, digest, word);
        snapshot
    };
    let well = ["True AllReady", "True AllVerified", "True Connected"];
    assert_eq!(told(with(&applied, "")), well);
    assert_eq!(told(with("other", "")), well, "it is on its way");
    for word in ["PolicyUnderSigned", "PolicyRolledBack", "PolicyMismatch", "PolicyRootsMissing"] {
        let refused = format!("False {word}");
        let told = told(with("other", word));
        assert_eq!(told[..2], [refused.clone(), refused], "{word}");
        assert_eq!(told[2], "True Connected", "what is applied permits it too");
    }
    let statuses = run(with("other", "PolicyUnderSigned")).2;
    let words = message(&statuses.peers[0].1.conditions, "PolicyVerified");
    for part in ["`embedder-1` refuses the applied document", "epoch 1", "make the pod again"] {
        assert!(words.contains(part), "{words}");
    }
    // A document that nobody accepts changes nothing, and the TrustPolicy itself says why.
    let mut unsigned = with("other", "PolicyUnderSigned");
    unsigned.policies[0].spec.signatures[0].signature = format!("{}==", "A".repeat(86));
    assert_eq!(told(unsigned), well);
}

#[test]
fn a_session_that_the_applied_policy_drops_is_not_ready_while_it_still_flows() {
    let mut replaced = snapshot();
    replaced.policies = vec![policy(&document(1, |document| document["sessions"] = serde_json::json!([])))];
    holding(&mut replaced, "other", "PolicyUnderSigned");
    assert_eq!(told(replaced.clone())[2], "False SessionNotInPolicy");
    let (_, _, statuses) = run(replaced);
    let session = &statuses.sessions[0].1;
    assert_eq!(session.phase, Some(sealane_operator_api::Phase::Active), "it does flow");
    let words = message(&session.conditions, "Ready");
    assert!(words.contains("1 connections stay open"), "{words}");
}

#[test]
fn a_policy_that_is_gone_is_missed() {
    let mut deleted = snapshot();
    deleted.policies.clear();
    assert_eq!(told(deleted), ["False PolicyMissing"; 3]);
    // As is one that was never there: a Peer now refers to another.
    let mut other = snapshot();
    for peer in &mut other.peers {
        peer.spec.trust_policy_ref.name = "other".to_owned();
    }
    assert_eq!(told(other), ["False PolicyMissing"; 3]);
}

#[test]
fn what_has_to_be_mended_comes_before_what_is_simulated() {
    let mut unsigned = snapshot();
    holding(&mut unsigned, "other", "PolicyUnderSigned");
    unsigned.policies[0].spec.signatures[0].signature = format!("{}==", "A".repeat(86));
    rereport(&mut unsigned.sidecars[0], |report| {
        report.evidence.as_mut().unwrap().platform = "Simulated".to_owned();
    });
    let (_, _, statuses) = run(unsigned);
    assert_eq!(condition(&statuses.peers[0].1.conditions, "Degraded"), "True PolicyUnderSigned");
}

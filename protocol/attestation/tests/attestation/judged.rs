//! The whole way: relayed, replayed, reflected and insufficient evidence, and policies that change.

use sealane_attestation::binding::{Leaf, Purpose, Role, Tree};
use sealane_attestation::{
    Degradation, EvidenceMessage, Expected, Format, Permission, Rejection, TcbVersion, rejudge,
};
use sealane_policy::{Entry, Floors, Pinnable};
use sealane_simulated::forge::{Kind, REPORT_BYTES};
use sealane_types::{
    Assurance, ChipId, Digest, HostData, Measurement, Platform, PodIdentity, Product, Reason, TcbStatus,
    UnixSeconds,
};

use crate::support::{
    AUTHORITY, BINDING_KEY, HANDSHAKE_HASH, MATERIAL, OTHER_AUTHORITY, PROVER, Prover, VERIFIER, entry,
    honest, judged, leaf, now, peer, pod, policy, policy_of_epoch, recipe, simulation, snp, trust,
};

/// What the verifier says under a policy with one entry that `edit` changed.
fn under(edit: impl FnOnce(&mut Entry)) -> Result<Assurance, Rejection> {
    let mut entry = entry(&MATERIAL);
    edit(&mut entry);
    let policy = policy(vec![entry], Floors::default());
    judged(&Prover::honest(&policy).send(), &policy).map(|verified| verified.assurance())
}

/// What the verifier says of a report that states otherwise.
fn stating(edit: impl FnOnce(&mut [u8; REPORT_BYTES])) -> Result<Assurance, Rejection> {
    let policy = honest();
    judged(&Prover::honest(&policy).send_edited(edit), &policy).map(|verified| verified.assurance())
}

#[track_caller]
fn assert_not_bound(outcome: Result<impl std::fmt::Debug, Rejection>) {
    assert!(matches!(outcome, Err(Rejection::NotBound(_))), "{outcome:?}");
}

#[test]
fn an_honest_peer_is_verified() {
    let policy = honest();
    let verified = judged(&Prover::honest(&policy).send(), &policy).unwrap();
    assert_eq!(verified.peer(), &peer());
    assert_eq!(verified.pod(), &pod());
    assert_eq!(verified.static_key(), &PROVER);
    assert_eq!(verified.platform(), Platform::Simulated);
    assert_eq!(verified.assurance(), Assurance::Simulated);
    assert_eq!(verified.tcb_status(), Some(TcbStatus::UpToDate));
    assert_eq!(verified.degradations(), []);
    assert!(verified.evidence_time() <= now() && verified.expires() > now());
    assert_eq!(verified.ends(), Some(verified.expires()));
}

#[test]
fn each_handshake_of_a_batch_is_verified_by_its_own_path() {
    let policy = honest();
    let strangers = [5, 6]
        .map(|h| Leaf::new(Purpose::Handshake, Role::Initiator, &[h; 32], &BINDING_KEY, &PROVER, &VERIFIER));
    let tree = Tree::new(&[strangers[0], strangers[1], leaf()]).unwrap();
    let own = Prover { tree: tree.clone(), index: 2, ..Prover::honest(&policy) };
    assert!(judged(&own.send(), &policy).is_ok());
    // The same quote, shown with the path of somebody else's handshake.
    let other = Prover { tree, index: 1, ..Prover::honest(&policy) };
    assert_not_bound(judged(&other.send(), &policy));
}

#[test]
fn evidence_of_another_handshake_is_refused() {
    let policy = honest();
    let (handshake, initiator) = (Purpose::Handshake, Role::Initiator);
    let elsewhere = [
        // Replay: another transcript. Relay: another secret of the session. Diversion: another verifier.
        Leaf::new(handshake, initiator, &[9; 32], &BINDING_KEY, &PROVER, &VERIFIER),
        Leaf::new(handshake, initiator, &HANDSHAKE_HASH, &[9; 32], &PROVER, &VERIFIER),
        Leaf::new(handshake, initiator, &HANDSHAKE_HASH, &BINDING_KEY, &PROVER, &[9; 32]),
        // Reflection: what the verifier itself proved, and what it proved for something else.
        Leaf::new(handshake, Role::Responder, &HANDSHAKE_HASH, &BINDING_KEY, &VERIFIER, &PROVER),
        Leaf::new(Purpose::Audit, initiator, &HANDSHAKE_HASH, &BINDING_KEY, &PROVER, &VERIFIER),
        Leaf::new(Purpose::Reattest, initiator, &HANDSHAKE_HASH, &BINDING_KEY, &PROVER, &VERIFIER),
    ];
    for leaf in elsewhere {
        let prover = Prover { tree: Tree::single(leaf), ..Prover::honest(&policy) };
        assert_not_bound(judged(&prover.send(), &policy));
    }
}

#[test]
fn evidence_of_another_replica_key_or_platform_is_refused() {
    let policy = honest();
    let other_pod = PodIdentity::new("demo", "embedder-1", "6f1c").unwrap();
    let own = Prover::honest(&policy).send();
    // Another replica's evidence, under its own name and under ours.
    let other = Prover { pod: other_pod, ..Prover::honest(&policy) }.send();
    assert_not_bound(judged(&other, &policy));
    assert_not_bound(judged(&EvidenceMessage { pod: pod(), ..other }, &policy));
    let other = Prover { static_key: [9; 32], ..Prover::honest(&policy) }.send();
    assert_not_bound(judged(&other, &policy));
    let mut other = Prover { format: Format::SevSnp, ..Prover::honest(&policy) }.send();
    other.evidence.format = Format::SimulatedSevSnp;
    assert_not_bound(judged(&other, &policy));
    assert!(judged(&own, &policy).is_ok());
}

#[test]
fn the_prover_runs_under_an_accepted_policy() {
    let policy = honest();
    let older = policy_of_epoch(2, vec![entry(&MATERIAL)], Floors::default());
    let message = Prover { policy: older.digest(), ..Prover::honest(&policy) }.send();
    assert_eq!(judged(&message, &policy), Err(Rejection::PolicyDigest));
    assert_eq!(Rejection::PolicyDigest.reason(), Reason::PolicyMismatch);
    // Claiming the current one does not help: the evidence signs the other.
    assert_not_bound(judged(&EvidenceMessage { policy: policy.digest(), ..message.clone() }, &policy));
    // Just superseded, and still among those that the caller accepts.
    let (pod, policies) = (pod(), [policy.digest(), older.digest()]);
    let expected =
        Expected { leaf: leaf(), prover_static: &PROVER, pod: &pod, trust: &trust(), policies: &policies };
    let verified =
        sealane_attestation::judge(&message, &expected, &peer(), &policy, &simulation(), now()).unwrap();
    assert_eq!(verified.peer(), &peer());
}

#[test]
fn reference_values_have_to_match() {
    let refused = |edit: fn(&mut Entry)| under(edit).unwrap_err();
    assert_eq!(refused(|entry| entry.root = Some(Digest::new([0; 32]))), Rejection::Root);
    assert_eq!(
        refused(|entry| snp(entry).measurements = [Measurement::new([0; 48])].into()),
        Rejection::Measurement
    );
    assert_eq!(refused(|entry| snp(entry).host_data = [HostData::new([0; 32])].into()), Rejection::HostData);
    assert_eq!(refused(|entry| snp(entry).products = [Product::Turin].into()), Rejection::Product);
    assert_eq!(refused(|entry| snp(entry).chip_ids = [ChipId::new([1; 64])].into()), Rejection::Chip);
    assert_eq!(under(|entry| snp(entry).chip_ids.clear()), Ok(Assurance::Simulated));
    assert_eq!(
        refused(|entry| snp(entry).host_data = [HostData::new([0; 32])].into()).reason(),
        Reason::HostDataMismatch
    );
}

#[test]
fn real_entries_are_not_satisfied_by_simulation() {
    let refused = under(|entry| {
        (entry.assurance, entry.root) = (Assurance::Pod, None);
    });
    assert_eq!(refused, Err(Rejection::PlatformNotAllowed(Platform::Simulated)));
}

#[test]
fn every_tcb_version_reaches_the_floor() {
    for raise in [
        |entry: &mut Entry| snp(entry).min_tcb.bootloader = Some(11),
        |entry: &mut Entry| snp(entry).min_tcb.tee = Some(1),
        |entry: &mut Entry| snp(entry).min_tcb.snp = Some(26),
        |entry: &mut Entry| snp(entry).min_tcb.microcode = Some(85),
    ] {
        let refused = under(raise).unwrap_err();
        assert!(matches!(refused, Rejection::TcbTooLow { version: TcbVersion::Reported, .. }), "{refused}");
        let told = refused.to_string();
        assert!(told.contains("the reported TCB") && told.contains("microcode 84"), "{told}");
    }
    // A floor for the FMC binds products that have one.
    assert_eq!(under(|entry| snp(entry).min_tcb.fmc = Some(9)), Ok(Assurance::Simulated));
    for (offset, expected) in [(0x1e0, TcbVersion::Committed), (0x1f0, TcbVersion::Launch)] {
        let refused = stating(|report| report[offset + 7] -= 1).unwrap_err();
        assert!(matches!(refused, Rejection::TcbTooLow { version, .. } if version == expected), "{refused}");
        assert_eq!(refused.reason(), Reason::TcbTooLow);
    }
}

#[test]
fn the_floor_of_the_fmc_binds_turin() {
    let material = AUTHORITY.issue(&recipe(Product::Turin, Kind::Vcek)).unwrap();
    let floor = |fmc| {
        let mut entry = entry(&material);
        snp(&mut entry).min_tcb.fmc = Some(fmc);
        let policy = policy(vec![entry], Floors::default());
        let prover = Prover { material: material.clone(), ..Prover::honest(&policy) };
        judged(&prover.send(), &policy).map(|_| ()).map_err(|refused| refused.reason())
    };
    assert_eq!(floor(1), Ok(()));
    assert_eq!(floor(2), Err(Reason::TcbTooLow));
}

/// Changes that a permission tolerates, with the permission.
type Tolerated = (fn(&mut [u8; REPORT_BYTES]), fn(&mut Entry), Rejection);

#[test]
fn permissions_are_refused_unless_given() {
    let cases: [Tolerated; 5] = [
        (|report| report[0x0a] |= 1 << 3, |entry| snp(entry).permissions.debug = true, Rejection::Debug),
        (
            |report| report[0x0a] |= 1 << 2,
            |entry| snp(entry).permissions.migration = true,
            Rejection::Permission(Permission::Migration),
        ),
        (
            |report| report[0x160] = 0,
            |entry| snp(entry).permissions.migration = true,
            Rejection::Permission(Permission::Migration),
        ),
        (
            |report| report[0x0a] |= 1,
            |entry| snp(entry).permissions.smt = true,
            Rejection::Permission(Permission::Smt),
        ),
        (
            |report| report[0x30] = 1,
            |entry| snp(entry).permissions.vmpl_max = 1,
            Rejection::Permission(Permission::Vmpl),
        ),
    ];
    for (state, permit, expected) in cases {
        assert_eq!(stating(state), Err(expected));
        let mut entry = entry(&MATERIAL);
        permit(&mut entry);
        let policy = policy(vec![entry], Floors::default());
        assert!(judged(&Prover::honest(&policy).send_edited(state), &policy).is_ok(), "{expected}");
    }
    assert_eq!(stating(|report| report[0x33] = 1), Err(Rejection::Permission(Permission::Vmpl)));
}

#[test]
fn a_provider_s_key_needs_permission_and_fits_no_pinned_chip() {
    let material = AUTHORITY.issue(&recipe(Product::Genoa, Kind::Vlek)).unwrap();
    let state = |report: &mut [u8; REPORT_BYTES]| {
        report[0x48] = 1 << 2;
        report[0x1a0..0x1e0].fill(0);
    };
    let outcome = |edit: fn(&mut Entry)| {
        let mut entry = entry(&material);
        edit(&mut entry);
        let policy = policy(vec![entry], Floors::default());
        let prover = Prover { material: material.clone(), ..Prover::honest(&policy) };
        judged(&prover.send_edited(state), &policy).map(|_| ())
    };
    assert_eq!(outcome(|entry| snp(entry).permissions.vlek = true), Err(Rejection::Chip));
    assert_eq!(outcome(|entry| snp(entry).chip_ids.clear()), Err(Rejection::Permission(Permission::Vlek)));
    let permit = |entry: &mut Entry| {
        snp(entry).chip_ids.clear();
        snp(entry).permissions.vlek = true;
    };
    assert_eq!(outcome(permit), Ok(()));
}

#[test]
fn open_values_degrade_and_complete_floors_refuse_them() {
    let mut open = entry(&MATERIAL);
    snp(&mut open).host_data.clear();
    let policy = policy(vec![open], Floors::default());
    let verified = judged(&Prover::honest(&policy).send(), &policy).unwrap();
    assert_eq!(verified.degradations(), [Degradation::ReferenceValueMissing(Pinnable::HostData)]);
    assert_eq!(verified.degradations()[0].reason(), Reason::ReferenceValueMissing);
}

#[test]
fn the_closest_entry_says_what_is_missing() {
    let far = |edit: fn(&mut Entry)| {
        let mut entry = entry(&MATERIAL);
        edit(&mut entry);
        entry
    };
    let entries = vec![
        far(|entry| entry.root = Some(Digest::new([0; 32]))),
        far(|entry| snp(entry).host_data = [HostData::new([0; 32])].into()),
        far(|entry| snp(entry).measurements = [Measurement::new([0; 48])].into()),
    ];
    let unfit = policy(entries.clone(), Floors::default());
    assert_eq!(judged(&Prover::honest(&unfit).send(), &unfit), Err(Rejection::HostData));
    let fit = policy([entries, vec![entry(&MATERIAL)]].concat(), Floors::default());
    assert!(judged(&Prover::honest(&fit).send(), &fit).is_ok());
}

#[test]
fn a_peer_that_the_policy_does_not_name_is_refused() {
    let policy = honest();
    let message = Prover::honest(&policy).send();
    let (pod, policies) = (pod(), [policy.digest()]);
    let expected =
        Expected { leaf: leaf(), prover_static: &PROVER, pod: &pod, trust: &trust(), policies: &policies };
    let stranger = "ranker".parse().unwrap();
    let judge = |peer, now| {
        sealane_attestation::judge(&message, &expected, peer, &policy, &simulation(), now)
            .unwrap_err()
            .reason()
    };
    assert_eq!(judge(&stranger, now()), Reason::PeerNotInPolicy);
    // Nor does a policy that ran out name anybody.
    assert_eq!(judge(&peer(), policy.expires().unix()), Reason::PolicyExpired);
}

#[test]
fn a_new_epoch_judges_the_stored_claims() {
    let first = honest();
    let held = judged(&Prover::honest(&first).send(), &first).unwrap();

    let same = policy_of_epoch(2, vec![entry(&MATERIAL)], Floors::default());
    let again = rejudge(&held, &same, now().plus(5)).unwrap();
    assert_eq!(again.evidence_time(), held.evidence_time(), "a verdict does not renew evidence");

    let mut raised = entry(&MATERIAL);
    snp(&mut raised).min_tcb.microcode = Some(85);
    let raised = policy_of_epoch(3, vec![raised], Floors::default());
    assert_eq!(rejudge(&held, &raised, now()).unwrap_err().reason(), Reason::TcbTooLow);

    let mut open = entry(&MATERIAL);
    snp(&mut open).host_data.clear();
    let open = policy_of_epoch(3, vec![open], Floors::default());
    let degraded = rejudge(&held, &open, now()).unwrap();
    assert_eq!(degraded.degradations(), [Degradation::ReferenceValueMissing(Pinnable::HostData)]);
    assert_eq!(rejudge(&degraded, &same, now()).unwrap().degradations(), [], "and the other way round");

    let other = OTHER_AUTHORITY.issue(&recipe(Product::Genoa, Kind::Vcek)).unwrap();
    let mut replaced = entry(&MATERIAL);
    replaced.root = Some(other.fingerprint());
    let replaced = policy_of_epoch(4, vec![replaced], Floors::default());
    assert_eq!(rejudge(&held, &replaced, now()).unwrap_err(), Rejection::Root);

    assert_eq!(rejudge(&held, &same, same.expires().unix()).unwrap_err().reason(), Reason::PolicyExpired);
}

#[test]
fn stored_claims_expire() {
    let mut soon = recipe(Product::Genoa, Kind::Vcek);
    soon.validity.until = std::time::Duration::from_secs(now().0 + 600);
    let material = AUTHORITY.issue(&soon).unwrap();
    let policy = policy(vec![entry(&material)], Floors::default());
    let held = judged(&Prover { material, ..Prover::honest(&policy) }.send(), &policy).unwrap();
    assert!(rejudge(&held, &policy, held.expires()).is_ok());
    let refused = rejudge(&held, &policy, held.expires().plus(1)).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralExpired);
}

#[test]
fn a_policy_that_is_over_judges_nobody() {
    let policy = honest();
    let message = Prover::honest(&policy).send();
    let held = judged(&message, &policy).unwrap();
    let (begins, ends) = (policy.document().not_before.unix(), policy.expires().unix());
    assert!(rejudge(&held, &policy, begins).is_ok());
    let early = rejudge(&held, &policy, UnixSeconds(begins.0 - 1)).unwrap_err();
    assert_eq!(early.reason(), Reason::PolicyNotYetValid);
    let late = rejudge(&held, &policy, ends).unwrap_err();
    assert_eq!(late.reason(), Reason::PolicyExpired);
}

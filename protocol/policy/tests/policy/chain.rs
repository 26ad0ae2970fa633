//! Quorum, rotations, epochs and time.

use sealane_policy::{Owners, Part, PolicyError, VerifiedPolicy, limits, verify};
use sealane_types::{Reason, SignedChain};
use serde_json::json;

use crate::support::*;

fn held(epoch: u64) -> VerifiedPolicy {
    verify(&chain(&document(epoch), &[1, 2]), &roots(), now(), None).unwrap()
}

fn refusal(chain: &SignedChain) -> PolicyError {
    verify(chain, &roots(), now(), None).unwrap_err()
}

#[test]
fn a_quorum_suffices() {
    let document = document(3);
    let verified = verify(&chain(&document, &[1, 2]), &roots(), now(), None).unwrap();
    assert_eq!(verified.epoch(), 3);
    assert_eq!(verified.bytes(), bytes(&document));
    assert_eq!(verified.digest(), sealane_policy::digest_of(verified.bytes()));
    assert_eq!(verified.expires(), at("2026-11-27T00:00:00Z"));
    let mut signers = vec![owner(1).key_id(), owner(2).key_id()];
    signers.sort();
    assert_eq!(verified.signers(), signers);
    assert_eq!(verified.chain(), &chain(&document, &[1, 2]));
}

#[test]
fn one_owner_signing_twice_counts_once() {
    let error = refusal(&chain(&document(1), &[1, 1]));
    assert!(
        matches!(&error, PolicyError::UnderSigned { part: Part::Document, owners: Owners::Roots, needed: 2, tally } if tally.counted.len() == 1),
        "{error:?}"
    );
    assert_eq!(error.reason(), Reason::PolicyUnderSigned);
}

#[test]
fn strangers_do_not_count() {
    let error = refusal(&chain(&document(1), &[1, 9]));
    let PolicyError::UnderSigned { tally, .. } = &error else { panic!("{error:?}") };
    assert_eq!((tally.counted.len(), tally.unknown.len(), tally.invalid.len()), (1, 1, 0));
    assert!(error.to_string().contains(&owner(9).key_id().to_string()), "{error}");
}

#[test]
fn a_strangers_signature_under_an_owners_name_does_not_count() {
    let mut forged = chain(&document(1), &[1, 9]);
    forged.signatures[1].key_id = owner(2).key_id();
    let PolicyError::UnderSigned { tally, .. } = refusal(&forged) else { panic!() };
    assert_eq!((tally.counted.len(), tally.invalid.len()), (1, 1));
}

#[test]
fn a_valid_signature_counts_although_an_invalid_one_of_the_same_owner_precedes_it() {
    let document = document(1);
    let mut chain = chain(&document, &[1, 2]);
    let mut wrong = chain.signatures[1].clone();
    wrong.signature = chain.signatures[0].signature.clone();
    chain.signatures.insert(0, wrong);
    assert!(verify(&chain, &roots(), now(), None).is_ok());
}

#[test]
fn the_signatures_of_an_owner_are_not_tried_without_end() {
    let document = document(1);
    let mut chain = chain(&document, &[1, 2]);
    let mut wrong = chain.signatures[1].clone();
    wrong.signature = chain.signatures[0].signature.clone();
    for _ in 1..limits::INVALID_SIGNATURES_MAX {
        chain.signatures.insert(0, wrong.clone());
    }
    assert!(verify(&chain, &roots(), now(), None).is_ok());
    chain.signatures.insert(0, wrong);
    let PolicyError::UnderSigned { tally, .. } = refusal(&chain) else { panic!() };
    assert_eq!((tally.counted.len(), tally.invalid.len()), (1, 1));
}

#[test]
fn an_invalid_signature_after_a_valid_one_of_the_same_owner_changes_nothing() {
    let mut chain = chain(&document(1), &[1, 1]);
    chain.signatures[1].signature = "A".repeat(86) + "==";
    let PolicyError::UnderSigned { tally, .. } = refusal(&chain) else { panic!() };
    assert_eq!((tally.counted.len(), tally.invalid.len()), (1, 0));
}

#[test]
fn signatures_are_over_these_bytes_and_this_type() {
    let mut moved = chain(&document(1), &[1, 2]);
    moved.document = chain(&document(2), &[]).document;
    assert!(matches!(refusal(&moved), PolicyError::UnderSigned { .. }));

    use aws_lc_rs::signature::Ed25519KeyPair;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let bytes = bytes(&document(1));
    let mut other_type = chain(&document(1), &[1, 2]);
    for (signature, seed) in other_type.signatures.iter_mut().zip([1_u8, 2]) {
        let key = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        signature.signature = STANDARD.encode(key.sign(&bytes).as_ref());
    }
    assert!(matches!(refusal(&other_type), PolicyError::UnderSigned { .. }));
}

#[test]
fn malformed_signatures_do_not_count() {
    for signature in ["", "AAAA", "not base64", &"A".repeat(88), &"A".repeat(1 << 20)] {
        let mut chain = chain(&document(1), &[1, 2]);
        signature.clone_into(&mut chain.signatures[1].signature);
        assert!(matches!(refusal(&chain), PolicyError::UnderSigned { .. }), "{}", signature.len());
    }
}

#[test]
fn no_signature_at_all_is_named_so() {
    let error = refusal(&chain(&document(1), &[]));
    assert_eq!(error, PolicyError::Unsigned { part: Part::Document });
    assert_eq!(error.reason(), Reason::PolicyUnsigned);
}

#[test]
fn unsigned_bytes_reach_no_parser() {
    use base64::Engine as _;
    let mut chain = chain(&document(1), &[1, 2]);
    chain.document = base64::engine::general_purpose::STANDARD.encode("not json");
    assert_eq!(refusal(&chain).reason(), Reason::PolicyUnderSigned);
}

#[test]
fn a_signed_document_is_still_linted() {
    let mut loose = document(1);
    loose["peers"]["ranker"]["entries"][0]["minTcb"] = json!({});
    assert!(matches!(refusal(&chain(&loose, &[1, 2])), PolicyError::Lint(_)));
}

#[test]
fn a_signed_document_must_be_canonical() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let spaced = [bytes(&document(1)), b"\n".to_vec()].concat();
    let chain = SignedChain {
        document: STANDARD.encode(&spaced),
        signatures: signatures(&spaced, &[1, 2]),
        rotations: vec![],
    };
    assert!(matches!(refusal(&chain), PolicyError::Json(_)));
}

#[test]
fn roots_that_ask_for_nothing_or_too_much_are_refused() {
    let chain = chain(&document(1), &[1, 2]);
    let mut asks_for_none = roots();
    asks_for_none.threshold = 0;
    let mut asks_for_three = roots();
    asks_for_three.threshold = 3;
    let mut repeats_a_key = roots();
    repeats_a_key.keys = public(&[1, 1]);
    let mut too_many = roots();
    too_many.keys = public(&(0..=limits::AUTHORITY_KEYS_MAX as u8).collect::<Vec<_>>());
    for roots in [asks_for_none, asks_for_three, repeats_a_key, too_many] {
        let error = verify(&chain, &roots, now(), None).unwrap_err();
        assert!(matches!(error, PolicyError::Roots { .. }), "{error:?}");
        assert_eq!(error.reason(), Reason::PolicyRootsMissing);
    }
}

#[test]
fn a_document_for_another_policy_is_refused() {
    for field in ["namespace", "name"] {
        let mut other = document(1);
        other[field] = json!("other");
        let error = refusal(&chain(&other, &[1, 2]));
        assert!(matches!(error, PolicyError::ForAnother { .. }), "{error:?}");
        assert_eq!(error.reason(), Reason::PolicyMismatch);
    }
}

#[test]
fn a_document_holds_from_not_before_until_expires() {
    let chain = chain(&document(1), &[1, 2]);
    let at = |time| verify(&chain, &roots(), at(time), None).map(|_| ()).map_err(|error| error.reason());
    assert_eq!(at("2026-11-19T23:59:59Z"), Err(Reason::PolicyNotYetValid));
    assert_eq!(at("2026-11-20T00:00:00Z"), Ok(()));
    assert_eq!(at("2026-11-26T23:59:59Z"), Ok(()));
    assert_eq!(at("2026-11-27T00:00:00Z"), Err(Reason::PolicyExpired));
}

#[test]
fn epochs_never_go_back() {
    let held = held(5);
    let error = verify(&chain(&document(4), &[1, 2]), &roots(), now(), Some(&held)).unwrap_err();
    assert_eq!(error, PolicyError::RolledBack { epoch: 4, held: 5 });
    assert_eq!(error.reason(), Reason::PolicyRolledBack);
    assert!(verify(&chain(&document(5), &[1, 2]), &roots(), now(), Some(&held)).is_ok());
    assert!(verify(&chain(&document(9), &[1, 2]), &roots(), now(), Some(&held)).is_ok());
}

#[test]
fn the_roots_minimum_epoch_holds() {
    let mut roots = roots();
    roots.minimum_epoch = 7;
    let error = verify(&chain(&document(6), &[1, 2]), &roots, now(), None).unwrap_err();
    assert_eq!(error, PolicyError::BelowMinimumEpoch { epoch: 6, minimum: 7 });
    assert_eq!(error.reason(), Reason::PolicyRolledBack);
    assert!(verify(&chain(&document(7), &[1, 2]), &roots, now(), None).is_ok());
}

#[test]
fn two_documents_of_one_epoch_conflict() {
    let held = held(5);
    let mut twin = document(5);
    twin["sessions"] = json!([]);
    let error = verify(&chain(&twin, &[1, 2]), &roots(), now(), Some(&held)).unwrap_err();
    let offered = sealane_policy::digest_of(&bytes(&twin));
    assert_eq!(error, PolicyError::ConflictingEpoch { epoch: 5, held: held.digest(), offered });
    assert_eq!(error.reason(), Reason::PolicyConflict);
    // A twin that no quorum signed is no conflict, or anyone could stop a policy.
    let error = verify(&chain(&twin, &[1]), &roots(), now(), Some(&held)).unwrap_err();
    assert_eq!(error.reason(), Reason::PolicyUnderSigned);
}

#[test]
fn previous_is_checked_where_the_predecessor_is_held() {
    let held = held(5);
    let check = |epoch: u64, previous: &str| {
        let mut next = document(epoch);
        next["previous"] = json!(previous);
        verify(&chain(&next, &[1, 2]), &roots(), now(), Some(&held))
            .map(|_| ())
            .map_err(|error| error.reason())
    };
    let wrong = "00".repeat(32);
    assert_eq!(check(6, &held.digest().to_string()), Ok(()));
    assert_eq!(check(6, &wrong), Err(Reason::PolicyConflict));
    assert_eq!(check(7, &wrong), Ok(()), "epoch 6 is not at hand");
}

/// Owners {1, 2} hand over to {2, 3} in epoch 2.
fn handover() -> serde_json::Value {
    let mut document = document(2);
    document["authorities"] = authorities(2, &[2, 3]);
    document
}

fn after_handover(epoch: u64) -> serde_json::Value {
    let mut document = document(epoch);
    document["authorities"] = authorities(2, &[2, 3]);
    document
}

#[test]
fn a_change_of_owners_needs_the_old_and_the_new() {
    let check = |owners: &[u8]| verify(&chain(&handover(), owners), &roots(), now(), None);
    assert!(check(&[1, 2, 3]).is_ok());
    let error = check(&[1, 2]).unwrap_err();
    assert!(matches!(error, PolicyError::UnderSigned { owners: Owners::New, .. }), "{error:?}");
    let error = check(&[2, 3]).unwrap_err();
    assert!(matches!(error, PolicyError::UnderSigned { owners: Owners::Roots, .. }), "{error:?}");
}

#[test]
fn lowering_the_threshold_is_a_change_of_owners() {
    let mut lowered = document(2);
    lowered["authorities"] = authorities(1, &[1, 2]);
    let error = refusal(&chain(&lowered, &[1]));
    assert!(matches!(error, PolicyError::UnderSigned { owners: Owners::Roots, needed: 2, .. }), "{error:?}");
    assert!(verify(&chain(&lowered, &[1, 2]), &roots(), now(), None).is_ok());
}

#[test]
fn the_chain_is_walked_from_the_roots() {
    let rotation = signed(&handover(), &[1, 2, 3]);
    let check = |rotations, document: &_, owners: &[u8]| {
        verify(&rotated(rotations, document, owners), &roots(), now(), None)
    };
    assert!(check(vec![rotation.clone()], &after_handover(3), &[2, 3]).is_ok());
    // Without the rotation in between, the roots know nothing of owner 3.
    assert!(check(vec![], &after_handover(3), &[2, 3]).is_err());
    // The old owners alone no longer decide.
    let error = check(vec![rotation.clone()], &after_handover(3), &[1, 2]).unwrap_err();
    assert!(matches!(error, PolicyError::UnderSigned { owners: Owners::Current, .. }), "{error:?}");
    // A rotation that lacks either quorum breaks the chain.
    for owners in [[1, 2], [2, 3]] {
        let broken = signed(&handover(), &owners);
        let error = check(vec![broken], &after_handover(3), &[2, 3]).unwrap_err();
        assert!(matches!(error, PolicyError::UnderSigned { part: Part::Rotation(0), .. }), "{error:?}");
    }
}

#[test]
fn rotations_come_in_order_and_belong_to_this_policy() {
    let rotation = signed(&handover(), &[1, 2, 3]);
    let error = refusal(&rotated(vec![rotation.clone()], &after_handover(2), &[2, 3]));
    assert!(
        matches!(error, PolicyError::ChainOutOfOrder { part: Part::Document, epoch: 2, before: 2 }),
        "{error:?}"
    );

    let mut foreign = handover();
    foreign["name"] = json!("other");
    let error = refusal(&rotated(vec![signed(&foreign, &[1, 2, 3])], &after_handover(3), &[2, 3]));
    assert!(matches!(error, PolicyError::ForAnother { part: Part::Rotation(0), .. }), "{error:?}");

    let mut next = after_handover(3);
    next["previous"] = json!("00".repeat(32));
    let error = refusal(&rotated(vec![rotation], &next, &[2, 3]));
    assert!(matches!(error, PolicyError::PreviousMismatch { epoch: 2, .. }), "{error:?}");
}

#[test]
fn expired_rotations_still_lead_to_the_document() {
    let mut old = handover();
    old["notBefore"] = json!("2025-01-01T00:00:00Z");
    old["expires"] = json!("2025-01-08T00:00:00Z");
    let chain = rotated(vec![signed(&old, &[1, 2, 3])], &after_handover(3), &[2, 3]);
    assert!(verify(&chain, &roots(), now(), None).is_ok());
}

#[test]
fn keys_that_were_rotated_out_cannot_fork_a_held_policy() {
    let rotation = signed(&handover(), &[1, 2, 3]);
    let current = rotated(vec![rotation], &after_handover(3), &[2, 3]);
    let held = verify(&current, &roots(), now(), None).unwrap();
    // Owners 1 and 2 satisfy the roots, which never change, but no longer the policy in effect.
    let fork = chain(&document(4), &[1, 2]);
    assert!(verify(&fork, &roots(), now(), None).is_ok());
    let error = verify(&fork, &roots(), now(), Some(&held)).unwrap_err();
    assert!(matches!(error, PolicyError::UnderSigned { owners: Owners::Held, .. }), "{error:?}");
}

#[test]
fn a_held_policy_follows_later_rotations() {
    let held = held(1);
    let rotation = signed(&handover(), &[1, 2, 3]);
    let next = rotated(vec![rotation], &after_handover(3), &[2, 3]);
    assert!(verify(&next, &roots(), now(), Some(&held)).is_ok());
}

#[test]
fn a_held_policy_looks_only_at_what_is_new() {
    // {1, 2} → {2, 3} → {3, 4}: the first rotation means nothing to the owners who hold the policy now.
    let mut second = document(3);
    second["authorities"] = authorities(2, &[3, 4]);
    let rotations = vec![signed(&handover(), &[1, 2, 3]), signed(&second, &[2, 3, 4])];
    let at_epoch = |epoch: u64| {
        let mut document = document(epoch);
        document["authorities"] = authorities(2, &[3, 4]);
        rotated(rotations.clone(), &document, &[3, 4])
    };
    let held = verify(&at_epoch(4), &roots(), now(), None).unwrap();
    assert!(verify(&at_epoch(5), &roots(), now(), Some(&held)).is_ok());
}

#[test]
fn a_rotation_that_breaks_a_later_rule_still_leads_on() {
    let mut loose = handover();
    loose["peers"]["ranker"]["entries"][0]["minTcb"] = json!({});
    let next = rotated(vec![signed(&loose, &[1, 2, 3])], &after_handover(3), &[2, 3]);
    assert!(verify(&next, &roots(), now(), None).is_ok());
}

#[test]
fn chains_are_bounded_before_they_are_decoded() {
    let signed = signed(&handover(), &[1, 2, 3]);
    let many = rotated(vec![signed.clone(); limits::ROTATIONS_MAX + 1], &after_handover(99), &[2, 3]);
    let error = refusal(&many);
    assert!(matches!(error, PolicyError::TooManyRotations { .. }), "{error:?}");
    assert_eq!(error.reason(), Reason::LimitExceeded);

    let mut noisy = chain(&document(1), &[1, 2]);
    let stranger = chain(&document(1), &[9]).signatures.remove(0);
    noisy.signatures.resize(limits::SIGNATURES_MAX + 1, stranger);
    assert!(matches!(refusal(&noisy), PolicyError::TooManySignatures { .. }));
    noisy.signatures.truncate(limits::SIGNATURES_MAX);
    assert!(verify(&noisy, &roots(), now(), None).is_ok());

    let mut large = chain(&document(1), &[1, 2]);
    large.document = "A".repeat((limits::DOCUMENT_BYTES_MAX + 3).div_ceil(3) * 4 + 4);
    assert!(matches!(refusal(&large), PolicyError::Json(_)));

    let mut wide = signed;
    wide.document = "A".repeat(limits::DOCUMENT_BYTES_MAX);
    let wide = rotated(vec![wide; 4], &after_handover(9), &[2, 3]);
    assert_eq!(refusal(&wide), PolicyError::ChainTooLarge);

    let mut broken = chain(&document(1), &[1, 2]);
    broken.document.push('!');
    assert_eq!(refusal(&broken), PolicyError::NotBase64 { part: Part::Document });
}

#[test]
fn what_reaches_a_bound_exactly_is_not_refused_for_it() {
    let encoded = |bytes: usize| "A".repeat(bytes.div_ceil(3) * 4);
    let mut largest = chain(&document(1), &[1, 2]);
    largest.document = encoded(limits::DOCUMENT_BYTES_MAX);
    assert!(matches!(refusal(&largest), PolicyError::UnderSigned { .. }));
    largest.document = encoded(limits::DOCUMENT_BYTES_MAX + 3);
    let error = refusal(&largest);
    let told = format!("{}", limits::DOCUMENT_BYTES_MAX + 5);
    assert!(error.to_string().contains(&told), "{error}");

    let mut first = signed(&handover(), &[1, 2, 3]);
    first.document = encoded(limits::DOCUMENT_BYTES_MAX);
    let mut widest = rotated(vec![first], &after_handover(3), &[2, 3]);
    widest.document = "A".repeat(encoded(limits::CHAIN_BYTES_MAX).len() - widest.rotations[0].document.len());
    assert_ne!(refusal(&widest), PolicyError::ChainTooLarge);
    widest.document.push_str("AAAA");
    assert_eq!(refusal(&widest), PolicyError::ChainTooLarge);

    let longest =
        rotated(vec![signed(&handover(), &[1, 2, 3]); limits::ROTATIONS_MAX], &after_handover(99), &[2, 3]);
    assert!(!matches!(refusal(&longest), PolicyError::TooManyRotations { .. }));

    let mut most = roots();
    most.keys = public(&(1..=limits::AUTHORITY_KEYS_MAX as u8).collect::<Vec<_>>());
    assert!(verify(&chain(&document(1), &[1, 2]), &most, now(), None).is_ok());
}

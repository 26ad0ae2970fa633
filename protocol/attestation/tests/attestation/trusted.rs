//! Who decides which policies a peer follows: what it states counts, and its evidence covers it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::{Rejection, TrustConfiguration, VerifiedPeer, rejudge};
use sealane_policy::{Authorities, Document, Floors, SigningKey, VerifiedPolicy, sign, verify};
use sealane_types::{Reason, RootSource, Roots, SignedChain, SignedDocument};

use crate::support::{MATERIAL, Prover, entry, honest, judged, judged_stating, now, policy, trust};

fn owner(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32]).unwrap()
}

fn stating(change: impl FnOnce(&mut TrustConfiguration)) -> Arc<TrustConfiguration> {
    let mut stated = (*trust()).clone();
    change(&mut stated);
    Arc::new(stated)
}

/// The verdict on an honest prover that states `trust` and has evidence for it.
fn verdict(trust: &Arc<TrustConfiguration>, policy: &VerifiedPolicy) -> Result<VerifiedPeer, Rejection> {
    let prover = Prover { trust: Arc::clone(trust), ..Prover::honest(policy) };
    judged_stating(trust, &prover.send(), policy)
}

#[test]
fn a_peer_under_other_roots_is_refused() {
    let policy = honest();
    assert!(verdict(&trust(), &policy).is_ok());
    let others: [&dyn Fn(&mut Roots); 6] = [
        &|roots| roots.keys = vec![owner(8).public_key()],
        &|roots| roots.keys.push(owner(8).public_key()),
        &|roots| roots.threshold = 0,
        &|roots| roots.minimum_epoch = 0,
        &|roots| roots.namespace = "other".parse().unwrap(),
        &|roots| roots.policy = "other".parse().unwrap(),
    ];
    for change in others {
        let stated = stating(|stated| change(&mut stated.roots));
        let refused = verdict(&stated, &policy).unwrap_err();
        assert_eq!((refused, refused.reason()), (Rejection::RootsDiffer, Reason::RootsDiffer), "{stated:?}");
    }
    // Nothing is lost with a higher bound of epochs than one's own.
    assert!(verdict(&stating(|stated| stated.roots.minimum_epoch = 9), &policy).is_ok());
}

#[test]
fn what_a_peer_states_is_what_its_evidence_covers() {
    let policy = honest();
    let (message, others) = (Prover::honest(&policy).send(), trust());
    assert!(judged_stating(&others, &message, &policy).is_ok());
    for stated in [
        stating(|stated| stated.source = RootSource::Initdata),
        stating(|stated| stated.simulation = false),
        stating(|stated| stated.roots.minimum_epoch = 2),
    ] {
        let outcome = judged_stating(&stated, &message, &policy);
        assert!(matches!(outcome, Err(Rejection::NotBound(_))), "{stated:?}: {outcome:?}");
    }
    // Evidence that was made under other roots does not count for those of the verifier.
    let rogue = Arc::new(TrustConfiguration {
        roots: Roots { keys: vec![], ..others.roots.clone() },
        ..(*others).clone()
    });
    let message = Prover { trust: rogue, ..Prover::honest(&policy) }.send();
    assert!(matches!(judged(&message, &policy), Err(Rejection::NotBound(_))));
}

#[test]
fn roots_from_a_weaker_source_than_the_policy_demands_are_refused() {
    for (demanded, counts) in [
        (RootSource::Injected, [true, true, true]),
        (RootSource::File, [false, true, true]),
        (RootSource::Initdata, [false, false, true]),
    ] {
        let policy = policy(vec![entry(&MATERIAL)], Floors { root_source: demanded, ..Floors::default() });
        for (stated, accepted) in RootSource::ALL.iter().zip(counts) {
            let outcome = verdict(&stating(|trust| trust.source = *stated), &policy);
            match outcome {
                Ok(_) => assert!(accepted, "{stated} under {demanded}"),
                Err(refused) => {
                    assert!(!accepted, "{stated} under {demanded}");
                    assert_eq!(refused, Rejection::RootSource { stated: *stated, demanded });
                    assert_eq!(refused.reason(), Reason::RootSourceTooWeak);
                }
            }
        }
    }
}

/// The document of `policy`, changed and signed by these owners.
fn signed(
    policy: &VerifiedPolicy,
    owners: &[&SigningKey],
    change: impl FnOnce(&mut Document),
) -> SignedDocument {
    let mut document = policy.document().clone();
    change(&mut document);
    let bytes = document.to_bytes();
    let signatures = owners.iter().map(|owner| sign(&bytes, owner)).collect();
    SignedDocument { document: STANDARD.encode(&bytes), signatures }
}

fn owned_by(owner: &SigningKey) -> Authorities {
    Authorities { threshold: 1, keys: [owner.public_key()].into() }
}

/// From [`trust`]'s roots over a rotation in epoch 5 to a document of epoch 6 under new owners.
fn rotated() -> VerifiedPolicy {
    let (old, new) = (owner(7), owner(9));
    let first = honest();
    let rotation = signed(&first, &[&old, &new], |document| {
        (document.epoch, document.authorities) = (5, owned_by(&new));
    });
    let last =
        signed(&first, &[&new], |document| (document.epoch, document.authorities) = (6, owned_by(&new)));
    let SignedDocument { document, signatures } = last;
    let chain = SignedChain { document, signatures, rotations: vec![rotation] };
    verify(&chain, &trust().roots, now().into(), None).unwrap()
}

#[test]
fn roots_that_the_own_ones_signed_on_to_are_recognised() {
    let policy = rotated();
    let stating = |keys: u8, minimum_epoch| {
        stating(|stated| {
            (stated.roots.keys, stated.roots.minimum_epoch) = (vec![owner(keys).public_key()], minimum_epoch);
        })
    };
    assert!(verdict(&stating(7, 1), &policy).is_ok(), "the roots themselves");
    assert!(verdict(&stating(9, 5), &policy).is_ok(), "the owners since the rotation");
    let refused = |stated| verdict(&stated, &policy).unwrap_err();
    assert_eq!(refused(stating(9, 4)), Rejection::RootsDiffer, "they owned nothing before");
    assert_eq!(refused(stating(8, 5)), Rejection::RootsDiffer);
}

#[test]
fn a_later_policy_judges_the_trust_again() {
    let first = honest();
    let held = verdict(&trust(), &first).unwrap();
    assert_eq!(held.trust(), &*trust());
    let stricter =
        policy(vec![entry(&MATERIAL)], Floors { root_source: RootSource::Initdata, ..Floors::default() });
    assert!(matches!(rejudge(&held, &stricter, now()), Err(Rejection::RootSource { .. })));
    assert!(rejudge(&held, &rotated(), now()).is_ok());
}

//! What refusals say, and the one default that owners do not spell out.

use sealane_policy::{limits, verify};
use sealane_types::SignedChain;

use crate::support::*;

fn refusal(chain: &SignedChain) -> String {
    verify(chain, &roots(), now(), None).unwrap_err().to_string()
}

#[test]
fn messages_name_the_document_and_its_owners() {
    let unsigned = refusal(&chain(&document(1), &[]));
    assert!(unsigned.starts_with("the document carries no signature"), "{unsigned}");
    let broken = refusal(&rotated(vec![signed(&document(1), &[])], &document(2), &[1, 2]));
    assert!(broken.starts_with("rotations[0] carries no signature"), "{broken}");
    let roots = refusal(&chain(&document(1), &[1]));
    assert!(
        roots.starts_with("the document has 1 of the 2 valid signatures that the owners in the roots"),
        "{roots}"
    );
    let mut handover = document(2);
    handover["authorities"] = authorities(2, &[2, 3]);
    let new = refusal(&chain(&handover, &[1, 2]));
    assert!(new.contains("the new owners that it names itself"), "{new}");
    let rotation = signed(&handover, &[1, 2, 3]);
    let mut next = document(3);
    next["authorities"] = authorities(2, &[2, 3]);
    let current = refusal(&rotated(vec![rotation], &next, &[1, 2]));
    assert!(current.contains("the owners named by the document before it"), "{current}");
}

#[test]
fn a_document_is_in_force_for_seven_days_unless_its_author_says_otherwise() {
    assert_eq!(limits::DEFAULT_LIFETIME_SECONDS, 604_800);
}

//! The signed policy: its JSON, its fields, and the chain that leads to it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_policy::{JsonError, PolicyError, VerifiedPolicy, canonical, diff, lint, parse, read, verify};
use sealane_types::{Roots, SignedChain};
use serde_json::Value;

use crate::edit::edits;
use crate::script::Script;

/// The bytes of a document: one encoding, and it means what it says.
pub(super) fn document(data: &[u8]) {
    if let Ok(document) = read(data) {
        // Owners may leave defaults out, so the bytes may differ, but not what they say.
        assert_eq!(read(&document.to_bytes()).as_ref(), Ok(&document), "what is written reads back");
        assert_eq!(canonical(data).as_deref(), Ok(data), "one form of the same text");
        assert_eq!(diff(&document, &document), []);
        assert_eq!(parse(data).is_ok(), lint(&document).is_empty());
    } else {
        assert!(parse(data).is_err(), "linted and yet unreadable");
    }
    if let Ok(formatted) = canonical(data) {
        let again = canonical(&formatted).expect("a signed form reads");
        assert_eq!(again, formatted, "the signed form is its own signed form");
        assert!(read(data).is_err() || formatted == data, "read without being in the signed form");
    } else {
        assert!(read(data).is_err());
    }
}

/// Chains of `tests/vectors/policy.json`, and everything that anybody signed in them.
struct Known {
    roots: Roots,
    chains: Vec<SignedChain>,
    signed: BTreeSet<Vec<u8>>,
    now: sealane_policy::Timestamp,
    held: Vec<VerifiedPolicy>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let vectors: Value = serde_json::from_str(include_str!("../../../vectors/policy.json")).unwrap();
    let roots: Roots = serde_json::from_value(vectors["roots"].clone()).unwrap();
    let now = vectors["now"].as_str().unwrap().parse().unwrap();
    let cases = vectors["chains"].as_array().unwrap();
    let chains: Vec<SignedChain> =
        cases.iter().filter_map(|case| serde_json::from_value(case["chain"].clone()).ok()).collect();
    let decode = |document: &String| STANDARD.decode(document).ok();
    let signed = chains
        .iter()
        .flat_map(|chain| chain.rotations.iter().map(|step| &step.document).chain([&chain.document]))
        .filter_map(decode)
        .collect();
    let held = chains.iter().filter_map(|chain| verify(chain, &roots, now, None).ok()).collect();
    Known { roots, chains, signed, now, held }
});

/// Genuine chains for seeds.
pub(crate) fn chains() -> usize {
    KNOWN.chains.len()
}

/// First byte: a genuine chain to change, and what is held; 0xff: the rest is JSON of a chain.
pub(super) fn chain(data: &[u8]) {
    let mut script = Script::new(data);
    let Some(first) = script.byte() else { return };
    let known = &*KNOWN;
    let chain = if first == 0xff {
        let Ok(chain) = serde_json::from_slice(script.bytes(data.len())) else { return };
        chain
    } else {
        let mut chain = known.chains[usize::from(first) % known.chains.len()].clone();
        change(&mut chain, &mut script);
        chain
    };
    let held = known.held.get(usize::from(first) % (known.held.len() + 1));
    match verify(&chain, &known.roots, known.now, held) {
        Ok(policy) => {
            assert!(known.signed.contains(policy.bytes()), "nobody signed this");
            assert_eq!(read(policy.bytes()).as_ref(), Ok(policy.document()));
            assert_eq!(policy.chain(), &chain);
            assert!(policy.signers().len() >= known.roots.threshold as usize || !chain.rotations.is_empty());
        }
        // A size is measured before signatures are; everything else that a parser finds was signed.
        Err(PolicyError::Json(JsonError::TooLarge { .. })) => {}
        Err(error @ (PolicyError::Json(_) | PolicyError::Field(_) | PolicyError::Lint(_))) => {
            let parts = chain.rotations.iter().map(|step| &step.document).chain([&chain.document]);
            let any_signed = parts
                .filter_map(|document| STANDARD.decode(document).ok())
                .any(|bytes| known.signed.contains(&bytes));
            assert!(any_signed, "what nobody signed was parsed: {error}");
        }
        Err(_) => {}
    }
}

/// Changes documents and signatures, moves signatures about, and repeats or drops rotations.
fn change(chain: &mut SignedChain, script: &mut Script<'_>) {
    for edit in edits(script) {
        let rotations = chain.rotations.len();
        let part = usize::from(edit.place >> 2) % (rotations + 1);
        let (document, signatures) = match chain.rotations.get_mut(part) {
            Some(step) => (&mut step.document, &mut step.signatures),
            None => (&mut chain.document, &mut chain.signatures),
        };
        match edit.place & 3 {
            0 => {
                let mut bytes = STANDARD.decode(&*document).unwrap_or_default();
                edit.apply(&mut bytes);
                *document = STANDARD.encode(bytes);
            }
            1 => {
                if let Some(signature) = signatures.first_mut() {
                    let mut bytes = STANDARD.decode(&signature.signature).unwrap_or_default();
                    edit.apply(&mut bytes);
                    signature.signature = STANDARD.encode(bytes);
                }
            }
            2 => {
                let again = signatures.first().cloned();
                signatures.extend(again);
                if signatures.len() > 1 {
                    signatures.rotate_left(1);
                }
            }
            _ if rotations > 0 => {
                if part.is_multiple_of(2) {
                    drop(chain.rotations.pop());
                } else {
                    chain.rotations.swap(0, rotations - 1);
                }
            }
            _ => drop(signatures.pop()),
        }
    }
}

//! An honest simulated enclave.

use std::sync::LazyLock;

use sealane_attestation::{Claims, Evidence, Format, NitroClaims, Rejection, Statement, inspect};
use sealane_simulated::nitro::{Chain, Document, Enclave, Material, Recipe};

use crate::support::{PROVER, now, simulation};

/// What tells the enclave's Peer from others, by PCR3.
pub(super) const ROLE: &[u8] = b"arn:aws:iam::000000000000:role/embedder";
pub(super) const REPORT_DATA: [u8; 64] = [7; 64];
pub(super) const TREE_ROOT: [u8; 32] = [8; 32];

pub(super) static MATERIAL: LazyLock<Material> = LazyLock::new(|| Material::generate().unwrap());

pub(super) fn recipe() -> Recipe {
    Recipe::new().unwrap()
}

pub(super) fn chain() -> &'static Chain {
    MATERIAL.chain()
}

pub(super) fn enclave() -> Enclave {
    Enclave::new(MATERIAL.clone(), Some(ROLE))
}

/// What the enclave states when it is asked to.
pub(super) fn document() -> Document {
    enclave().document(&REPORT_DATA, &TREE_ROOT, &PROVER).unwrap()
}

pub(super) fn evidence(report: Vec<u8>) -> Evidence {
    Evidence { format: Format::SimulatedNitro, report, certificates: vec![] }
}

/// Evidence with this payload, signed as it should be.
pub(super) fn sealed(payload: &[u8]) -> Evidence {
    evidence(chain().seal(payload).unwrap())
}

/// Evidence of an honest document that `edit` changed before it was signed.
pub(super) fn edited(edit: impl FnOnce(&mut Document)) -> Evidence {
    let mut document = document();
    edit(&mut document);
    sealed(&document.payload())
}

/// Honest evidence of an enclave with another chain.
pub(super) fn under(chain: Chain) -> Evidence {
    let enclave = Enclave::new(Material::from(chain), Some(ROLE));
    evidence(enclave.quote(&REPORT_DATA, &TREE_ROOT, &PROVER).unwrap())
}

pub(super) fn inspected(evidence: &Evidence) -> Result<Claims, Rejection> {
    inspect(evidence, &simulation(), now())
}

pub(super) fn said(claims: &Claims) -> &NitroClaims {
    match claims.statement() {
        Statement::Nitro(nitro) => nitro,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(super) fn assert_malformed(evidence: &Evidence) {
    let outcome = inspected(evidence);
    assert!(matches!(outcome, Err(Rejection::Malformed(_))), "{outcome:?}");
}

#[track_caller]
pub(super) fn assert_untrusted(evidence: &Evidence) {
    let outcome = inspected(evidence);
    assert!(matches!(outcome, Err(Rejection::Untrusted(_))), "{outcome:?}");
}

//! AWS Nitro Enclaves: the attestation document and the certificates that it carries.
//!
//! Sources: "Nitro Enclaves Attestation Process" (aws-nitro-enclaves-nsm-api, docs/attestation_process.md, "AWS's text"
//! below), §2.2 for the document, §3 for its validation; RFC 8949 for CBOR, RFC 9052 and 9053 for COSE.

mod cbor;
mod chain;
mod document;
mod envelope;

use std::collections::BTreeMap;

use sealane_types::{Platform, TcbStatus, UnixSeconds};

use crate::claims::{Claims, NitroClaims, Revocation, Statement};
use crate::collateral::{Collateral, fingerprint};
use crate::evidence::Evidence;
use crate::limits::CLOCK_SKEW_SECONDS_MAX;
use crate::naming::Naming;
use crate::rejection::Rejection;
use chain::VerifiedKey;
use document::Document;
use envelope::Envelope;

/// Evidence of a real enclave, whose bundle begins with the pinned root; or simulated evidence: the same checks under
/// the root that it brings, whose fingerprint the policy pins.
pub(crate) fn inspect(
    evidence: &Evidence,
    collateral: &Collateral,
    now: UnixSeconds,
) -> Result<Claims, Rejection> {
    if !evidence.certificates.is_empty() {
        return Err(Rejection::Malformed("certificates beside a document that carries its own"));
    }
    let platform = evidence.platform();
    let envelope = Envelope::parse(&evidence.report)?;
    let document = Document::parse(envelope.payload)?;
    let root = document.bundle.first().copied().ok_or(Rejection::Malformed("the document has no root"))?;
    let naming = if platform == Platform::Simulated {
        Naming::Simulated
    } else {
        let pinned =
            collateral.nitro().ok_or(Rejection::CollateralMissing("no root of AWS Nitro Enclaves"))?;
        if root != pinned.der {
            return Err(Rejection::Untrusted("the document's root is not the pinned one"));
        }
        pinned.naming
    };
    let claims = statement(&document)?;
    if claims.timestamp().0 > now.plus(CLOCK_SKEW_SECONDS_MAX).0 {
        return Err(Rejection::Expired("a document from the future"));
    }
    let VerifiedKey { point, expires } = chain::verify(&document, naming, now)?;
    envelope.verify(&point)?;
    Ok(Claims {
        platform,
        root: fingerprint(root),
        report_data: document.user_data.and_then(|data| data.try_into().ok()),
        statement: Statement::Nitro(claims),
        tcb_status: Some(TcbStatus::UpToDate),
        revocation: Revocation::NotApplicable,
        expires,
        lists: Vec::new(),
        collateral: None,
    })
}

fn statement(document: &Document<'_>) -> Result<NitroClaims, Rejection> {
    let Document { module_id, timestamp, pcrs, public_key, user_data, nonce, .. } = document;
    let [Some(image), Some(kernel), Some(application), rest @ ..] = pcrs else {
        return Err(Rejection::Malformed("PCR0, PCR1 or PCR2 is missing"));
    };
    let registers: BTreeMap<_, _> =
        (3_u8..).zip(rest).filter_map(|(index, pcr)| pcr.map(|pcr| (index, pcr))).collect();
    Ok(NitroClaims {
        module_id: (*module_id).to_owned(),
        timestamp_ms: *timestamp,
        image: [*image, *kernel, *application],
        registers,
        user_data: user_data.map(<[u8]>::to_vec),
        nonce: nonce.map(<[u8]>::to_vec),
        public_key: public_key.map(<[u8]>::to_vec),
    })
}

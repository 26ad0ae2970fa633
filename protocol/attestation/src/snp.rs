//! AMD SEV-SNP: ATTESTATION_REPORT and the certificates of the key that signed it.
//!
//! Sources: "SEV Secure Nested Paging Firmware ABI Specification" (AMD 56860), table 23 for the report and
//! §4.3 for the guest policy; "VCEK Certificate and KDS Interface Specification" (AMD 57230), chapter 3 for
//! the certificates' extensions.

mod cache;
mod chain;
mod extensions;
mod issuer;
pub(crate) mod names;
pub(crate) mod piece;
mod protections;
mod pss;
mod report;
mod revocation;

use sealane_types::Platform;

use crate::as_of::AsOf;
use crate::claims::Claims;
use crate::collateral::{Collateral, fingerprint, issuers_identity};
use crate::evidence::Evidence;
use crate::naming::Naming;
use crate::rejection::Rejection;
use cache::ChainId;
use chain::{Issuers, verify_signing_certificate};

pub use cache::ChainCache;
pub(crate) use issuer::Issuer;
pub use report::vcek_ids;
pub(crate) use revocation::List;

/// Which key signs reports. Its certificate has another issuer and other extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SigningKey {
    /// The chip's own, derived from its fuses and TCB.
    Vcek,
    /// A cloud provider's, loaded into its chips.
    Vlek,
}

/// Evidence of real hardware: issuers are those that `collateral` pins, whatever the evidence brings.
pub(crate) fn inspect(
    evidence: &Evidence,
    collateral: &Collateral,
    as_of: AsOf,
    cache: &mut ChainCache,
) -> Result<Claims, Rejection> {
    let signer = evidence.certificates.first().ok_or(Rejection::Malformed("no VCEK"))?;
    let fingerprint = fingerprint(signer);
    let id = |issuers| ChainId { simulated: false, signer: fingerprint, issuers };
    for anchor in collateral.anchors() {
        if let Some(key) = cache.find(&id(anchor.identity), as_of.now) {
            return report::verify(&evidence.report, &key, Platform::SevSnp, anchor.root);
        }
    }
    let certificate = chain::parse(signer)?;
    let naming = collateral.snp_naming();
    naming.check(&certificate.tbs_certificate.subject)?;
    let issuer = names::issuer_product(&certificate.tbs_certificate.issuer, naming)
        .ok_or(Rejection::Untrusted("the VCEK's issuer is none of AMD's"))?;
    let anchor = collateral
        .anchors()
        .iter()
        .find(|anchor| (anchor.product, anchor.signing_key) == issuer)
        .ok_or(Rejection::CollateralMissing("no root for this product"))?;
    let issuers = Issuers {
        product: anchor.product,
        signing_key: anchor.signing_key,
        ark: &anchor.ark,
        ask: &anchor.ask,
        revocation_list: anchor.revocation_list.as_ref(),
    };
    let key = verify_signing_certificate(signer, &certificate, &issuers, as_of)?;
    let key = cache.keep(id(anchor.identity), key);
    report::verify(&evidence.report, &key, Platform::SevSnp, anchor.root)
}

/// Simulated evidence: the same checks under the root that it brings, whose fingerprint the policy pins.
/// Every name of the chain has to say SIM, so that such a root can never be taken for another.
pub(crate) fn inspect_simulated(
    evidence: &Evidence,
    as_of: AsOf,
    cache: &mut ChainCache,
) -> Result<Claims, Rejection> {
    let [signer, ask, ark] = evidence.certificates.as_slice() else {
        return Err(Rejection::Malformed("simulated evidence carries VCEK, ASK and ARK"));
    };
    let issuers = issuers_identity(ark, ask, None);
    let id = ChainId { simulated: true, signer: fingerprint(signer), issuers };
    if let Some(key) = cache.find(&id, as_of.now) {
        return report::verify(&evidence.report, &key, Platform::Simulated, fingerprint(ark));
    }
    let read = |certificate: &[u8]| {
        let parsed = chain::parse(certificate)?;
        Naming::Simulated.check(&parsed.tbs_certificate.subject)?;
        Ok(parsed)
    };
    let [certificate, ask_certificate, ark_certificate] = [read(signer)?, read(ask)?, read(ark)?];
    let subject = &ask_certificate.tbs_certificate.subject;
    let (product, signing_key) = names::issuer_product(subject, Naming::Simulated)
        .ok_or(Rejection::Untrusted("the simulated ASK names no product"))?;
    let issuer = |der: &[u8], certificate| Issuer::new(der, certificate).ok_or(chain::UNTRUSTED);
    let [root, issuing] = [issuer(ark, ark_certificate)?, issuer(ask, ask_certificate)?];
    let issuers = Issuers { product, signing_key, ark: &root, ask: &issuing, revocation_list: None };
    let key = cache.keep(id, verify_signing_certificate(signer, &certificate, &issuers, as_of)?);
    report::verify(&evidence.report, &key, Platform::Simulated, fingerprint(ark))
}

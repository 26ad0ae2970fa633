//! Intel's collateral, piece by piece: verified under the pinned root before it is kept.
//!
//! A key that signs here may be revoked by a list that is held as well. That is asked whenever either comes
//! ([`is_revoked`]), and again when pieces are put together ([`TdxCollateral`]).

use sealane_types::Fmspc;
use x509_cert::Certificate;

use super::chain::{self, RevocationList};
use super::collateral::TdxCollateral;
use super::documents::Documents;
use super::enclave::signed;
use super::identity::QeIdentity;
use super::names::{self, Role};
use super::provisioning::Provisioning;
use super::quote::Quote;
use super::root::TdxRoot;
use super::statement::Dates;
use super::tcb_info::TcbInfo;
use crate::limits::{CERTIFICATE_BYTES_MAX, STATEMENT_BYTES_MAX};
use crate::naming::Naming;
use crate::piece::{ListHead, PckAuthority, Piece, SignedStatement, Term};
use crate::rejection::Rejection;

/// TCB info, for which family, and its tcbEvaluationDataNumber.
pub(crate) fn verify_tcb_info(
    statement: &SignedStatement,
    root: &TdxRoot,
) -> Result<(Fmspc, u32, Term), Rejection> {
    check_size(statement)?;
    let info = TcbInfo::parse(statement.text.as_bytes())?;
    let term = verify_statement(statement, info.dates, root)?;
    Ok((info.fmspc, info.evaluation, term))
}

/// QE identity, and its tcbEvaluationDataNumber.
pub(crate) fn verify_identity(statement: &SignedStatement, root: &TdxRoot) -> Result<(u32, Term), Rejection> {
    check_size(statement)?;
    let identity = QeIdentity::parse(statement.text.as_bytes())?;
    let term = verify_statement(statement, identity.dates, root)?;
    Ok((identity.evaluation, term))
}

/// The root's own list.
pub(crate) fn verify_root_list(list: &[u8], root: &TdxRoot) -> Result<ListHead, Rejection> {
    verify_list(list, &root.certificate()?)
}

/// The list of an authority that the root certified, and which one.
pub(crate) fn verify_authority_list(
    list: &[u8],
    authority: &[u8],
    root: &TdxRoot,
) -> Result<(PckAuthority, ListHead), Rejection> {
    let authority = certified(authority, Role::Authority, root)?;
    let kind = names::authority(&authority.tbs_certificate.subject)
        .ok_or(Rejection::Untrusted("a certificate of Intel's hierarchy in another's place"))?;
    Ok((kind, verify_list(list, &authority)?))
}

/// Whether the root's list names the certificate of whoever signed a statement. Both were verified under one root; what of
/// them could not be read would count as revoked.
pub(crate) fn is_revoked(piece: &Piece, root_list: &[u8]) -> bool {
    let (Piece::TcbInfo(statement) | Piece::QeIdentity(statement)) = piece else { return false };
    let (Ok(list), Some(signer)) = (RevocationList::parse(root_list), chain::parse(&statement.signer)) else {
        return true;
    };
    list.revokes(&signer)
}

/// Puts pieces together into what quotes of one family are judged by.
pub(crate) fn assemble(
    info: &SignedStatement,
    identity: &SignedStatement,
    root_list: &[u8],
    list: &[u8],
    root: &TdxRoot,
) -> Result<TdxCollateral, Rejection> {
    let documents = Documents {
        info: info.text.as_bytes(),
        info_signature: &info.signature,
        info_signer: &info.signer,
        identity: identity.text.as_bytes(),
        identity_signature: &identity.signature,
        identity_signer: &identity.signer,
        root_list,
        list,
    };
    TdxCollateral::verify(&documents, root)
}

/// Of which family a quote's platform is and who certified it. Only a chain that leads to `root` says anything: strangers
/// could ask for any family otherwise.
pub(crate) fn platform_of(quote: &[u8], root: &TdxRoot) -> Option<(Fmspc, PckAuthority)> {
    let quote = Quote::parse(quote).ok()?;
    let provisioning = Provisioning::read(quote.certificates, Naming::Vendor).ok()?;
    provisioning.is_under(root).then_some(())?;
    Some((provisioning.platform.fmspc, provisioning.authority()?))
}

fn check_size(statement: &SignedStatement) -> Result<(), Rejection> {
    if statement.text.len() > STATEMENT_BYTES_MAX {
        return Err(Rejection::CollateralMissing("the TCB info or QE identity is too large"));
    }
    Ok(())
}

fn verify_statement(statement: &SignedStatement, dates: Dates, root: &TdxRoot) -> Result<Term, Rejection> {
    const UNTRUSTED: Rejection = Rejection::Untrusted("the signature of the TCB info or QE identity");
    let SignedStatement { text, signature, signer } = statement;
    let signer = certified(signer, Role::Signer, root)?;
    let key = chain::point(&signer).ok_or(UNTRUSTED)?;
    signed(&key, text.as_bytes(), signature).ok_or(UNTRUSTED)?;
    let until = dates.until.min(chain::dates(&signer).until);
    Ok(Term { from: dates.from, until })
}

/// A certificate for `role` that the root signed.
fn certified(certificate: &[u8], role: Role, root: &TdxRoot) -> Result<Certificate, Rejection> {
    const MALFORMED: Rejection =
        Rejection::CollateralMissing("a certificate of the collateral cannot be parsed");
    if certificate.len() > CERTIFICATE_BYTES_MAX {
        return Err(Rejection::CollateralMissing("a certificate of the collateral is too large"));
    }
    let parsed = chain::parse(certificate).ok_or(MALFORMED)?;
    names::check(&parsed, role, root.naming())?;
    if !chain::is_signed_by(certificate, &root.certificate()?) {
        return Err(Rejection::Untrusted("the signer of Intel's collateral"));
    }
    Ok(parsed)
}

fn verify_list(list: &[u8], issuer: &Certificate) -> Result<ListHead, Rejection> {
    let parsed = RevocationList::parse(list)?;
    if parsed.issuer != issuer.tbs_certificate.subject || !chain::is_signed_by(list, issuer) {
        return Err(Rejection::CollateralMissing("a revocation list is not signed by its issuer"));
    }
    Ok(parsed.head())
}

//! Intel TDX: quotes, the certificates of the platform that made them, and Intel's statements on such platforms.
//!
//! Sources: "Intel TDX DCAP Quoting Library API", appendix A for quotes; "Intel TDX Module ABI Specification" for TD
//! reports; "SGX PCK Certificate and CRL Profile Specification" for certificates; the API of Intel's provisioning
//! certification service, version 4, for collateral.

pub(crate) mod answer;
mod chain;
mod collateral;
mod documents;
mod enclave;
mod identity;
mod levels;
mod names;
mod pem;
pub(crate) mod piece;
mod platform;
mod provisioning;
mod quote;
mod report;
mod root;
mod statement;
mod tcb_info;

use sealane_types::{TcbStatus, TeeTcbSvn};

use crate::as_of::AsOf;
use crate::claims::{Claims, Revocation, Statement, TdxClaims};
use crate::collateral::Collateral;
use crate::evidence::Evidence;
use crate::naming::Naming;
use crate::rejection::Rejection;
use documents::Documents;
use levels::Verdict;
use provisioning::Provisioning;
use quote::Quote;
use report::TdReport;

pub use collateral::TdxCollateral;
pub use root::TdxRoot;

/// Evidence of real hardware: roots and statements are those that `collateral` holds, whatever the evidence brings.
pub(crate) fn inspect(
    evidence: &Evidence,
    collateral: &Collateral,
    as_of: AsOf,
) -> Result<Claims, Rejection> {
    if !evidence.certificates.is_empty() {
        return Err(Rejection::Malformed("certificates beside a quote, which brings its own"));
    }
    let quote = Quote::parse(&evidence.report)?;
    let test = collateral.tdx().iter().any(|collateral| collateral.naming() == Naming::Either);
    let naming = if test { Naming::Either } else { Naming::Vendor };
    let provisioning = Provisioning::read(quote.certificates, naming)?;
    // Of several roots for one family, the one that the quote's chain leads to.
    let of_family = || collateral.tdx().iter().filter(|collateral| provisioning.belongs_to(collateral));
    let collateral = of_family()
        .find(|collateral| collateral.root_certificate() == provisioning.root())
        .or_else(|| of_family().next())
        .ok_or(Rejection::CollateralMissing("no TDX collateral for this platform"))?;
    verify(evidence, &quote, &provisioning, collateral, as_of)
}

/// Simulated evidence: the same checks under the root and with the statements that it brings. The policy pins the root,
/// and every name of every chain has to say SIM, so that such a root can never be taken for another.
pub(crate) fn inspect_simulated(evidence: &Evidence, as_of: AsOf) -> Result<Claims, Rejection> {
    let [signer, info, info_signature, identity, identity_signature, root_list, list] =
        evidence.certificates.as_slice()
    else {
        return Err(Rejection::Malformed("simulated evidence carries a signer, two statements, two lists"));
    };
    let quote = Quote::parse(&evidence.report)?;
    let provisioning = Provisioning::read(quote.certificates, Naming::Simulated)?;
    let documents = Documents {
        info,
        info_signature,
        info_signer: signer,
        identity,
        identity_signature,
        identity_signer: signer,
        root_list,
        list,
    };
    let collateral = TdxCollateral::verify(&documents, &TdxRoot::simulated(provisioning.root())?)?;
    if !provisioning.belongs_to(&collateral) {
        return Err(Rejection::CollateralMissing("the simulated collateral is for another platform"));
    }
    verify(evidence, &quote, &provisioning, &collateral, as_of)
}

fn verify(
    evidence: &Evidence,
    quote: &Quote<'_>,
    provisioning: &Provisioning,
    collateral: &TdxCollateral,
    as_of: AsOf,
) -> Result<Claims, Rejection> {
    collateral.check_dates(as_of)?;
    let key = provisioning.verify(collateral, as_of.now)?;
    let enclave = enclave::verify(quote, &key.point, collateral.identity())?;
    // From here on the TD report is the platform's own word.
    let report = TdReport::parse(quote)?;
    let platform = &provisioning.platform;
    let Verdict { statuses, advisories, relaunch_advised } =
        levels::judge(collateral.info(), platform, &report, enclave)?;
    // Weakest first.
    let tcb_status = statuses.first().copied().unwrap_or(TcbStatus::Revoked);
    Ok(Claims {
        platform: evidence.platform(),
        root: *collateral.root(),
        report_data: Some(report.report_data),
        statement: Statement::Tdx(TdxClaims {
            quote_version: quote.version,
            measurement: report.measurement,
            mr_config_id: report.mr_config_id,
            mr_owner: report.mr_owner,
            mr_owner_config: report.mr_owner_config,
            service_tds: report.service_tds,
            attributes: report.attributes,
            xfam: report.xfam,
            fmspc: platform.fmspc,
            platform_id: platform.id,
            mr_seam: report.mr_seam,
            tee_tcb_svn: TeeTcbSvn::new(report.tcb),
            current_tee_tcb_svn: report.current_tcb.map(TeeTcbSvn::new),
            dynamic_platform: platform.dynamic_platform,
            cached_keys: platform.cached_keys,
            smt: platform.smt,
            statuses,
            relaunch_advised,
            advisories,
            tcb_evaluation: collateral.tcb_evaluation(),
        }),
        tcb_status: Some(tcb_status),
        revocation: Revocation::Checked,
        expires: key.expires.min(collateral.certificates_expire()),
        lists: collateral.list_heads(),
        collateral: Some(collateral.statements_term()),
    })
}

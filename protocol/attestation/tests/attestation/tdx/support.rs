//! Honest simulated evidence; each test spoils one thing.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sealane_attestation::{Claims, Collateral, Evidence, Format, Rejection, Statement, TdxClaims, inspect};
use sealane_simulated::Quote;
use sealane_simulated::forge::Dates;
use sealane_simulated::tdx::forge::{Authority, Edits, Place, Recipe};
use sealane_simulated::tdx::{Body, Draft, Material, Platform};
use sealane_types::UnixSeconds;
use serde_json::Value;
use x509_cert::certificate::TbsCertificate;
use x509_cert::crl::TbsCertList;

pub(crate) const INITDATA: &[u8] = b"sealane simulated initdata\nnamespace: demo\npeer: embedder\n";
pub(crate) const REPORT_DATA: [u8; 64] = [7; 64];

pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::generate().unwrap());
pub(crate) static OTHER_AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::generate().unwrap());
pub(crate) static MATERIAL: LazyLock<Material> = LazyLock::new(|| AUTHORITY.issue(&recipe()).unwrap());

pub(crate) fn recipe() -> Recipe {
    Recipe::new().unwrap()
}

pub(crate) fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}

pub(crate) fn platform(material: &Material) -> Platform {
    Platform::new(material.clone(), Some(INITDATA)).unwrap()
}

pub(crate) fn evidence(quote: Quote) -> Evidence {
    Evidence { format: Format::SimulatedTdx, report: quote.report, certificates: quote.certificates }
}

pub(crate) fn simulation() -> Collateral {
    Collateral::empty().allowing_simulated()
}

pub(crate) fn inspected(evidence: &Evidence) -> Result<Claims, Rejection> {
    inspect(evidence, &simulation(), now())
}

pub(crate) fn quoted_by(material: &Material) -> Evidence {
    evidence(platform(material).quote(REPORT_DATA).unwrap())
}

pub(crate) fn said(claims: &Claims) -> &TdxClaims {
    match claims.statement() {
        Statement::Tdx(tdx) => tdx,
        other => panic!("{other:?}"),
    }
}

/// What becomes of honest evidence whose quote `edit` changed before it was signed.
pub(crate) fn drafted(body: Body, edit: impl FnOnce(&mut Draft)) -> Result<Claims, Rejection> {
    let quote = platform(&MATERIAL).quoting(body).quote_edited(REPORT_DATA, edit).unwrap();
    inspected(&evidence(quote))
}

/// What becomes of an honest quote under chains and collateral to order.
pub(crate) fn issued(recipe: &Recipe, edits: Edits<'_>) -> Result<Claims, Rejection> {
    inspected(&quoted_by(&AUTHORITY.issue_edited(recipe, edits).unwrap()))
}

pub(crate) fn with_certificate(at: Place, edit: impl Fn(&mut TbsCertificate)) -> Result<Claims, Rejection> {
    let edit = |place: Place, certificate: &mut TbsCertificate| {
        if place == at {
            edit(certificate);
        }
    };
    issued(&recipe(), Edits { certificate: &edit, ..Edits::default() })
}

pub(crate) fn with_list(at: Place, edit: impl Fn(&mut TbsCertList)) -> Result<Claims, Rejection> {
    let edit = |place: Place, list: &mut TbsCertList| {
        if place == at {
            edit(list);
        }
    };
    issued(&recipe(), Edits { list: &edit, ..Edits::default() })
}

pub(crate) fn with_info(edit: impl Fn(&mut Value)) -> Result<Claims, Rejection> {
    issued(&recipe(), Edits { info: &edit, ..Edits::default() })
}

pub(crate) fn with_identity(edit: impl Fn(&mut Value)) -> Result<Claims, Rejection> {
    issued(&recipe(), Edits { identity: &edit, ..Edits::default() })
}

/// From and until, in seconds from now.
pub(crate) fn dates(from: i64, until: i64) -> Dates {
    let at = |offset: i64| Duration::from_secs(now().0.checked_add_signed(offset).unwrap());
    Dates { from: at(from), until: at(until) }
}

#[track_caller]
pub(crate) fn assert_untrusted(outcome: Result<Claims, Rejection>) {
    assert!(matches!(outcome, Err(Rejection::Untrusted(_))), "{outcome:?}");
}

#[track_caller]
pub(crate) fn assert_malformed(outcome: Result<Claims, Rejection>) {
    assert!(matches!(outcome, Err(Rejection::Malformed(_))), "{outcome:?}");
}

#[track_caller]
pub(crate) fn assert_missing(outcome: Result<Claims, Rejection>) {
    assert!(matches!(outcome, Err(Rejection::CollateralMissing(_))), "{outcome:?}");
}

//! Intel TDX: a quote with the collateral of its platform.

use std::collections::BTreeSet;

use sealane_attestation::{
    AnchorError, Collateral, Evidence, Format, Rejection, Statement, TdxCollateral, TdxRoot,
};
use sealane_policy::TdxPermissions;
use sealane_types::{Platform, TcbStatus};

use super::entry::Entry;
use super::trust::Trust;
use super::verdict::{Unjudged, Verdict, reason, verdict};

pub(super) fn judge(entry: &Entry) -> Result<Verdict, Unjudged> {
    let (permissions, statuses) = demands(entry)?;
    let evidence = Evidence { format: Format::Tdx, report: entry.file("quote")?, certificates: vec![] };
    let brought = entry.root_file("root")?.map(|root| match entry.trust {
        Trust::TestRoot => TdxRoot::test_root(&root),
        Trust::Vendor | Trust::Files => TdxRoot::new(&root),
    });
    let unusable = |error: AnchorError| Unjudged::Refused(format!("EvidenceUntrusted: {error}"));
    let root = brought.unwrap_or_else(|| Ok(TdxRoot::intel())).map_err(unusable)?;
    entry.trust.accept(root.fingerprint() == TdxRoot::intel().fingerprint())?;
    let tdx = TdxCollateral::from_json_under(&entry.file("collateral")?, &root)
        .map_err(|rejection| Unjudged::Refused(reason(&rejection)))?;
    let collateral = Collateral::empty().with_tdx(tdx);
    Ok(verdict(&evidence, &collateral, entry.now, |claims| match claims.statement() {
        Statement::Tdx(tdx) => {
            tdx.permitted(&permissions)?;
            tdx.accepted(&statuses)
        }
        _ => Err(Rejection::PlatformNotAllowed(Platform::Tdx)),
    }))
}

fn demands(entry: &Entry) -> Result<(TdxPermissions, BTreeSet<TcbStatus>), Unjudged> {
    let policy = &entry.policy;
    let permissions = TdxPermissions {
        debug: policy.flag("allow_debug", false)?,
        migration: policy.flag("allow_migration", false)?,
        sept_ve: policy.flag("allow_sept_ve", false)?,
        perfmon: policy.flag("allow_perfmon", false)?,
        key_locker: policy.flag("allow_key_locker", false)?,
        dynamic_platform: policy.flag("allow_dynamic_platform", false)?,
        cached_keys: policy.flag("allow_cached_keys", false)?,
        smt: policy.flag("allow_smt", false)?,
        service_tds: BTreeSet::new(),
    };
    let mut statuses = BTreeSet::new();
    for word in policy.words("tcb_status", &["UpToDate"])? {
        let meant = statuses_of(&word)
            .ok_or_else(|| Unjudged::Malformed(format!("policy key `tcb_status`: there is no `{word}`")))?;
        statuses.extend(meant);
    }
    policy.close()?;
    Ok((permissions, statuses))
}

/// Intel's words ("tcbStatus" of its TCB info). Two of them are two of ours at once.
fn statuses_of(word: &str) -> Option<Vec<TcbStatus>> {
    use TcbStatus::{ConfigurationNeeded, OutOfDate, SoftwareHardeningNeeded};
    match word {
        "SWHardeningNeeded" => Some(vec![SoftwareHardeningNeeded]),
        "ConfigurationAndSWHardeningNeeded" => Some(vec![ConfigurationNeeded, SoftwareHardeningNeeded]),
        "OutOfDateConfigurationNeeded" => Some(vec![OutOfDate, ConfigurationNeeded]),
        word => word.parse().ok().map(|status| vec![status]),
    }
}

//! AMD SEV-SNP: a report with the certificate of the key that signed it.

use sealane_attestation::{Anchor, AnchorError, Collateral, Evidence, Format, Rejection, Statement};
use sealane_policy::SnpPermissions;
use sealane_types::Platform;

use super::entry::Entry;
use super::verdict::{Unjudged, Verdict, verdict};

pub(super) fn judge(entry: &Entry) -> Result<Verdict, Unjudged> {
    let permissions = permissions(entry)?;
    let evidence = Evidence {
        format: Format::SevSnp,
        report: entry.file("report")?,
        certificates: vec![entry.file("vek")?],
    };
    let collateral = collateral(entry)?;
    Ok(verdict(&evidence, &collateral, entry.now, |claims| match claims.statement() {
        Statement::SevSnp(snp) => snp.permitted(&permissions),
        _ => Err(Rejection::PlatformNotAllowed(Platform::SevSnp)),
    }))
}

/// The chain that the entry brings, or else the pinned ones.
fn collateral(entry: &Entry) -> Result<Collateral, Unjudged> {
    let builtin = Collateral::builtin();
    let (Some(ark), Some(ask)) = (entry.optional_file("ark")?, entry.optional_file("ask")?) else {
        return Ok(builtin);
    };
    let unusable = |error: AnchorError| Unjudged::Refused(format!("EvidenceUntrusted: {error}"));
    let mut anchor = Anchor::new(&ark, &ask).map_err(unusable)?;
    entry.trust.accept(builtin.anchors().iter().any(|pinned| pinned.root() == anchor.root()))?;
    if let Some(list) = entry.optional_file("crl")? {
        anchor = anchor.with_revocation_list(&list).map_err(unusable)?;
    }
    Ok(Collateral::empty().with_anchor(anchor))
}

/// Settings of a guest that are no weakness by themselves are allowed unless the entry says otherwise.
fn permissions(entry: &Entry) -> Result<SnpPermissions, Unjudged> {
    let policy = &entry.policy;
    let vmpl_max = policy.number("max_vmpl", 0)?;
    let permissions = SnpPermissions {
        debug: policy.flag("allow_debug", false)?,
        migration: policy.flag("allow_migration", false)?,
        vlek: policy.flag("allow_vlek", false)?,
        smt: policy.flag("allow_smt", true)?,
        cxl: policy.flag("allow_cxl", true)?,
        tio: policy.flag("allow_tio", true)?,
        vmpl_max: u8::try_from(vmpl_max).map_err(|_| {
            Unjudged::Malformed(format!("policy key `max_vmpl`: there is no VMPL {vmpl_max}"))
        })?,
    };
    policy.close()?;
    Ok(permissions)
}

//! AMD SEV-SNP: a report with the certificate of the key that signed it.

use sealane_attestation::{Anchor, AnchorError, Collateral, Evidence, Format, Rejection, Statement};
use sealane_policy::{SnpPermissions, Tcb};
use sealane_types::Platform;

use super::entry::Entry;
use super::trust::Trust;
use super::verdict::{Unjudged, Verdict, verdict};

pub(super) fn judge(entry: &Entry) -> Result<Verdict, Unjudged> {
    let (permissions, floor) = (permissions(entry)?, floor(entry)?);
    entry.policy.close()?;
    let evidence = Evidence {
        format: Format::SevSnp,
        report: entry.file("report")?,
        certificates: vec![entry.file("vek")?],
    };
    let collateral = collateral(entry)?;
    Ok(verdict(&evidence, &collateral, entry.now, |claims| match claims.statement() {
        Statement::SevSnp(snp) => {
            snp.permitted(&permissions)?;
            snp.reaches(&floor)
        }
        _ => Err(Rejection::PlatformNotAllowed(Platform::SevSnp)),
    }))
}

/// The chain that the entry brings, or else the pinned ones.
fn collateral(entry: &Entry) -> Result<Collateral, Unjudged> {
    let builtin = Collateral::builtin();
    let (Some(ark), Some(ask)) = (entry.root_file("ark")?, entry.root_file("ask")?) else {
        return Ok(builtin);
    };
    let unusable = |error: AnchorError| Unjudged::Refused(format!("EvidenceUntrusted: {error}"));
    let anchor = match entry.trust {
        Trust::TestRoot => Anchor::test_root(&ark, &ask),
        Trust::Vendor | Trust::Files => Anchor::new(&ark, &ask),
    };
    let mut anchor = anchor.map_err(unusable)?;
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
    Ok(SnpPermissions {
        debug: policy.flag("allow_debug", false)?,
        migration: policy.flag("allow_migration", false)?,
        vlek: policy.flag("allow_vlek", false)?,
        smt: policy.flag("allow_smt", true)?,
        cxl: policy.flag("allow_cxl", true)?,
        tio: policy.flag("allow_tio", true)?,
        milan: policy.flag("allow_milan", true)?,
        platform_bits: 0,
        vmpl_max: u8::try_from(vmpl_max).map_err(|_| {
            Unjudged::Malformed(format!("policy key `max_vmpl`: there is no VMPL {vmpl_max}"))
        })?,
    })
}

/// `min_tcb`, whose parts are named as AMD's tools name them.
fn floor(entry: &Entry) -> Result<Tcb, Unjudged> {
    let parts = entry.policy.numbers("min_tcb", &["fmc", "bl", "tee", "snp", "uc"])?;
    let part = |name: &str| {
        let level = parts.get(name).copied().map(u8::try_from).transpose();
        level.map_err(|_| Unjudged::Malformed(format!("policy key `min_tcb`: `{name}` is at most 255")))
    };
    Ok(Tcb {
        fmc: part("fmc")?,
        bootloader: part("bl")?,
        tee: part("tee")?,
        snp: part("snp")?,
        microcode: part("uc")?,
    })
}

//! AWS Nitro Enclaves: an attestation document.

use sealane_attestation::{AnchorError, Collateral, Evidence, Format, Rejection, Statement};
use sealane_policy::{NitroPermissions, NitroReference};
use sealane_types::Platform;

use super::entry::Entry;
use super::trust::Trust;
use super::verdict::{Unjudged, Verdict, verdict};

pub(super) fn judge(entry: &Entry) -> Result<Verdict, Unjudged> {
    let permissions = NitroPermissions { debug: entry.policy.flag("allow_debug", false)? };
    let most_seconds = entry.policy.number("max_age", NitroReference::default().max_age_seconds)?;
    entry.policy.close()?;
    let evidence = Evidence { format: Format::Nitro, report: entry.file("doc")?, certificates: vec![] };
    let collateral = collateral(entry)?;
    Ok(verdict(&evidence, &collateral, entry.now, |claims| match claims.statement() {
        Statement::Nitro(nitro) => {
            nitro.permitted(&permissions)?;
            nitro.fresh(most_seconds, entry.now)
        }
        _ => Err(Rejection::PlatformNotAllowed(Platform::Nitro)),
    }))
}

/// The root that the entry brings, or else the pinned one.
fn collateral(entry: &Entry) -> Result<Collateral, Unjudged> {
    let builtin = Collateral::builtin();
    let Some(root) = entry.root_file("root")? else { return Ok(builtin) };
    let unusable = |error: AnchorError| Unjudged::Refused(format!("EvidenceUntrusted: {error}"));
    let brought = match entry.trust {
        Trust::TestRoot => Collateral::empty().with_nitro_test_root(&root),
        Trust::Vendor | Trust::Files => Collateral::empty().with_nitro_root(&root),
    };
    let brought = brought.map_err(unusable)?;
    entry.trust.accept(brought.nitro_root() == builtin.nitro_root())?;
    Ok(brought)
}

//! What evidence of hardware is judged by: the pinned roots, and a bundle that an owner of the trusted policy signed.

use std::path::Path;

use anyhow::{Context, Result};
use sealane_attestation::limits::BUNDLE_FILE_BYTES_MAX;
use sealane_attestation::{Collateral, Stock, VendorRoots, bundle};
use sealane_policy::VerifiedPolicy;

use crate::source::{read_bytes, shown};
use crate::{clock, output};

/// Reads the bundle at `path`, if there is one. Pieces of it that are not in order are named and left out.
pub(super) fn collateral(
    path: Option<&Path>,
    policy: &VerifiedPolicy,
    simulated: bool,
) -> Result<Collateral> {
    let roots = VendorRoots::pinned();
    let mut stock = Stock::new(if simulated { roots.allowing_simulated() } else { roots });
    if let Some(path) = path {
        let now = clock::now().unix();
        let file = read_bytes(path, BUNDLE_FILE_BYTES_MAX as u64, "it is no collateral")?;
        let bundle =
            bundle::open(&file, &policy.document().authorities.keys, now).with_context(|| shown(path))?;
        for (place, rejection) in stock.adopt(&bundle, now)?.refused {
            output::say(&format!("warning: piece {place} of {} is left out: {rejection}", shown(path)));
        }
    }
    let (collateral, problems) = stock.assemble(0);
    for problem in problems {
        output::say(&format!("warning: {problem}"));
    }
    Ok(collateral)
}

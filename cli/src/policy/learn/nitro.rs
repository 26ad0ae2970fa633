//! What a Nitro document lets one pin.

use anyhow::Result;
use sealane_attestation::NitroClaims;
use sealane_policy::{NitroMeasurement, NitroPermissions, NitroReference};

use super::{Allow, Wishes, permitted};

/// `module_id` is not pinned: it names one start of one enclave.
pub(super) fn reference(claims: &NitroClaims, wishes: &Wishes) -> Result<NitroReference> {
    permitted(claims.permitted(&NitroPermissions { debug: wishes.allow(Allow::Debug) }))?;
    let register = |index| claims.pcr(index).copied();
    // PCR8 of an image that nobody signed is zero.
    let signer = register(8).filter(|pcr| pcr.as_bytes().iter().any(|byte| *byte != 0));
    let measurement = NitroMeasurement {
        pcr: *claims.image(),
        pcr3: register(3),
        pcr4: if wishes.pin_chip { register(4) } else { None },
        pcr8: signer,
    };
    Ok(NitroReference {
        measurements: [measurement].into(),
        permissions: NitroPermissions { debug: claims.debug() },
        ..NitroReference::default()
    })
}

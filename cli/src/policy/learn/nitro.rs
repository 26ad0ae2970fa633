//! What a Nitro document lets one pin.

use anyhow::Result;
use sealane_attestation::NitroClaims;
use sealane_policy::{NitroMeasurement, NitroPermissions, NitroReference};

use super::{Allow, Wishes, permitted};

/// `module_id` is not pinned: it names one start of one enclave.
pub(super) fn reference(claims: &NitroClaims, wishes: &Wishes) -> Result<NitroReference> {
    permitted(claims.permitted(&NitroPermissions { debug: wishes.allow(Allow::Debug) }))?;
    let mut measurement = NitroMeasurement::of(*claims.image());
    for index in [NitroMeasurement::ROLE, NitroMeasurement::INSTANCE, NitroMeasurement::SIGNER] {
        let Some(pcr) = claims.pcr(index) else { continue };
        let pinned = match index {
            NitroMeasurement::INSTANCE => wishes.pin_chip,
            // That of an image that nobody signed is zero.
            NitroMeasurement::SIGNER => pcr.as_bytes().iter().any(|byte| *byte != 0),
            _ => true,
        };
        if pinned {
            measurement.registers.insert(index, *pcr);
        }
    }
    Ok(NitroReference {
        measurements: [measurement].into(),
        permissions: NitroPermissions { debug: claims.debug() },
        ..NitroReference::default()
    })
}

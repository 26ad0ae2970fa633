//! What SEV-SNP evidence lets one pin.

use anyhow::{Context, Result};
use sealane_attestation::{GuestIdentity, Mitigations, SnpClaims, Tcb as Found};
use sealane_policy::{SnpFirmware, SnpIdentity, SnpPermissions, SnpReference, Tcb};
use sealane_types::MitigationVector;

use super::{Allow, Wishes, permitted};

/// Highest privilege level of SEV-SNP.
const VMPL_MAX: u8 = 3;

pub(super) fn reference(claims: &SnpClaims, wishes: &Wishes) -> Result<SnpReference> {
    permitted(claims.permitted(&allowed(wishes)))?;
    let chip = if wishes.pin_chip {
        Some(*claims.chip_id().context("--pin-chip: the evidence masks the id of its chip")?)
    } else {
        None
    };
    Ok(SnpReference {
        measurements: [*claims.measurement()].into(),
        host_data: [*claims.host_data()].into(),
        any_initdata: false,
        products: [claims.product()].into(),
        chip_ids: chip.into_iter().collect(),
        identity: identity(claims.identity()),
        min_tcb: floor(claims),
        min_firmware: Some(firmware(claims)).filter(|found| found.major > 0),
        min_guest_abi: Some(claims.guest_abi()).filter(|found| found.major > 0),
        mitigations: claims.mitigations().and_then(mitigations),
        protections: claims.protections().clone(),
        vlek_providers: claims.provider().map(str::to_owned).into_iter().collect(),
        permissions: claims.needs().context("a VMPL that SEV-SNP does not have")?,
    })
}

fn allowed(wishes: &Wishes) -> SnpPermissions {
    SnpPermissions {
        debug: wishes.allow(Allow::Debug),
        migration: wishes.allow(Allow::Migration),
        vlek: wishes.allow(Allow::Vlek),
        smt: wishes.allow(Allow::Smt),
        cxl: wishes.allow(Allow::Cxl),
        tio: wishes.allow(Allow::Tio),
        milan: wishes.allow(Allow::Milan),
        // Whoever knows what a bit means that this release does not writes it by hand.
        platform_bits: 0,
        vmpl_max: if wishes.allow(Allow::Vmpl) { VMPL_MAX } else { 0 },
    }
}

/// Without a key that signed it, an ID block says what whoever started the guest liked.
fn identity(found: &GuestIdentity) -> SnpIdentity {
    let GuestIdentity { id_key, author_key, family_id, image_id, svn } = *found;
    if id_key.is_none() && author_key.is_none() {
        return SnpIdentity::default();
    }
    SnpIdentity {
        id_keys: id_key.into_iter().collect(),
        author_keys: author_key.into_iter().collect(),
        family_ids: [family_id].into(),
        image_ids: [image_id].into(),
        min_guest_svn: Some(svn),
    }
}

/// The reported TCB, unless the committed or the launch TCB lies lower: the floor is held against all three.
fn floor(claims: &SnpClaims) -> Tcb {
    let tcb = claims.tcb();
    let versions = [tcb.reported, tcb.committed, tcb.launch];
    let least = |part: fn(&Found) -> u8| versions.iter().map(part).min();
    Tcb {
        fmc: versions.iter().filter_map(|version| version.fmc).min(),
        bootloader: least(|version| version.bootloader),
        tee: least(|version| version.tee),
        snp: least(|version| version.snp),
        microcode: least(|version| version.microcode),
    }
}

/// The floor is held against both.
fn firmware(claims: &SnpClaims) -> SnpFirmware {
    claims.firmware().current.min(claims.firmware().committed)
}

/// Those that were there at launch and still are, if any.
fn mitigations(found: &Mitigations) -> Option<MitigationVector> {
    let both = found.launch.bits() & found.current.bits();
    (both != 0).then_some(MitigationVector::from_bits(both))
}

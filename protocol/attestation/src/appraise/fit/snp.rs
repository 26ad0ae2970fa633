//! Whether an SEV-SNP report shows what an entry asks for.

use sealane_policy::{Pinnable, SnpIdentity, SnpReference};

use super::require;
use crate::aspect::Aspect;
use crate::claims::{FirmwareVersions, SnpClaims};
use crate::rejection::Rejection;

type Check = fn(&SnpClaims, &SnpReference) -> Result<(), Rejection>;

/// From the coarse to the fine.
pub(super) const CHECKS: &[(Aspect, Check)] = &[
    (Aspect::Measurement, measurement),
    (Aspect::HostData, host_data),
    (Aspect::GuestKeys, guest_keys),
    (Aspect::GuestLabels, guest_labels),
    (Aspect::GuestSvn, guest_svn),
    (Aspect::Product, product),
    (Aspect::Chip, chip),
    (Aspect::Provider, provider),
    (Aspect::Tcb, tcb),
    (Aspect::Firmware, firmware),
    (Aspect::GuestAbi, guest_abi),
    (Aspect::Mitigations, mitigations),
    (Aspect::Protections, protections),
    (Aspect::Permissions, permissions),
];

/// What this evidence carries and the entry leaves open, beyond what is missing for any evidence. A provider concerns
/// those alone whose key a provider holds, the FMC those that have one; nobody releases one for a simulation.
pub(super) fn absent(claims: &SnpClaims, reference: &SnpReference, real: bool) -> Vec<Pinnable> {
    let open = claims.provider().is_some() && reference.accepts_any_provider();
    let fmc = real && claims.tcb().reported.fmc.is_some() && reference.min_tcb.fmc.is_none();
    let values = [(fmc, Pinnable::TcbFmc), (open, Pinnable::VlekProviders)];
    values.into_iter().filter_map(|(open, value)| open.then_some(value)).collect()
}

/// Unlike the values below, measurements are never left open: an entry without any fits nothing.
fn measurement(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    require(reference.measurements.contains(claims.measurement()), Rejection::Measurement)
}

fn host_data(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let accepted = reference.host_data.is_empty() || reference.host_data.contains(claims.host_data());
    require(accepted, Rejection::HostData)
}

/// A guest without an ID block, or without an author, fits no pinned key.
fn guest_keys(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let SnpIdentity { id_keys, author_keys, .. } = &reference.identity;
    let identity = claims.identity();
    let signed = id_keys.is_empty() || identity.id_key.is_some_and(|key| id_keys.contains(&key));
    let authored =
        author_keys.is_empty() || identity.author_key.is_some_and(|key| author_keys.contains(&key));
    require(signed && authored, Rejection::GuestKey)
}

fn guest_labels(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let SnpIdentity { family_ids, image_ids, .. } = &reference.identity;
    let identity = claims.identity();
    let family = family_ids.is_empty() || family_ids.contains(&identity.family_id);
    let image = image_ids.is_empty() || image_ids.contains(&identity.image_id);
    require(family && image, Rejection::GuestLabel)
}

fn guest_svn(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let found = claims.identity().svn;
    let reached = reference.identity.min_guest_svn.is_none_or(|floor| found >= floor);
    require(reached, Rejection::GuestSvnTooLow { found })
}

fn product(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let accepted = reference.products.is_empty() || reference.products.contains(&claims.product());
    require(accepted, Rejection::Product)
}

/// A masked chip id fits no pinned one.
fn chip(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let pinned = |chip| reference.chip_ids.contains(chip);
    require(reference.chip_ids.is_empty() || claims.chip_id().is_some_and(pinned), Rejection::Chip)
}

/// A chip's own key has no provider, so none is asked of it.
fn provider(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let providers = &reference.vlek_providers;
    let pinned = |provider: &str| providers.is_empty() || providers.contains(provider);
    require(claims.provider().is_none_or(pinned), Rejection::Provider)
}

fn tcb(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    claims.reaches(&reference.min_tcb)
}

fn firmware(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let FirmwareVersions { current, committed } = *claims.firmware();
    let found = current.min(committed);
    require(reference.min_firmware.is_none_or(|floor| found >= floor), Rejection::FirmwareTooOld { found })
}

fn guest_abi(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let found = claims.guest_abi();
    require(reference.min_guest_abi.is_none_or(|floor| found >= floor), Rejection::GuestAbiTooLow { found })
}

/// A report that is too old to tell has none.
fn mitigations(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let Some(required) = reference.mitigations else { return Ok(()) };
    require(claims.mitigations().is_some_and(|found| found.include(required)), Rejection::Mitigations)
}

fn protections(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    match reference.protections.difference(claims.protections()).next() {
        Some(missing) => Err(Rejection::Protection(*missing)),
        None => Ok(()),
    }
}

fn permissions(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    claims.permitted(&reference.permissions)
}

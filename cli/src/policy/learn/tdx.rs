//! What TDX evidence lets one pin.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use sealane_attestation::TdxClaims;
use sealane_policy::{TdxPermissions, TdxReference};
use sealane_types::TcbStatus;

use super::{Allow, Wishes, permitted};

pub(super) fn reference(claims: &TdxClaims, wishes: &Wishes) -> Result<TdxReference> {
    Ok(TdxReference {
        measurements: [*claims.measurement()].into(),
        mr_config_ids: [*claims.mr_config_id()].into(),
        any_initdata: false,
        mr_owners: [*claims.mr_owner()].into(),
        mr_owner_configs: [*claims.mr_owner_config()].into(),
        fmspcs: [claims.fmspc()].into(),
        platform_ids: if wishes.pin_chip {
            claims.platform_id().into_iter().collect()
        } else {
            BTreeSet::new()
        },
        // A module is updated under its guests, so that it is judged by its version and Intel's word.
        mr_seams: BTreeSet::new(),
        min_tee_tcb_svn: Some(claims.tee_tcb_svn()),
        refused_advisories: BTreeSet::new(),
        attributes: [claims.attributes()].into(),
        xfams: [claims.xfam()].into(),
        tcb_statuses: statuses(claims, wishes)?,
        min_tcb_evaluation: Some(claims.tcb_evaluation()),
        permissions: permissions(claims, wishes)?,
    })
}

/// What Intel says now, and UpToDate, which an update makes of it.
fn statuses(claims: &TdxClaims, wishes: &Wishes) -> Result<BTreeSet<TcbStatus>> {
    for status in claims.statuses() {
        let word = match status {
            TcbStatus::UpToDate => continue,
            TcbStatus::SoftwareHardeningNeeded => Allow::SoftwareHardeningNeeded,
            TcbStatus::ConfigurationNeeded => Allow::ConfigurationNeeded,
            TcbStatus::OutOfDate => Allow::OutOfDate,
            TcbStatus::Revoked => bail!("Intel revoked the platform, which no policy can accept"),
        };
        if !wishes.allow(word) {
            bail!("{}; if the owners mean it, --allow {word}", word.words());
        }
    }
    let mut statuses = claims.statuses().clone();
    statuses.insert(TcbStatus::UpToDate);
    Ok(statuses)
}

/// The fewest of those allowed that the evidence needs.
fn permissions(claims: &TdxClaims, wishes: &Wishes) -> Result<TdxPermissions> {
    let services =
        if wishes.allow(Allow::ServiceTd) { claims.service_tds().clone() } else { BTreeSet::new() };
    let mut permissions = TdxPermissions {
        debug: wishes.allow(Allow::Debug),
        migration: wishes.allow(Allow::Migration),
        sept_ve: wishes.allow(Allow::SeptVe),
        perfmon: wishes.allow(Allow::Perfmon),
        key_locker: wishes.allow(Allow::KeyLocker),
        dynamic_platform: wishes.allow(Allow::DynamicPlatform),
        cached_keys: wishes.allow(Allow::CachedKeys),
        smt: wishes.allow(Allow::Smt),
        service_tds: services,
    };
    permitted(claims.permitted(&permissions))?;
    let flags: [fn(&mut TdxPermissions) -> &mut bool; 8] = [
        |permissions| &mut permissions.debug,
        |permissions| &mut permissions.migration,
        |permissions| &mut permissions.sept_ve,
        |permissions| &mut permissions.perfmon,
        |permissions| &mut permissions.key_locker,
        |permissions| &mut permissions.dynamic_platform,
        |permissions| &mut permissions.cached_keys,
        |permissions| &mut permissions.smt,
    ];
    for flag in flags {
        let mut fewer = permissions.clone();
        *flag(&mut fewer) = false;
        if claims.permitted(&fewer).is_ok() {
            permissions = fewer;
        }
    }
    Ok(permissions)
}

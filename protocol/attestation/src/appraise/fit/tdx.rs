//! Whether a TDX quote shows what an entry asks for.

use std::collections::BTreeSet;

use sealane_policy::TdxReference;

use super::require;
use crate::aspect::Aspect;
use crate::claims::TdxClaims;
use crate::rejection::Rejection;

type Check = fn(&TdxClaims, &TdxReference) -> Result<(), Rejection>;

/// From the coarse to the fine.
pub(super) const CHECKS: &[(Aspect, Check)] = &[
    (Aspect::Measurement, measurement),
    (Aspect::ConfigId, configuration),
    (Aspect::Owner, owner),
    (Aspect::OwnerConfig, owner_configuration),
    (Aspect::Fmspc, fmspc),
    (Aspect::Chip, platform),
    (Aspect::SeamModule, seam_module),
    (Aspect::Attributes, attributes),
    (Aspect::Xfam, xfam),
    (Aspect::Tcb, status),
    (Aspect::Tcb, versions),
    (Aspect::Tcb, advisories),
    (Aspect::TcbEvaluation, evaluation),
    (Aspect::Permissions, permissions),
];

/// Unlike the values below, measurements are never left open: an entry without any fits nothing.
fn measurement(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    let accepted = reference.measurements.iter().any(|measured| measured.accepts(claims.measurement()));
    require(accepted, Rejection::Measurement)
}

fn configuration(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    pinned(&reference.mr_config_ids, claims.mr_config_id(), Rejection::ConfigId)
}

fn owner(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    pinned(&reference.mr_owners, claims.mr_owner(), Rejection::Owner)
}

fn owner_configuration(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    pinned(&reference.mr_owner_configs, claims.mr_owner_config(), Rejection::OwnerConfig)
}

fn fmspc(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    pinned(&reference.fmspcs, &claims.fmspc(), Rejection::Fmspc)
}

/// A certificate that does not say which package it is for shows none.
fn platform(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    let accepted = &reference.platform_ids;
    let named = claims.platform_id().is_some_and(|id| accepted.contains(&id));
    require(accepted.is_empty() || named, Rejection::Chip)
}

fn seam_module(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    pinned(&reference.mr_seams, claims.mr_seam(), Rejection::SeamModule)
}

fn attributes(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    pinned(&reference.attributes, &claims.attributes(), Rejection::Attributes)
}

fn xfam(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    pinned(&reference.xfams, &claims.xfam(), Rejection::Xfam)
}

/// An entry that accepts no status fits nothing.
fn status(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    claims.accepted(&reference.tcb_statuses)
}

fn versions(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    let reached = reference.min_tee_tcb_svn.as_ref().is_none_or(|least| claims.reaches(least));
    require(reached, Rejection::SeamModuleTooOld)
}

fn advisories(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    require(claims.advisories().is_disjoint(&reference.refused_advisories), Rejection::Advisory)
}

fn evaluation(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    let found = claims.tcb_evaluation();
    let reached = reference.min_tcb_evaluation.is_none_or(|least| found >= least);
    require(reached, Rejection::TcbEvaluation { found })
}

fn permissions(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    claims.permitted(&reference.permissions)
}

/// An empty set accepts everything.
fn pinned<T: Ord>(accepted: &BTreeSet<T>, found: &T, otherwise: Rejection) -> Result<(), Rejection> {
    require(accepted.is_empty() || accepted.contains(found), otherwise)
}

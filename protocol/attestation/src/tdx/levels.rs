//! Which of Intel's levels a platform, its TDX module and its quoting enclave reach ("TCB info" and "enclave identity" of
//! the provisioning certification service, API version 4, verification steps).

use std::collections::BTreeSet;

use sealane_types::TcbStatus;

use super::platform::Platform;
use super::report::{TdReport, TeeTcbSvn};
use super::statement::Standing;
use super::tcb_info::{Level, Module, TcbInfo};
use crate::rejection::Rejection;

/// Everything that Intel says of a platform.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Each word that applies to some part.
    pub(super) statuses: BTreeSet<TcbStatus>,
    pub(super) advisories: BTreeSet<String>,
    /// The guest was launched by a module that is out of date, and the module that runs now is not.
    pub(super) relaunch_advised: bool,
}

impl Verdict {
    fn add(&mut self, standing: &Standing) {
        self.statuses.extend(standing.statuses);
        self.advisories.extend(standing.advisories.iter().cloned());
    }

    fn is_out_of_date(&self) -> bool {
        self.statuses.contains(&TcbStatus::OutOfDate)
    }
}

/// What holds for a trust domain on `platform` whose quoting enclave stands as `enclave`.
pub(super) fn judge(
    info: &TcbInfo,
    platform: &Platform,
    report: &TdReport,
    enclave: &Standing,
) -> Result<Verdict, Rejection> {
    check_module(info, report)?;
    let mut verdict = Verdict::default();
    let mut current = Verdict::default();
    // The module under a guest may be updated. What the guest was launched by measured it, so that counts as well.
    add_platform(&mut verdict, info, platform, &report.tcb)?;
    if let Some(tcb) = &report.current_tcb {
        add_platform(&mut current, info, platform, tcb)?;
        verdict.relaunch_advised = verdict.is_out_of_date() && !current.is_out_of_date();
    }
    verdict.statuses.append(&mut current.statuses);
    verdict.advisories.append(&mut current.advisories);
    verdict.add(enclave);
    if verdict.statuses.contains(&TcbStatus::Revoked) {
        return Err(Rejection::Revoked("the platform's TCB"));
    }
    // It is the best that can be said, so it says nothing beside another word.
    if verdict.statuses.len() > 1 {
        verdict.statuses.remove(&TcbStatus::UpToDate);
    }
    Ok(verdict)
}

/// Adds what applies to the platform with `tcb`: its level, and that of its module.
fn add_platform(
    verdict: &mut Verdict,
    info: &TcbInfo,
    platform: &Platform,
    tcb: &TeeTcbSvn,
) -> Result<(), Rejection> {
    const BELOW: Rejection = Rejection::Untrusted("the platform's TCB reaches none of Intel's levels");
    let level = info.levels.iter().find(|level| reaches(platform, tcb, level)).ok_or(BELOW)?;
    verdict.add(&level.standing);
    if let Some(module) = module(info, tcb)? {
        let [version, ..] = tcb;
        verdict.add(reached(&module.levels, u16::from(*version)).ok_or(BELOW)?);
    }
    Ok(())
}

/// The first level whose number `version` is at least.
pub(super) fn reached(levels: &[(u16, Standing)], version: u16) -> Option<&Standing> {
    levels.iter().find(|(least, _)| version >= *least).map(|(_, standing)| standing)
}

fn reaches(platform: &Platform, tcb: &TeeTcbSvn, level: &Level) -> bool {
    let all = |have: &[u8], least: &[u8]| have.iter().zip(least).all(|(have, least)| have >= least);
    // Where the module has a version, its own levels judge the first two numbers.
    let skipped = if major_version(tcb) == 0 { 0 } else { 2 };
    let [have, least] = [tcb, &level.tdx].map(|numbers| numbers.get(skipped..).unwrap_or_default());
    all(&platform.components, &level.sgx) && platform.pce_svn >= level.pce_svn && all(have, least)
}

fn major_version(tcb: &TeeTcbSvn) -> u8 {
    let [_, version, ..] = *tcb;
    version
}

/// What Intel says of the module with `tcb`. Those of version 0 have no statement of their own.
fn module<'a>(info: &'a TcbInfo, tcb: &TeeTcbSvn) -> Result<Option<&'a Module>, Rejection> {
    const UNKNOWN: Rejection = Rejection::Untrusted("the TCB info knows no such TDX module");
    match major_version(tcb) {
        0 => Ok(None),
        version => info.modules.iter().find(|module| module.version == version).map(Some).ok_or(UNKNOWN),
    }
}

/// Whether the module is signed and set up as Intel states.
fn check_module(info: &TcbInfo, report: &TdReport) -> Result<(), Rejection> {
    let expected = module(info, &report.tcb)?.map_or(&info.module, |module| &module.signer);
    let masked = |attributes: &[u8; 8]| {
        let mask = u64::from_le_bytes(expected.attributes_mask);
        u64::from_le_bytes(*attributes) & mask
    };
    if report.signer != expected.signer || masked(&report.module_attributes) != masked(&expected.attributes) {
        return Err(Rejection::Untrusted("the TDX module is not the one that the TCB info describes"));
    }
    Ok(())
}

//! Entries of a Peer.

mod snp;

use sealane_types::Platform;

use super::{Members, list, text};
use crate::document::{
    Entry, NitroMeasurement, NitroReference, PCRS, Reference, TdxPermissions, TdxReference, Workload,
};
use crate::json::Tree;
use crate::limits::NITRO_AGE_SECONDS_DEFAULT;

pub(super) fn entry(entry: &Entry) -> Tree {
    let form = entry.reference.form();
    let kind = entry.kind();
    let stated = !matches!(kind, Platform::Simulated | Platform::Key);
    let simulated_form = kind == Platform::Simulated && form != Platform::SevSnp;
    let members = Members::default()
        .text("kind", kind)
        .optional("assurance", stated.then(|| text(entry.assurance)))
        .optional("root", entry.root.map(text))
        .optional("form", simulated_form.then(|| text(form)))
        .optional("workload", entry.workload.as_ref().map(workload))
        .raised("allowUnverifiedWorkload", entry.unverified_workload);
    match &entry.reference {
        Reference::SevSnp(reference) => snp::snp(members, reference),
        Reference::Tdx(reference) => tdx(members, reference),
        Reference::Nitro(reference) => nitro(members, reference),
        Reference::Key(keys) => members.listed("publicKeys", keys),
    }
    .done()
}

fn workload(workload: &Workload) -> Tree {
    let Workload { service_account, images } = workload;
    Members::default().text("serviceAccount", service_account).listed("images", images).done()
}

fn tdx(members: Members, reference: &TdxReference) -> Members {
    let TdxReference {
        measurements,
        mr_config_ids,
        any_initdata,
        mr_owners,
        mr_owner_configs,
        fmspcs,
        platform_ids,
        mr_seams,
        min_tee_tcb_svn,
        refused_advisories,
        attributes,
        xfams,
        tcb_statuses,
        min_tcb_evaluation,
        permissions,
    } = reference;
    let measurements = measurements.iter().map(|measured| {
        let [rtmr0, rtmr1, rtmr2] = &measured.rtmr;
        Members::default()
            .text("mrtd", measured.mrtd)
            .text("rtmr0", rtmr0)
            .text("rtmr1", rtmr1)
            .text("rtmr2", rtmr2)
            .optional("rtmr3", measured.rtmr3.map(text))
            .done()
    });
    let min_tcb_evaluation = min_tcb_evaluation.map(|number| Tree::Integer(u64::from(number)));
    let members = members
        .trees("measurements", measurements)
        .put("tcbStatuses", list(tcb_statuses))
        .optional("minTcbEvaluation", min_tcb_evaluation)
        .listed("mrConfigId", mr_config_ids)
        .raised("allowAnyInitdata", *any_initdata)
        .listed("mrOwner", mr_owners)
        .listed("mrOwnerConfig", mr_owner_configs)
        .listed("fmspcs", fmspcs)
        .listed("platformIds", platform_ids)
        .listed("mrSeam", mr_seams)
        .optional("minTeeTcbSvn", min_tee_tcb_svn.map(text))
        .listed("refusedAdvisories", refused_advisories)
        .listed("attributes", attributes)
        .listed("xfam", xfams);
    tdx_permissions(members, permissions)
}

fn tdx_permissions(members: Members, permissions: &TdxPermissions) -> Members {
    let TdxPermissions {
        debug,
        migration,
        sept_ve,
        perfmon,
        key_locker,
        dynamic_platform,
        cached_keys,
        smt,
        service_tds,
    } = permissions;
    members
        .raised("allowDebug", *debug)
        .raised("allowMigration", *migration)
        .raised("allowSeptVe", *sept_ve)
        .raised("allowPerfmon", *perfmon)
        .raised("allowKeyLocker", *key_locker)
        .raised("allowDynamicPlatform", *dynamic_platform)
        .raised("allowCachedKeys", *cached_keys)
        .raised("allowSmt", *smt)
        .listed("mrServiceTd", service_tds)
}

fn nitro(members: Members, reference: &NitroReference) -> Members {
    let NitroReference { measurements, module_ids, max_age_seconds, permissions } = reference;
    let measurements = measurements.iter().map(|measured| {
        let NitroMeasurement { image, registers } = measured;
        let registers =
            registers.iter().filter_map(|(index, pcr)| Some((PCRS.get(usize::from(*index))?, pcr)));
        let pinned = PCRS.iter().zip(image).chain(registers);
        pinned.fold(Members::default(), |members, (name, pcr)| members.text(name, pcr)).done()
    });
    let age_stated = *max_age_seconds != NITRO_AGE_SECONDS_DEFAULT;
    members
        .trees("measurements", measurements)
        .listed("moduleIds", module_ids)
        .optional("maxAgeSeconds", age_stated.then_some(Tree::Integer(*max_age_seconds)))
        .raised("allowDebug", permissions.debug)
}

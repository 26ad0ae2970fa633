//! Entries of a Peer.

use sealane_types::Platform;

use super::{Members, text};
use crate::document::{Entry, NitroReference, Reference, SnpReference, Tcb, TdxReference, Workload};
use crate::json::Tree;

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
        Reference::SevSnp(reference) => snp(members, reference),
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

fn snp(members: Members, reference: &SnpReference) -> Members {
    let SnpReference { measurements, host_data, products, chip_ids, min_tcb, permissions } = reference;
    let vmpl_max = u64::from(permissions.vmpl_max);
    members
        .listed("measurements", measurements)
        .listed("hostData", host_data)
        .listed("products", products)
        .listed("chipIds", chip_ids)
        .optional("minTcb", (!min_tcb.is_empty()).then(|| tcb(min_tcb)))
        .raised("allowDebug", permissions.debug)
        .raised("allowMigration", permissions.migration)
        .raised("allowVlek", permissions.vlek)
        .raised("allowSmt", permissions.smt)
        .optional("maxVmpl", (vmpl_max > 0).then_some(Tree::Integer(vmpl_max)))
}

fn tcb(tcb: &Tcb) -> Tree {
    let component = |value: Option<u8>| value.map(|value| Tree::Integer(u64::from(value)));
    Members::default()
        .optional("fmc", component(tcb.fmc))
        .optional("bootloader", component(tcb.bootloader))
        .optional("tee", component(tcb.tee))
        .optional("snp", component(tcb.snp))
        .optional("microcode", component(tcb.microcode))
        .done()
}

fn tdx(members: Members, reference: &TdxReference) -> Members {
    let measurements = reference.measurements.iter().map(|measured| {
        let [rtmr0, rtmr1, rtmr2] = &measured.rtmr;
        Members::default()
            .text("mrtd", measured.mrtd)
            .text("rtmr0", rtmr0)
            .text("rtmr1", rtmr1)
            .text("rtmr2", rtmr2)
            .done()
    });
    members.trees("measurements", measurements)
}

fn nitro(members: Members, reference: &NitroReference) -> Members {
    let measurements = reference.measurements.iter().map(|measured| {
        let [pcr0, pcr1, pcr2] = &measured.pcr;
        Members::default().text("pcr0", pcr0).text("pcr1", pcr1).text("pcr2", pcr2).done()
    });
    members.trees("measurements", measurements)
}

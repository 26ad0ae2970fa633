//! What a replica must prove, in words.

use sealane_policy::{Entry, Reference, SnpPermissions, SnpReference, Tcb};
use sealane_types::{Assurance, Platform};

use super::{Lines, list};

pub(super) fn describe(lines: &mut Lines, entry: &Entry) {
    lines.at(2, platform(entry));
    if let Some(root) = entry.root {
        lines.at(3, format!("under the simulated root {root}"));
    }
    let mut settings = Settings::default();
    match &entry.reference {
        Reference::Key(keys) => {
            lines.at(3, format!("its key is one of: {}", list(keys)));
            return;
        }
        Reference::SevSnp(reference) => snp(lines, &mut settings, reference),
        Reference::Tdx(_) | Reference::Nitro(_) => {}
    }
    if let Some(workload) = &entry.workload {
        let images = if workload.images.is_empty() {
            String::new()
        } else {
            format!(", images {}", list(&workload.images))
        };
        lines
            .at(3, format!("and the node agent states service account {}{images}", workload.service_account));
    }
    settings.put(entry.unverified_workload, "a workload that nobody states");
    settings.describe(lines);
    let absent = entry.absent();
    if !absent.is_empty() {
        let absent: Vec<_> = absent.iter().map(ToString::to_string).collect();
        lines
            .at(3, format!("NOT PINNED, any value is accepted and shown as Degraded: {}", absent.join(", ")));
    }
}

fn platform(entry: &Entry) -> String {
    let name = match entry.reference.form() {
        Platform::Tdx => "an Intel TDX",
        Platform::Nitro => "an AWS Nitro Enclaves",
        _ => "an AMD SEV-SNP",
    };
    match (entry.kind(), entry.assurance) {
        (Platform::Simulated, _) => {
            let form = entry.reference.form();
            let like =
                if form == Platform::SevSnp { String::new() } else { format!(" in the form of {form}") };
            format!("a SIMULATED guest: evidence{like} made by software, which proves nothing")
        }
        (Platform::Key, _) => "a pinned key without any TEE: it proves possession of the key only".to_owned(),
        (_, Assurance::Node) => {
            format!("{name} node: the pod runs on a confidential VM, whose administrators can reach it")
        }
        (Platform::Nitro, _) => format!("{name} enclave: the workload runs inside of it"),
        _ => format!("{name} guest: the pod itself is the confidential VM"),
    }
}

/// Settings of the guest and its host that weaken isolation.
#[derive(Default)]
struct Settings {
    allowed: Vec<String>,
    refused: Vec<String>,
}

impl Settings {
    fn put(&mut self, permitted: bool, name: impl Into<String>) {
        if permitted { &mut self.allowed } else { &mut self.refused }.push(name.into());
    }

    fn describe(self, lines: &mut Lines) {
        if !self.allowed.is_empty() {
            lines.at(3, format!("ALLOWED: {}", self.allowed.join(", ")));
        }
        if !self.refused.is_empty() {
            lines.at(3, format!("refused: {}", self.refused.join(", ")));
        }
    }
}

fn snp(lines: &mut Lines, settings: &mut Settings, reference: &SnpReference) {
    let SnpReference { measurements, host_data, products, chip_ids, min_tcb, permissions } = reference;
    lines.at(3, format!("it was started from a guest image with measurement {}", list(measurements)));
    if !host_data.is_empty() {
        lines.at(3, format!("with initdata whose SHA-256 (HOST_DATA) is {}", list(host_data)));
    }
    if !products.is_empty() {
        lines.at(3, format!("on an AMD processor of family {}", list(products)));
    }
    if !chip_ids.is_empty() {
        lines.at(3, format!("on one of {} named chips", chip_ids.len()));
    }
    if !min_tcb.is_empty() {
        lines.at(3, format!("with firmware of at least {}", tcb(min_tcb)));
    }
    let SnpPermissions { debug, migration, vlek, smt, vmpl_max } = *permissions;
    settings.put(debug, "debugging by the host");
    settings.put(migration, "migration agents");
    settings.put(vlek, "keys held by the cloud provider (VLEK)");
    settings.put(smt, "SMT shared with other guests");
    if vmpl_max > 0 {
        settings.put(true, format!("evidence asked for at VMPL up to {vmpl_max}"));
    } else {
        settings.put(false, "evidence asked for above VMPL 0");
    }
}

fn tcb(tcb: &Tcb) -> String {
    let components = [
        ("FMC", tcb.fmc),
        ("bootloader", tcb.bootloader),
        ("TEE", tcb.tee),
        ("SNP", tcb.snp),
        ("microcode", tcb.microcode),
    ];
    let set = components.iter().filter_map(|(name, value)| value.map(|value| format!("{name} {value}")));
    set.collect::<Vec<_>>().join(", ")
}

//! What a replica must prove, in words.

mod snp;

use sealane_policy::{
    Entry, NitroMeasurement, NitroPermissions, NitroReference, Pinnable, Reference, TdxMeasurement,
    TdxPermissions, TdxReference,
};
use sealane_types::{Assurance, Platform};

use super::{Lines, list, short_list, shorten};

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
        Reference::SevSnp(reference) => snp::snp(lines, &mut settings, reference),
        Reference::Tdx(reference) => tdx(lines, &mut settings, reference),
        Reference::Nitro(reference) => nitro(lines, &mut settings, reference),
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
    let mut absent = entry.absent();
    absent.extend(open_provider(entry));
    if !absent.is_empty() {
        let absent: Vec<_> = absent.iter().map(ToString::to_string).collect();
        lines
            .at(3, format!("NOT PINNED, any value is accepted and shown as Degraded: {}", absent.join(", ")));
    }
}

/// Left open for evidence that a cloud provider's key signed.
fn open_provider(entry: &Entry) -> Option<Pinnable> {
    match &entry.reference {
        Reference::SevSnp(snp) if snp.accepts_any_provider() => Some(Pinnable::VlekProviders),
        _ => None,
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

const ANY_INITDATA: &str = "any initdata, so any pod of this guest image";

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

fn nitro(lines: &mut Lines, settings: &mut Settings, reference: &NitroReference) {
    let NitroReference { measurements, module_ids, max_age_seconds, permissions } = reference;
    for NitroMeasurement { image, registers } in measurements {
        let [pcr0, pcr1, pcr2] = image.each_ref().map(shorten);
        let mut values = format!("PCR0 {pcr0}, PCR1 {pcr1}, PCR2 {pcr2}");
        for (index, pcr) in registers {
            let meaning = match *index {
                NitroMeasurement::ROLE => " (role of the parent instance)",
                NitroMeasurement::INSTANCE => " (parent instance)",
                NitroMeasurement::SIGNER => " (signer of the image)",
                _ => "",
            };
            values.push_str(&format!(", PCR{index}{meaning} {}", shorten(pcr)));
        }
        lines.at(3, format!("it was started from an enclave image with {values}"));
    }
    if !module_ids.is_empty() {
        lines.at(3, format!("as the module {}", list(module_ids)));
    }
    lines.at(3, format!("its document is at most {max_age_seconds} s old when it is shown"));
    let NitroPermissions { debug } = *permissions;
    settings.put(debug, "enclaves in debug mode, which measure nothing");
}

fn tdx(lines: &mut Lines, settings: &mut Settings, reference: &TdxReference) {
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
    for TdxMeasurement { mrtd, rtmr: [rtmr0, rtmr1, rtmr2], rtmr3 } in measurements {
        let [mrtd, rtmr0, rtmr1, rtmr2] = [mrtd, rtmr0, rtmr1, rtmr2].map(shorten);
        let rtmr3 = rtmr3.as_ref().map(|rtmr3| format!(", RTMR3 {}", shorten(rtmr3))).unwrap_or_default();
        let values = format!("MRTD {mrtd}, RTMR0 {rtmr0}, RTMR1 {rtmr1}, RTMR2 {rtmr2}{rtmr3}");
        lines.at(3, format!("it was started from a guest image with {values}"));
    }
    for (values, meaning) in [
        (mr_config_ids, "with a configuration (MRCONFIGID: the hash of the initdata) of"),
        (mr_owners, "for an owner (MROWNER) of"),
        (mr_owner_configs, "with an owner's configuration (MROWNERCONFIG) of"),
        (mr_seams, "under a TDX module (MRSEAM) of"),
    ] {
        if !values.is_empty() {
            lines.at(3, format!("{meaning} {}", short_list(values)));
        }
    }
    if !fmspcs.is_empty() {
        lines.at(3, format!("on an Intel processor of family (FMSPC) {}", list(fmspcs)));
    }
    if !platform_ids.is_empty() {
        lines.at(3, format!("on a processor package (PPID) of {}", list(platform_ids)));
    }
    if let Some(versions) = min_tee_tcb_svn {
        lines.at(
            3,
            format!(
                "with versions of the TDX module (TEE_TCB_SVN) of {versions} or later, each byte by itself"
            ),
        );
    }
    if !refused_advisories.is_empty() {
        lines.at(3, format!("to which these advisories do not apply: {}", list(refused_advisories)));
    }
    if !attributes.is_empty() {
        lines.at(3, format!("with exactly the attributes (TDATTRIBUTES) {}", list(attributes)));
    }
    if !xfams.is_empty() {
        lines.at(3, format!("with exactly the processor features (XFAM) {}", list(xfams)));
    }
    let statuses: Vec<_> = tcb_statuses.iter().map(|status| status.as_str()).collect();
    lines.at(3, format!("with firmware that Intel calls {}", statuses.join(" or ")));
    if let Some(number) = min_tcb_evaluation {
        lines.at(3, format!("judged by Intel's TCB evaluation {number} or later"));
    }
    // Where it is not permitted, the values that are pinned say so, or nobody looks at any.
    if *any_initdata {
        settings.put(true, ANY_INITDATA);
    }
    tdx_settings(lines, settings, permissions);
}

fn tdx_settings(lines: &mut Lines, settings: &mut Settings, permissions: &TdxPermissions) {
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
    settings.put(*debug, "debugging or profiling by the host");
    settings.put(*migration, "migration TDs");
    settings.put(*sept_ve, "#VE exceptions raised by the host (SEPT_VE_DISABLE not set)");
    settings.put(*perfmon, "performance counters in the guest");
    settings.put(*key_locker, "Key Locker");
    settings.put(*dynamic_platform, "packages added after registration");
    settings.put(*cached_keys, "platform keys kept by Intel's registration service");
    settings.put(*smt, "SMT shared with other guests");
    settings.put(!service_tds.is_empty(), "service TDs");
    if !service_tds.is_empty() {
        lines.at(3, format!("with a service TD (MRSERVICETD) of {}, or none", short_list(service_tds)));
    }
}

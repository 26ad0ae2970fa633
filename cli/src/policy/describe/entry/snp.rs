//! What SEV-SNP evidence must show, in words.

use sealane_policy::{SnpIdentity, SnpPermissions, SnpReference, Tcb};
use sealane_types::SnpProtection;

use super::super::{Lines, list, short_list};
use super::{ANY_INITDATA, Settings};

pub(super) fn snp(lines: &mut Lines, settings: &mut Settings, reference: &SnpReference) {
    let SnpReference {
        measurements,
        host_data,
        any_initdata,
        products,
        chip_ids,
        identity,
        min_tcb,
        min_firmware,
        min_guest_abi,
        mitigations,
        protections,
        vlek_providers: _,
        permissions,
    } = reference;
    lines.at(3, format!("it was started from a guest image with measurement {}", short_list(measurements)));
    if !host_data.is_empty() {
        lines.at(3, format!("with initdata whose SHA-256 (HOST_DATA) is {}", short_list(host_data)));
    }
    describe_identity(lines, identity);
    if !products.is_empty() {
        lines.at(3, format!("on an AMD processor of family {}", list(products)));
    }
    if !chip_ids.is_empty() {
        lines.at(3, format!("on one of {} named chips", chip_ids.len()));
    }
    if !min_tcb.is_empty() {
        lines.at(3, format!("with firmware of at least {}", tcb(min_tcb)));
    }
    if let Some(firmware) = min_firmware {
        lines.at(3, format!("whose SEV-SNP API is at least {firmware}, and cannot go back below it"));
    }
    if let Some(abi) = min_guest_abi {
        lines.at(3, format!("and the guest demands at least ABI {abi} of its firmware"));
    }
    if let Some(vector) = mitigations {
        lines.at(3, format!("whose mitigations {vector} were there at launch and still are"));
    }
    if !protections.is_empty() {
        let words: Vec<_> = protections.iter().map(|protection| words(*protection)).collect();
        lines.at(3, format!("and it is protected: {}", words.join(", ")));
    }
    // Where it is not permitted, the values that are pinned say so, or nobody looks at any.
    if *any_initdata {
        settings.put(true, ANY_INITDATA);
    }
    describe_permissions(settings, permissions, reference);
    describe_open(lines, reference);
}

fn describe_identity(lines: &mut Lines, identity: &SnpIdentity) {
    let SnpIdentity { id_keys, author_keys, family_ids, image_ids, min_guest_svn } = identity;
    if !id_keys.is_empty() {
        lines.at(3, format!("its ID block was signed by the key with SHA-384 {}", short_list(id_keys)));
    }
    if !author_keys.is_empty() {
        lines.at(
            3,
            format!("the key of its ID block was signed by the one with SHA-384 {}", short_list(author_keys)),
        );
    }
    if !family_ids.is_empty() {
        lines.at(3, format!("its FAMILY_ID is {}", short_list(family_ids)));
    }
    if !image_ids.is_empty() {
        lines.at(3, format!("its IMAGE_ID is {}", short_list(image_ids)));
    }
    if let Some(svn) = min_guest_svn {
        lines.at(3, format!("its own security version is at least {svn}"));
    }
}

fn describe_permissions(settings: &mut Settings, permissions: &SnpPermissions, reference: &SnpReference) {
    let SnpPermissions { debug, migration, vlek, smt, cxl, tio, milan, platform_bits, vmpl_max } =
        *permissions;
    settings.put(debug, "debugging by the host");
    settings.put(migration, "migration agents");
    settings.put(
        vlek,
        match (vlek, reference.vlek_providers.is_empty()) {
            (false, _) => "keys held by a cloud provider (VLEK)".to_owned(),
            (true, true) => "keys held by ANY cloud provider (VLEK)".to_owned(),
            (true, false) => {
                format!("keys held by the cloud provider (VLEK) {}", list(&reference.vlek_providers))
            }
        },
    );
    settings.put(smt, "SMT shared with other guests");
    settings.put(cxl, "memory on CXL devices");
    settings.put(tio, "devices inside the guest's trust (SEV-TIO)");
    settings.put(milan, "Milan, whose evidence may be forged");
    if platform_bits != 0 {
        settings
            .put(true, format!("bits {platform_bits:#x} of PLATFORM_INFO, which this release does not know"));
    }
    if vmpl_max > 0 {
        settings.put(true, format!("evidence asked for at VMPL up to {vmpl_max}"));
    } else {
        settings.put(false, "evidence asked for above VMPL 0");
    }
}

/// What an entry may leave open without being incomplete.
fn describe_open(lines: &mut Lines, reference: &SnpReference) {
    let SnpReference { chip_ids, identity, mitigations, protections, .. } = reference;
    let mut open = Vec::new();
    if chip_ids.is_empty() {
        open.push("the chip".to_owned());
    }
    if identity.id_keys.is_empty() && identity.author_keys.is_empty() {
        open.push("who signed the guest's ID block".to_owned());
    }
    if mitigations.is_none() {
        open.push("mitigations".to_owned());
    }
    let unasked = SnpProtection::ALL.iter().filter(|protection| !protections.contains(protection));
    let unasked: Vec<_> = unasked.map(ToString::to_string).collect();
    if !unasked.is_empty() {
        open.push(format!("protections ({})", unasked.join(", ")));
    }
    if !open.is_empty() {
        lines.at(3, format!("not asked for: {}", open.join(", ")));
    }
}

const fn words(protection: SnpProtection) -> &'static str {
    match protection {
        SnpProtection::AliasCheck => "its memory was checked for aliases (against BadRAM)",
        SnpProtection::Ecc => "its memory corrects errors",
        SnpProtection::Tsme => "all memory of the host is encrypted",
        SnpProtection::RaplDisabled => "the processor's power cannot be read",
        SnpProtection::CiphertextHiding => "the host cannot read its ciphertext",
        SnpProtection::IommuWriteSafe => "the platform calls IOMMU writes safe",
        SnpProtection::SingleSocket => "it runs on one socket only",
        SnpProtection::AesXts => "its memory is encrypted by AES-256-XTS",
        SnpProtection::PageSwapDisabled => "the host can neither move nor swap its pages",
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

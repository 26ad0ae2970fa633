//! What evidence says about each thing that a policy may ask for, in words.

use std::fmt::Display;

use sealane_attestation::{Aspect, Claims, NitroClaims, SnpClaims, Statement, TdxClaims};
use sealane_policy::SnpPermissions;
use sealane_types::UnixSeconds;

/// What `claims`, shown at `shown`, say about `aspect`.
pub(super) fn seen(claims: &Claims, aspect: Aspect, shown: UnixSeconds) -> String {
    match (aspect, claims.statement()) {
        (Aspect::Platform, statement) => format!("{}{}", claims.platform(), form(claims, statement)),
        (Aspect::Root, _) => claims.root().to_string(),
        (_, Statement::SevSnp(snp)) => of_snp(snp, aspect),
        (_, Statement::Tdx(tdx)) => of_tdx(tdx, aspect),
        (_, Statement::Nitro(nitro)) => of_nitro(nitro, aspect, shown),
        (Aspect::Key, Statement::Key(key)) => key.public_key().to_string(),
        (_, Statement::Key(_)) => String::new(),
    }
}

/// The platform whose layout simulated evidence has.
fn form(claims: &Claims, statement: &Statement) -> String {
    let form = match statement {
        Statement::SevSnp(_) => "SevSnp",
        Statement::Tdx(_) => "Tdx",
        Statement::Nitro(_) => "Nitro",
        Statement::Key(_) => "Key",
    };
    if claims.platform().as_str() == form { String::new() } else { format!(" in the form of {form}") }
}

fn of_snp(claims: &SnpClaims, aspect: Aspect) -> String {
    let identity = claims.identity();
    match aspect {
        Aspect::Measurement => format!("MEASUREMENT {}", claims.measurement()),
        Aspect::HostData => format!("HOST_DATA {}", claims.host_data()),
        Aspect::GuestKeys => match (identity.id_key, identity.author_key) {
            (None, None) => "no ID block".to_owned(),
            (id, author) => format!("ID key {}, author key {}", or_none(id), or_none(author)),
        },
        Aspect::GuestLabels => {
            format!("FAMILY_ID {}, IMAGE_ID {}", identity.family_id, identity.image_id)
        }
        Aspect::GuestSvn => format!("GUEST_SVN {}", identity.svn),
        Aspect::Product => claims.product().to_string(),
        Aspect::Chip => claims.chip_id().map_or_else(|| "masked".to_owned(), ToString::to_string),
        Aspect::Provider => claims
            .provider()
            .map_or_else(|| "the chip's own key (VCEK)".to_owned(), |name| format!("VLEK of {name}")),
        Aspect::Tcb => {
            let tcb = claims.tcb();
            format!("reported {}; committed {}; launch {}", tcb.reported, tcb.committed, tcb.launch)
        }
        Aspect::Firmware => {
            let found = claims.firmware();
            format!("current {}; committed {}", found.current, found.committed)
        }
        Aspect::GuestAbi => format!("ABI {}", claims.guest_abi()),
        Aspect::Mitigations => claims.mitigations().map_or_else(
            || "a report too old to say".to_owned(),
            |found| format!("launch {:#x}, current {:#x}", found.launch.bits(), found.current.bits()),
        ),
        Aspect::Protections => list(claims.protections()),
        Aspect::Permissions => claims.needs().map_or_else(|| format!("VMPL {}", claims.vmpl()), needs),
        _ => String::new(),
    }
}

/// Settings that weaken isolation.
fn needs(needed: SnpPermissions) -> String {
    let SnpPermissions { debug, migration, vlek, smt, cxl, tio, milan, platform_bits, vmpl_max } = needed;
    let settings = [
        (debug, "debug"),
        (migration, "migration"),
        (vlek, "VLEK"),
        (smt, "SMT"),
        (cxl, "CXL memory"),
        (tio, "trusted devices"),
        (milan, "Milan"),
        (platform_bits != 0, "bits of PLATFORM_INFO that have no name yet"),
        (vmpl_max > 0, "a VMPL below 0"),
    ];
    let needed: Vec<_> = settings.into_iter().filter_map(|(set, word)| set.then_some(word)).collect();
    if needed.is_empty() { "none is needed".to_owned() } else { needed.join(", ") }
}

fn of_tdx(claims: &TdxClaims, aspect: Aspect) -> String {
    match aspect {
        Aspect::Measurement => {
            let measured = claims.measurement();
            let [zero, one, two] = measured.rtmr;
            format!(
                "MRTD {} RTMR0 {zero} RTMR1 {one} RTMR2 {two} RTMR3 {}",
                measured.mrtd,
                or_none(measured.rtmr3)
            )
        }
        Aspect::ConfigId => format!("MRCONFIGID {}", claims.mr_config_id()),
        Aspect::Owner => format!("MROWNER {}", claims.mr_owner()),
        Aspect::OwnerConfig => format!("MROWNERCONFIG {}", claims.mr_owner_config()),
        Aspect::Fmspc => format!("FMSPC {}", claims.fmspc()),
        Aspect::Chip => format!("PPID {}", or_none(claims.platform_id())),
        Aspect::SeamModule => format!("MRSEAM {}, TEE_TCB_SVN {}", claims.mr_seam(), claims.tee_tcb_svn()),
        Aspect::Attributes => format!("TDATTRIBUTES {}", claims.attributes()),
        Aspect::Xfam => format!("XFAM {}", claims.xfam()),
        Aspect::Tcb if claims.advisories().is_empty() => list(claims.statuses()),
        Aspect::Tcb => format!("{} ({})", list(claims.statuses()), list(claims.advisories())),
        Aspect::TcbEvaluation => format!("tcbEvaluationDataNumber {}", claims.tcb_evaluation()),
        Aspect::Permissions => {
            let debug = if claims.debug() { "under debug" } else { "not under debug" };
            format!("{debug}; service TDs: {}", list(claims.service_tds()))
        }
        _ => String::new(),
    }
}

fn of_nitro(claims: &NitroClaims, aspect: Aspect, shown: UnixSeconds) -> String {
    match aspect {
        Aspect::Measurement => {
            let [image, kernel, application] = claims.image();
            format!("PCR0 {image} PCR1 {kernel} PCR2 {application}")
        }
        Aspect::Registers => {
            let [role, instance, signer] = [3, 4, 8].map(|index| or_none(claims.pcr(index)));
            format!("PCR3 {role} PCR4 {instance} PCR8 {signer}")
        }
        Aspect::Module => claims.module_id().to_owned(),
        Aspect::Age => format!("made {} s ago", shown.0.saturating_sub(claims.timestamp().0)),
        Aspect::Permissions => if claims.debug() { "under debug" } else { "not under debug" }.to_owned(),
        _ => String::new(),
    }
}

fn or_none<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn list<T: Display>(values: &std::collections::BTreeSet<T>) -> String {
    if values.is_empty() {
        return "none".to_owned();
    }
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

//! Entries of a Peer. Which fields are known depends on the kind, so that a value which the kind cannot
//! check is refused instead of ignored.

use std::collections::BTreeSet;
use std::str::FromStr;

use sealane_types::{Assurance, Platform, Product};

use super::{DIGEST, KEY, flag};
use crate::document::{Entry, Permissions, Tcb, Workload};
use crate::field::{Field, FieldError, Object, Problem};
use crate::limits::{CHIP_IDS_MAX, IMAGES_MAX, TEXT_BYTES_MAX, VALUES_MAX};

/// Highest privilege level of SEV-SNP.
const VMPL_MAX: u8 = 3;

pub(super) fn entry(field: Field<'_>) -> Result<Entry, FieldError> {
    let mut object = field.object()?;
    let kind_field = object.required("kind", r#""kind": "SevSnp""#)?;
    let kind = kind_field.word(Platform::ALL)?;
    let entry = match kind {
        Platform::SevSnp => sev_snp(&mut object)?,
        Platform::Simulated => simulated(&mut object)?,
        Platform::Key => key(&mut object)?,
        Platform::Tdx | Platform::Nitro => {
            return Err(kind_field.refuse(Problem::NotInThisRelease { word: kind.as_str() }));
        }
    };
    object.close()?;
    Ok(entry)
}

fn sev_snp(object: &mut Object<'_>) -> Result<Entry, FieldError> {
    let assurance = object.required("assurance", r#""assurance": "Pod""#)?;
    let assurance = assurance.word(&[Assurance::Pod, Assurance::Node])?;
    let workload = object.optional("workload", r#""workload": {"serviceAccount": "embedder", "images": []}"#);
    let workload = workload.map(self::workload).transpose()?;
    let unverified_workload =
        flag(object, "allowUnverifiedWorkload", r#""allowUnverifiedWorkload": true"#, false)?;
    let mut entry = launched(object, Platform::SevSnp, assurance)?;
    entry.workload = workload;
    entry.permissions.unverified_workload = unverified_workload;
    Ok(entry)
}

/// Simulated evidence has the form of SEV-SNP evidence. The document may state the assurance that the real
/// platform would have; what counts is Simulated.
fn simulated(object: &mut Object<'_>) -> Result<Entry, FieldError> {
    let stated = object.optional("assurance", r#""assurance": "Simulated", or leave it out"#);
    let words = [Assurance::Simulated, Assurance::Pod, Assurance::Node];
    stated.map(|assurance| assurance.word(&words)).transpose()?;
    let root = object.required("root", r#""root": "<fingerprint that the simulated install prints>""#)?;
    let root = root.parse(DIGEST)?;
    // Simulated evidence states no workload anyway, so this permission grants nothing: the same entry can be
    // written for both platforms.
    flag(object, "allowUnverifiedWorkload", r#""allowUnverifiedWorkload": true"#, false)?;
    let entry = launched(object, Platform::Simulated, Assurance::Simulated)?;
    Ok(Entry { root: Some(root), ..entry })
}

/// What every SEV-SNP report states, simulated or not.
fn launched(object: &mut Object<'_>, kind: Platform, assurance: Assurance) -> Result<Entry, FieldError> {
    let measurements = values(
        object,
        "measurements",
        r#""measurements": ["<96 hex digits of the launch digest>"]"#,
        VALUES_MAX,
        "96 lower-case hex digits (SHA-384)",
    )?;
    let host_data = values(
        object,
        "hostData",
        r#""hostData": ["<SHA-256 of the initdata file, 64 hex digits>"]"#,
        VALUES_MAX,
        DIGEST,
    )?;
    let chip_ids = values(
        object,
        "chipIds",
        r#""chipIds": ["<128 hex digits>"]"#,
        CHIP_IDS_MAX,
        "128 lower-case hex digits (64 bytes)",
    )?;
    let products = object.optional("products", r#""products": ["Milan", "Genoa"]"#);
    let products = products
        .map(|field| field.set(Product::ALL.len(), |product| product.word(Product::ALL)))
        .transpose()?
        .unwrap_or_default();
    let min_tcb =
        object.optional("minTcb", r#""minTcb": {"bootloader": 4, "tee": 0, "snp": 24, "microcode": 219}"#);
    let min_tcb = min_tcb.map(tcb).transpose()?.unwrap_or_default();
    let permissions = permissions(object)?;
    Ok(Entry {
        kind,
        assurance,
        measurements,
        host_data,
        products,
        chip_ids,
        min_tcb,
        workload: None,
        permissions,
        public_keys: BTreeSet::new(),
        root: None,
    })
}

fn key(object: &mut Object<'_>) -> Result<Entry, FieldError> {
    let stated = object.optional("assurance", r#""assurance": "Key", or leave it out"#);
    stated.map(|assurance| assurance.word(&[Assurance::Key])).transpose()?;
    let public_keys = values(object, "publicKeys", r#""publicKeys": ["<64 hex digits>"]"#, VALUES_MAX, KEY)?;
    Ok(Entry {
        kind: Platform::Key,
        assurance: Assurance::Key,
        measurements: BTreeSet::new(),
        host_data: BTreeSet::new(),
        products: BTreeSet::new(),
        chip_ids: BTreeSet::new(),
        min_tcb: Tcb::default(),
        workload: None,
        permissions: Permissions::default(),
        public_keys,
        root: None,
    })
}

fn values<T: FromStr + Ord>(
    object: &mut Object<'_>,
    name: &'static str,
    example: &'static str,
    most: usize,
    expected: &str,
) -> Result<BTreeSet<T>, FieldError> {
    let field = object.optional(name, example);
    let values = field.map(|field| field.set(most, |value| value.parse(expected))).transpose()?;
    Ok(values.unwrap_or_default())
}

fn tcb(field: Field<'_>) -> Result<Tcb, FieldError> {
    let mut object = field.object()?;
    let mut component =
        |name, example| object.optional(name, example).map(|field| field.byte(u8::MAX)).transpose();
    let tcb = Tcb {
        fmc: component("fmc", r#""fmc": 1"#)?,
        bootloader: component("bootloader", r#""bootloader": 4"#)?,
        tee: component("tee", r#""tee": 0"#)?,
        snp: component("snp", r#""snp": 24"#)?,
        microcode: component("microcode", r#""microcode": 219"#)?,
    };
    object.close()?;
    Ok(tcb)
}

fn permissions(object: &mut Object<'_>) -> Result<Permissions, FieldError> {
    let debug = flag(object, "allowDebug", r#""allowDebug": false"#, false)?;
    let migration = flag(object, "allowMigration", r#""allowMigration": false"#, false)?;
    let vlek = flag(object, "allowVlek", r#""allowVlek": true"#, false)?;
    let smt = flag(object, "allowSmt", r#""allowSmt": true"#, false)?;
    let vmpl_max = object.optional("maxVmpl", r#""maxVmpl": 0"#);
    let vmpl_max = vmpl_max.map(|field| field.byte(VMPL_MAX)).transpose()?.unwrap_or_default();
    Ok(Permissions { debug, migration, vlek, smt, unverified_workload: false, vmpl_max })
}

fn workload(field: Field<'_>) -> Result<Workload, FieldError> {
    let mut object = field.object()?;
    let account = object.required("serviceAccount", r#""serviceAccount": "embedder""#)?;
    let service_account = printable(&account, "a service account's name")?;
    let images = object.optional("images", r#""images": ["registry.example/app@sha256:<64 hex digits>"]"#);
    let images = images.map(|field| field.set(IMAGES_MAX, image)).transpose()?.unwrap_or_default();
    object.close()?;
    Ok(Workload { service_account, images })
}

/// A tag can be moved, so only a digest pins an image.
fn image(field: &Field<'_>) -> Result<String, FieldError> {
    const EXPECTED: &str = "an image by digest";
    let text = printable(field, EXPECTED)?;
    let digest = text.split_once("@sha256:").map(|(_, digest)| digest.parse::<sealane_types::Digest>());
    if !matches!(digest, Some(Ok(_))) {
        return Err(field.malformed(EXPECTED, &text));
    }
    Ok(text)
}

fn printable(field: &Field<'_>, expected: &str) -> Result<String, FieldError> {
    let text = field.text()?;
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > TEXT_BYTES_MAX || !printable {
        return Err(field.malformed(expected, text));
    }
    Ok(text.to_owned())
}

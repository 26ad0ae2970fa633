//! What an entry for SEV-SNP evidence pins and permits.

use sealane_types::Product;

use super::super::{DIGEST, flag};
use super::values;
use crate::document::{SnpPermissions, SnpReference, Tcb};
use crate::field::{Field, FieldError, Object};
use crate::limits::{CHIP_IDS_MAX, VALUES_MAX};

/// Highest privilege level of SEV-SNP.
const VMPL_MAX: u8 = 3;

pub(super) fn reference(object: &mut Object<'_>) -> Result<SnpReference, FieldError> {
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
    Ok(SnpReference { measurements, host_data, products, chip_ids, min_tcb, permissions })
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

fn permissions(object: &mut Object<'_>) -> Result<SnpPermissions, FieldError> {
    let debug = flag(object, "allowDebug", r#""allowDebug": false"#, false)?;
    let migration = flag(object, "allowMigration", r#""allowMigration": false"#, false)?;
    let vlek = flag(object, "allowVlek", r#""allowVlek": true"#, false)?;
    let smt = flag(object, "allowSmt", r#""allowSmt": true"#, false)?;
    let vmpl_max = object.optional("maxVmpl", r#""maxVmpl": 0"#);
    let vmpl_max = vmpl_max.map(|field| field.byte(VMPL_MAX)).transpose()?.unwrap_or_default();
    Ok(SnpPermissions { debug, migration, vlek, smt, vmpl_max })
}

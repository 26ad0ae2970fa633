//! What an entry for SEV-SNP evidence pins and permits.

use sealane_types::{MitigationVector, Product, SnpProtection};

use super::super::{DIGEST, flag};
use super::{any_initdata, values};
use crate::document::{SnpAbi, SnpFirmware, SnpIdentity, SnpPermissions, SnpReference, Tcb};
use crate::field::{Field, FieldError, Object};
use crate::limits::{CHIP_IDS_MAX, PROVIDER_BYTES_MAX, SNP_PLATFORM_BIT_MIN, VALUES_MAX};

/// Highest privilege level of SEV-SNP.
const VMPL_MAX: u8 = 3;
const SHA384: &str = "96 lower-case hex digits (SHA-384)";
const LABEL: &str = "32 lower-case hex digits (16 bytes)";

pub(super) fn reference(object: &mut Object<'_>) -> Result<SnpReference, FieldError> {
    let measurements = values(
        object,
        "measurements",
        r#""measurements": ["<96 hex digits of the launch digest>"]"#,
        VALUES_MAX,
        SHA384,
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
    let products = object.optional("products", r#""products": ["Genoa", "Turin"]"#);
    let products = products
        .map(|field| field.set(Product::ALL.len(), |product| product.word(Product::ALL)))
        .transpose()?
        .unwrap_or_default();
    let min_tcb =
        object.optional("minTcb", r#""minTcb": {"bootloader": 4, "tee": 0, "snp": 24, "microcode": 219}"#);
    let min_tcb = min_tcb.map(tcb).transpose()?.unwrap_or_default();
    let min_firmware =
        object.optional("minFirmware", r#""minFirmware": {"major": 1, "minor": 55, "build": 40}"#);
    let min_firmware = min_firmware.map(firmware).transpose()?;
    let min_guest_abi = object.optional("minGuestAbi", r#""minGuestAbi": {"major": 1, "minor": 51}"#);
    let min_guest_abi = min_guest_abi.map(abi).transpose()?;
    let mitigations = object.optional("requireMitigations", r#""requireMitigations": "0000000000000001""#);
    let mitigations = mitigations.map(|field| mitigations_of(&field)).transpose()?;
    let protections = object.optional("require", r#""require": ["AliasCheck", "CiphertextHiding"]"#);
    let protections = protections
        .map(|field| field.set(SnpProtection::ALL.len(), |word| word.word(SnpProtection::ALL)))
        .transpose()?
        .unwrap_or_default();
    let vlek_providers =
        object.optional("vlekProviders", r#""vlekProviders": ["CN=cc-us-east-2.amazonaws.com"]"#);
    let vlek_providers =
        vlek_providers.map(|field| field.set(VALUES_MAX, provider)).transpose()?.unwrap_or_default();
    Ok(SnpReference {
        measurements,
        host_data,
        any_initdata: any_initdata(object)?,
        products,
        chip_ids,
        identity: identity(object)?,
        min_tcb,
        min_firmware,
        min_guest_abi,
        mitigations,
        protections,
        vlek_providers,
        permissions: permissions(object)?,
    })
}

fn identity(object: &mut Object<'_>) -> Result<SnpIdentity, FieldError> {
    let id_keys =
        values(object, "idKeyDigests", r#""idKeyDigests": ["<96 hex digits>"]"#, VALUES_MAX, SHA384)?;
    let author_keys =
        values(object, "authorKeyDigests", r#""authorKeyDigests": ["<96 hex digits>"]"#, VALUES_MAX, SHA384)?;
    let family_ids = values(object, "familyIds", r#""familyIds": ["<32 hex digits>"]"#, VALUES_MAX, LABEL)?;
    let image_ids = values(object, "imageIds", r#""imageIds": ["<32 hex digits>"]"#, VALUES_MAX, LABEL)?;
    let min_guest_svn = object.optional("minGuestSvn", r#""minGuestSvn": 2"#);
    let min_guest_svn = min_guest_svn.map(|field| field.integer(0, u64::from(u32::MAX))).transpose()?;
    let min_guest_svn = min_guest_svn.map(|svn| u32::try_from(svn).unwrap_or(u32::MAX));
    Ok(SnpIdentity { id_keys, author_keys, family_ids, image_ids, min_guest_svn })
}

/// No bits at all would read as a demand and be none.
fn mitigations_of(field: &Field<'_>) -> Result<MitigationVector, FieldError> {
    const EXPECTED: &str = "16 lower-case hex digits that are not all zero";
    let vector: MitigationVector = field.parse(EXPECTED)?;
    if vector.bits() == 0 {
        return Err(field.malformed(EXPECTED, field.text()?));
    }
    Ok(vector)
}

/// CSP_ID as certificates write it, which is an IA5String.
fn provider(field: &Field<'_>) -> Result<String, FieldError> {
    let text = field.text()?;
    let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if text.is_empty() || text.len() > PROVIDER_BYTES_MAX || !printable {
        return Err(field.malformed("a provider's id as its VLEK certificates name it", text));
    }
    Ok(text.to_owned())
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

fn firmware(field: Field<'_>) -> Result<SnpFirmware, FieldError> {
    let mut object = field.object()?;
    let firmware = SnpFirmware {
        major: object.required("major", r#""major": 1"#)?.byte(u8::MAX)?,
        minor: object.required("minor", r#""minor": 55"#)?.byte(u8::MAX)?,
        build: object.required("build", r#""build": 40"#)?.byte(u8::MAX)?,
    };
    object.close()?;
    Ok(firmware)
}

fn abi(field: Field<'_>) -> Result<SnpAbi, FieldError> {
    let mut object = field.object()?;
    let abi = SnpAbi {
        major: object.required("major", r#""major": 1"#)?.byte(u8::MAX)?,
        minor: object.required("minor", r#""minor": 51"#)?.byte(u8::MAX)?,
    };
    object.close()?;
    Ok(abi)
}

fn permissions(object: &mut Object<'_>) -> Result<SnpPermissions, FieldError> {
    let debug = flag(object, "allowDebug", r#""allowDebug": false"#, false)?;
    let migration = flag(object, "allowMigration", r#""allowMigration": false"#, false)?;
    let vlek = flag(object, "allowVlek", r#""allowVlek": true"#, false)?;
    let smt = flag(object, "allowSmt", r#""allowSmt": true"#, false)?;
    let cxl = flag(object, "allowCxl", r#""allowCxl": true"#, false)?;
    let tio = flag(object, "allowTio", r#""allowTio": true"#, false)?;
    let milan = flag(object, "allowMilan", r#""allowMilan": true"#, false)?;
    let platform_bits = object.optional("allowPlatformInfoBits", r#""allowPlatformInfoBits": [8]"#);
    let platform_bits = platform_bits.map(|field| field.set(VALUES_MAX, platform_bit)).transpose()?;
    let platform_bits = platform_bits.iter().flatten().fold(0, |mask, bit| mask | 1_u64.unbounded_shl(*bit));
    let vmpl_max = object.optional("maxVmpl", r#""maxVmpl": 0"#);
    let vmpl_max = vmpl_max.map(|field| field.byte(VMPL_MAX)).transpose()?.unwrap_or_default();
    Ok(SnpPermissions { debug, migration, vlek, smt, cxl, tio, milan, platform_bits, vmpl_max })
}

/// The number of a bit that this release does not know: those below are permitted, or required, by their names.
fn platform_bit(field: &Field<'_>) -> Result<u32, FieldError> {
    let bit = field.integer(SNP_PLATFORM_BIT_MIN, 63)?;
    Ok(u32::try_from(bit).unwrap_or(63))
}

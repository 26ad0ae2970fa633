//! What an entry for SEV-SNP evidence pins and permits.

use super::super::{Members, text};
use crate::document::{SnpAbi, SnpFirmware, SnpIdentity, SnpPermissions, SnpReference, Tcb};
use crate::json::Tree;

pub(super) fn snp(members: Members, reference: &SnpReference) -> Members {
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
        vlek_providers,
        permissions,
    } = reference;
    let members = members
        .listed("measurements", measurements)
        .listed("hostData", host_data)
        .raised("allowAnyInitdata", *any_initdata)
        .listed("products", products)
        .listed("chipIds", chip_ids)
        .optional("minTcb", (!min_tcb.is_empty()).then(|| tcb(min_tcb)))
        .optional("minFirmware", min_firmware.map(firmware))
        .optional("minGuestAbi", min_guest_abi.map(abi))
        .optional("requireMitigations", mitigations.map(text))
        .listed("require", protections)
        .listed("vlekProviders", vlek_providers);
    permitted(identified(members, identity), permissions)
}

fn identified(members: Members, identity: &SnpIdentity) -> Members {
    let SnpIdentity { id_keys, author_keys, family_ids, image_ids, min_guest_svn } = identity;
    members
        .listed("idKeyDigests", id_keys)
        .listed("authorKeyDigests", author_keys)
        .listed("familyIds", family_ids)
        .listed("imageIds", image_ids)
        .optional("minGuestSvn", min_guest_svn.map(|svn| Tree::Integer(u64::from(svn))))
}

fn permitted(members: Members, permissions: &SnpPermissions) -> Members {
    let SnpPermissions { debug, migration, vlek, smt, cxl, tio, milan, platform_bits, vmpl_max } =
        *permissions;
    let bits = (0..u64::BITS).filter(|bit| platform_bits & 1_u64.unbounded_shl(*bit) != 0);
    let bits = bits.map(|bit| Tree::Integer(u64::from(bit)));
    let vmpl_max = u64::from(vmpl_max);
    members
        .raised("allowDebug", debug)
        .raised("allowMigration", migration)
        .raised("allowVlek", vlek)
        .raised("allowSmt", smt)
        .raised("allowCxl", cxl)
        .raised("allowTio", tio)
        .raised("allowMilan", milan)
        .trees("allowPlatformInfoBits", bits)
        .optional("maxVmpl", (vmpl_max > 0).then_some(Tree::Integer(vmpl_max)))
}

fn firmware(firmware: SnpFirmware) -> Tree {
    let SnpFirmware { major, minor, build } = firmware;
    let number = |value: u8| Tree::Integer(u64::from(value));
    Members::default()
        .put("major", number(major))
        .put("minor", number(minor))
        .put("build", number(build))
        .done()
}

fn abi(abi: SnpAbi) -> Tree {
    let SnpAbi { major, minor } = abi;
    let number = |value: u8| Tree::Integer(u64::from(value));
    Members::default().put("major", number(major)).put("minor", number(minor)).done()
}

fn tcb(tcb: &Tcb) -> Tree {
    let Tcb { fmc, bootloader, tee, snp, microcode } = *tcb;
    let component = |value: Option<u8>| value.map(|value| Tree::Integer(u64::from(value)));
    Members::default()
        .optional("fmc", component(fmc))
        .optional("bootloader", component(bootloader))
        .optional("tee", component(tee))
        .optional("snp", component(snp))
        .optional("microcode", component(microcode))
        .done()
}

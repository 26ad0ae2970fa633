//! Initdata: what whoever starts a guest hands to it, and its platform measures (Confidential Containers, *Initdata*).

use aws_lc_rs::digest::{Algorithm, Context, SHA256, SHA384};

use crate::claims::{Claims, Statement};

/// The PCR into which an enclave extends its initdata.
const INITDATA_PCR: u8 = 8;

/// Whether `claims` are of a guest that was started with exactly these bytes: HOST_DATA of SEV-SNP is their SHA-256,
/// MRCONFIGID of TDX their SHA-384, and PCR8 of a Nitro enclave was extended once, from zero, by their SHA-384.
#[must_use]
pub fn measures_initdata(claims: &Claims, initdata: &[u8]) -> bool {
    let hash = |algorithm: &'static Algorithm, parts: &[&[u8]]| {
        let mut hash = Context::new(algorithm);
        parts.iter().for_each(|part| hash.update(part));
        hash.finish()
    };
    match claims.statement() {
        Statement::SevSnp(snp) => snp.host_data().as_bytes() == hash(&SHA256, &[initdata]).as_ref(),
        Statement::Tdx(tdx) => tdx.mr_config_id().as_bytes() == hash(&SHA384, &[initdata]).as_ref(),
        Statement::Nitro(nitro) => nitro.pcr(INITDATA_PCR).is_some_and(|register| {
            let value = hash(&SHA384, &[initdata]);
            register.as_bytes() == hash(&SHA384, &[&[0; 48], value.as_ref()]).as_ref()
        }),
        Statement::Key(_) => false,
    }
}

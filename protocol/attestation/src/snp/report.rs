//! ATTESTATION_REPORT (AMD 56860, table 23): layout, signature, and its agreement with the signing key.

use aws_lc_rs::signature::{ECDSA_P384_SHA384_FIXED, UnparsedPublicKey};
use sealane_policy::{SnpAbi, SnpFirmware};
use sealane_types::{
    ChipId, Digest, GuestLabel, HostData, KeyDigest, Measurement, MitigationVector, Platform, Product,
    TcbStatus,
};

use super::SigningKey;
use super::chain::VerifiedKey;
use super::protections;
use crate::claims::{
    Claims, FirmwareVersions, GuestIdentity, Mitigations, Revocation, SnpClaims, Statement, Tcb, TcbVersions,
};
use crate::piece::VcekId;
use crate::rejection::Rejection;

const REPORT_BYTES: usize = 0x4a0;
/// What the signature covers; its two numbers follow.
const SIGNED_BYTES: usize = 0x2a0;
/// r and s lie in 72 bytes each, little-endian, and P-384 fills 48 of them.
const SIGNATURE_R: usize = 0x2a0;
const SIGNATURE_S: usize = 0x2e8;
const SCALAR_BYTES: usize = 48;
/// ECDSA on P-384 with SHA-384.
const SIGNATURE_ALGORITHM: u32 = 1;

// Bits of the guest policy (§4.3).
const POLICY_SMT: u64 = 1 << 16;
const POLICY_ONE: u64 = 1 << 17;
const POLICY_MIGRATION_AGENT: u64 = 1 << 18;
const POLICY_DEBUG: u64 = 1 << 19;
const POLICY_CXL: u64 = 1 << 21;
const POLICY_RESERVED_FROM: u32 = 26;

// Bits of the word at 0x48.
const AUTHOR_KEY: u32 = 1;
const KEY_MASKED: u32 = 1 << 1;
const KEY_KIND_FROM: u32 = 2;
const KEY_RESERVED_FROM: u32 = 5;

/// REPORT_ID_MA of a guest without a migration agent.
const NO_MIGRATION_AGENT: [u8; 32] = [0xff; 32];

/// Verifies `bytes` under `key` and reads what it states.
pub(super) fn verify(
    bytes: &[u8],
    key: &VerifiedKey,
    platform: Platform,
    root: Digest,
) -> Result<Claims, Rejection> {
    let report = Report::parse(bytes)?;
    report.check_signature(&key.point)?;
    // From here on the report is the chip's own word; what follows keeps one chip's from passing as another's.
    report.check_signer(key)?;
    let tcb = report.tcb_versions(key)?;
    let policy = report.u64(0x08)?;
    if policy & POLICY_ONE == 0 || policy >> POLICY_RESERVED_FROM != 0 {
        return Err(Rejection::Malformed("guest policy"));
    }
    let platform_info = report.u64(0x40)?;
    let protections = protections::read(policy, platform_info)?;
    let migration_agent: [u8; 32] = report.field(0x160)?;
    let vmpl = report.u32(0x30)?;
    let chip_id: [u8; 64] = report.field(0x1a0)?;
    let statement = SnpClaims {
        report_version: report.version,
        measurement: Measurement::new(report.field(0x90)?),
        host_data: HostData::new(report.field(0xc0)?),
        product: key.product,
        chip_id: (chip_id != [0; 64]).then_some(ChipId::new(chip_id)),
        provider: key.provider.clone(),
        identity: report.identity()?,
        tcb,
        firmware: report.firmware()?,
        guest_abi: abi(policy),
        mitigations: report.mitigations()?,
        protections,
        debug: policy & POLICY_DEBUG != 0,
        migration: policy & POLICY_MIGRATION_AGENT != 0 || migration_agent != NO_MIGRATION_AGENT,
        vmpl,
        smt: policy & POLICY_SMT != 0,
        cxl: policy & POLICY_CXL != 0,
        tio: protections::has_trusted_io(platform_info),
        unknown_platform_bits: protections::unknown(platform_info),
    };
    Ok(Claims {
        platform,
        root,
        report_data: Some(report.field(0x50)?),
        statement: Statement::SevSnp(statement),
        tcb_status: Some(TcbStatus::UpToDate),
        revocation: match platform {
            Platform::Simulated => Revocation::NotApplicable,
            _ => key.revocation,
        },
        expires: key.expires,
        lists: key.list.iter().map(|list| (key.product.into(), *list)).collect(),
        collateral: key.list.map(|list| list.term),
    })
}

/// The keys that may have signed a report, unverified: for whoever looks for the certificate. Reports of version 2 do not
/// say which product they are of. None where the chip hides its id, or a cloud provider's key signed.
#[must_use]
pub fn vcek_ids(report: &[u8]) -> Vec<VcekId> {
    ids(report).unwrap_or_default()
}

fn ids(bytes: &[u8]) -> Result<Vec<VcekId>, Rejection> {
    let report = Report::parse(bytes)?;
    let word = report.u32(0x48)?;
    let chip: [u8; 64] = report.field(0x1a0)?;
    if word & KEY_MASKED != 0 || (word >> KEY_KIND_FROM) & 0b111 != 0 || chip == [0; 64] {
        return Ok(Vec::new());
    }
    let products = if report.version >= 3 {
        let [family, model] = report.field(0x188)?;
        product_of(family, model).into_iter().collect()
    } else {
        vec![Product::Milan, Product::Genoa]
    };
    let tcb: [u8; 8] = report.field(0x180)?;
    let id = |product| Some(VcekId { product, chip: ChipId::new(chip), tcb: read_tcb(tcb, product).ok()? });
    Ok(products.into_iter().filter_map(id).collect())
}

/// A report of the right length and layout.
struct Report<'a> {
    bytes: &'a [u8; REPORT_BYTES],
    version: u32,
}

impl<'a> Report<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Rejection> {
        let bytes = bytes.try_into().map_err(|_| Rejection::Malformed("length of the report"))?;
        let mut report = Self { bytes, version: 0 };
        report.version = report.u32(0)?;
        if !matches!(report.version, 2..=5) {
            return Err(Rejection::Malformed("version of the report"));
        }
        if report.u32(0x34)? != SIGNATURE_ALGORITHM {
            return Err(Rejection::Malformed("signature algorithm of the report"));
        }
        // Bytes that are reserved in this version: a meaning given to them later must not pass unseen. Version 4 is laid out
        // as version 3 is.
        let cpuid_end = if report.version >= 3 { 0x18b } else { 0x188 };
        let mitigations_end = if report.version >= 5 { 0x208 } else { 0x1f8 };
        let reserved = [
            (0x4c, 0x50),
            (cpuid_end, 0x1a0),
            (0x1eb, 0x1ec),
            (0x1ef, 0x1f0),
            (mitigations_end, SIGNED_BYTES),
            // Not signed: a nonzero byte here would make other evidence of the same report.
            (SIGNATURE_R + SCALAR_BYTES, SIGNATURE_S),
            (SIGNATURE_S + SCALAR_BYTES, REPORT_BYTES),
        ];
        for (from, to) in reserved {
            let zero = report.bytes.get(from..to).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
            if !zero {
                return Err(Rejection::Malformed("reserved bytes of the report"));
            }
        }
        Ok(report)
    }

    fn field<const N: usize>(&self, offset: usize) -> Result<[u8; N], Rejection> {
        let field = self.bytes.get(offset..).and_then(|rest| rest.first_chunk());
        field.copied().ok_or(Rejection::Malformed("length of the report"))
    }

    fn u32(&self, offset: usize) -> Result<u32, Rejection> {
        self.field(offset).map(u32::from_le_bytes)
    }

    fn u64(&self, offset: usize) -> Result<u64, Rejection> {
        self.field(offset).map(u64::from_le_bytes)
    }

    /// The signature over the original bytes.
    fn check_signature(&self, point: &[u8]) -> Result<(), Rejection> {
        const UNTRUSTED: Rejection = Rejection::Untrusted("the signature of the report");
        let mut signature = Vec::with_capacity(2 * SCALAR_BYTES);
        for offset in [SIGNATURE_R, SIGNATURE_S] {
            let mut scalar: [u8; SCALAR_BYTES] = self.field(offset)?;
            scalar.reverse();
            signature.extend_from_slice(&scalar);
        }
        let signed = self.bytes.get(..SIGNED_BYTES).ok_or(UNTRUSTED)?;
        UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
            .verify(signed, &signature)
            .map_err(|_| UNTRUSTED)
    }

    /// Holds the report against the certificate of the key that signed it.
    fn check_signer(&self, key: &VerifiedKey) -> Result<(), Rejection> {
        let word = self.u32(0x48)?;
        if word >> KEY_RESERVED_FROM != 0 || word & KEY_MASKED != 0 {
            return Err(Rejection::Malformed("key word of the report"));
        }
        let kind = match key.signing_key {
            SigningKey::Vcek => 0,
            SigningKey::Vlek => 1,
        };
        if (word >> KEY_KIND_FROM) & 0b111 != kind {
            return Err(Rejection::Untrusted("the report says that another kind of key signed it"));
        }
        if self.version >= 3 {
            let [family, model] = self.field(0x188)?;
            if product_of(family, model) != Some(key.product) {
                return Err(Rejection::Untrusted("the report is of another product than the VCEK"));
            }
        }
        if let Some(id) = &key.hardware_id {
            let chip: [u8; 64] = self.field(0x1a0)?;
            let (same, rest) = chip.split_at_checked(id.len()).unwrap_or_default();
            if same != id.as_slice() || rest.iter().any(|byte| *byte != 0) {
                return Err(Rejection::Untrusted("the report is of another chip than the VCEK"));
            }
        }
        Ok(())
    }

    /// The ID block. Its digests are zero where there is none, and the author's where no author signed (AUTHOR_KEY_EN).
    fn identity(&self) -> Result<GuestIdentity, Rejection> {
        let authored = self.u32(0x48)? & AUTHOR_KEY != 0;
        let [id_key, author_key]: [[u8; 48]; 2] = [self.field(0xe0)?, self.field(0x110)?];
        if authored != (author_key != [0; 48]) {
            return Err(Rejection::Malformed("AUTHOR_KEY_DIGEST, which AUTHOR_KEY_EN contradicts"));
        }
        Ok(GuestIdentity {
            id_key: (id_key != [0; 48]).then_some(KeyDigest::new(id_key)),
            author_key: authored.then_some(KeyDigest::new(author_key)),
            family_id: GuestLabel::new(self.field(0x10)?),
            image_id: GuestLabel::new(self.field(0x20)?),
            svn: self.u32(0x04)?,
        })
    }

    /// CURRENT_BUILD, _MINOR, _MAJOR, and the same of what is committed.
    fn firmware(&self) -> Result<FirmwareVersions, Rejection> {
        let version = |offset| {
            self.field(offset).map(|[build, minor, major]: [u8; 3]| SnpFirmware { major, minor, build })
        };
        Ok(FirmwareVersions { current: version(0x1e8)?, committed: version(0x1ec)? })
    }

    /// LAUNCH_MIT_VECTOR and CURRENT_MIT_VECTOR.
    fn mitigations(&self) -> Result<Option<Mitigations>, Rejection> {
        if self.version < 5 {
            return Ok(None);
        }
        let [launch, current] = [self.u64(0x1f8)?, self.u64(0x200)?].map(MitigationVector::from_bits);
        Ok(Some(Mitigations { launch, current }))
    }

    fn tcb_versions(&self, key: &VerifiedKey) -> Result<TcbVersions, Rejection> {
        let tcb = |offset| read_tcb(self.field(offset)?, key.product);
        let (current, reported) = (tcb(0x38)?, tcb(0x180)?);
        let (committed, launch) = (tcb(0x1e0)?, tcb(0x1f0)?);
        // The key is derived from the reported version, so its certificate cannot honestly name another.
        if reported != key.tcb {
            return Err(Rejection::Untrusted("the reported TCB is not the VCEK's"));
        }
        for version in [reported, committed, launch] {
            if !current.reaches(&version) {
                return Err(Rejection::Untrusted("a TCB version above the current one: it was rolled back"));
            }
        }
        Ok(TcbVersions { current, reported, committed, launch })
    }
}

/// ABI_MAJOR and ABI_MINOR of a guest policy (§4.3).
const fn abi(policy: u64) -> SnpAbi {
    let [minor, major, ..] = policy.to_le_bytes();
    SnpAbi { major, minor }
}

/// TCB_VERSION (§2.2; Turin's layout is its own).
fn read_tcb(bytes: [u8; 8], product: Product) -> Result<Tcb, Rejection> {
    match (product, bytes) {
        (Product::Milan | Product::Genoa, [bootloader, tee, 0, 0, 0, 0, snp, microcode]) => {
            Ok(Tcb { fmc: None, bootloader, tee, snp, microcode })
        }
        (Product::Turin, [fmc, bootloader, tee, snp, 0, 0, 0, microcode]) => {
            Ok(Tcb { fmc: Some(fmc), bootloader, tee, snp, microcode })
        }
        _ => Err(Rejection::Malformed("reserved bytes of a TCB version")),
    }
}

/// The product with this combined family and extended model (AMD 56860, table 23, CPUID_FAM_ID): 0x11 and 0xa0 are
/// Genoa, and Bergamo and Siena with its root; 0x02 and 0x11 of family 0x1a are Turin, classic and dense.
const fn product_of(family: u8, model: u8) -> Option<Product> {
    match (family, model) {
        (0x19, 0x00..=0x0f) => Some(Product::Milan),
        (0x19, 0x10..=0x1f | 0xa0..=0xaf) => Some(Product::Genoa),
        (0x1a, 0x00..=0x11) => Some(Product::Turin),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Family and extended model as CPUID leaf 1 gives them.
    #[test]
    fn models_belong_to_their_product() {
        for (family, models, product) in [
            (0x19, 0x00..=0x0f, Some(Product::Milan)),
            (0x19, 0x10..=0x1f, Some(Product::Genoa)),
            (0x19, 0x20..=0x9f, None),
            // Bergamo and Siena.
            (0x19, 0xa0..=0xaf, Some(Product::Genoa)),
            (0x19, 0xb0..=0xff, None),
            (0x1a, 0x00..=0x11, Some(Product::Turin)),
            (0x1a, 0x12..=0xff, None),
            (0x17, 0x00..=0xff, None),
        ] {
            for model in models {
                assert_eq!(product_of(family, model), product, "{family:#x} {model:#x}");
            }
        }
    }
}

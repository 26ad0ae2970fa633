//! The TD report inside a quote ("Intel TDX Module ABI Specification" 348551, TDREPORT_STRUCT and TDINFO_STRUCT; the
//! layout in quotes is that of `sgx_quote_4.h` and `sgx_quote_5.h`).

use std::collections::BTreeSet;

use sealane_policy::TdxMeasurement;
use sealane_types::{Measurement, TdAttributes, Xfam};

use super::quote::{Body, Quote};
use crate::rejection::Rejection;

/// TDATTRIBUTES (table "ATTRIBUTES"): DEBUG, three bits of profiling, ICSSD, SERVTD_EXT, LASS, SEPT_VE_DISABLE, MIGRATABLE,
/// PKS, KL, PERFMON. All others are undefined, or make the guest something else than a workload (TPA).
const ATTRIBUTES_DEFINED: u64 =
    1 | 0b111 << 4 | 0b11 << 16 | 1 << 27 | 1 << 28 | 1 << 29 | 1 << 30 | 1 << 31 | 1 << 63;
/// SERVTD_EXT: service TDs may be bound after the guest was created, which only the extended report shows.
const SERVICE_TDS_LATER: u64 = 1 << 17;
/// XFAM: x87 and SSE are always there.
const XFAM_ALWAYS: u64 = 0b11;
/// XFAM (table "XFAM"): AVX, AVX-512, PT, PKRU, CET, ULI, LBR, AMX besides.
const XFAM_DEFINED: u64 = 0x0006_dbe7;

/// Security version numbers of the TDX module and of what loads it.
pub(super) type TeeTcbSvn = [u8; 16];

/// What a trust domain and its module state.
#[derive(Debug)]
pub(super) struct TdReport {
    /// At launch.
    pub(super) tcb: TeeTcbSvn,
    /// Now, which differs when the module was updated under the guest. TD 1.5 and later say so.
    pub(super) current_tcb: Option<TeeTcbSvn>,
    /// The TDX module.
    pub(super) mr_seam: Measurement,
    pub(super) signer: [u8; 48],
    pub(super) module_attributes: [u8; 8],
    pub(super) attributes: TdAttributes,
    pub(super) xfam: Xfam,
    pub(super) measurement: TdxMeasurement,
    pub(super) mr_config_id: Measurement,
    pub(super) mr_owner: Measurement,
    pub(super) mr_owner_config: Measurement,
    pub(super) report_data: [u8; 64],
    /// Hashes of service TDs that are or were bound to the guest.
    pub(super) service_tds: BTreeSet<Measurement>,
}

impl TdReport {
    pub(super) fn parse(quote: &Quote<'_>) -> Result<Self, Rejection> {
        let fields = Fields(quote.report);
        let report = Self {
            tcb: fields.at(0)?,
            current_tcb: if quote.body == Body::Td10 { None } else { Some(fields.at(584)?) },
            mr_seam: fields.register(16)?,
            signer: fields.at(64)?,
            module_attributes: fields.at(112)?,
            attributes: TdAttributes::new(fields.at(120)?),
            xfam: Xfam::new(fields.at(128)?),
            measurement: TdxMeasurement {
                mrtd: fields.register(136)?,
                rtmr: [fields.register(328)?, fields.register(376)?, fields.register(424)?],
                rtmr3: Some(fields.register(472)?),
            },
            mr_config_id: fields.register(184)?,
            mr_owner: fields.register(232)?,
            mr_owner_config: fields.register(280)?,
            report_data: fields.at(520)?,
            service_tds: service_tds(&fields, quote.body)?,
        };
        report.check(quote.body)?;
        if quote.body == Body::Td15Ex {
            check_extension(&fields)?;
        }
        Ok(report)
    }

    fn check(&self, body: Body) -> Result<(), Rejection> {
        // Zero for Intel's modules ("TDX Module Base Architecture Specification", SEAM measurement). The TCB info says
        // the same of each module; it is not asked to allow another.
        if self.signer != [0; 48] || self.module_attributes != [0; 8] {
            return Err(Rejection::Untrusted("the TDX module is not Intel's"));
        }
        let attributes = u64::from_le_bytes(*self.attributes.as_bytes());
        if attributes & !ATTRIBUTES_DEFINED != 0 {
            return Err(Rejection::Malformed("undefined bits of TDATTRIBUTES"));
        }
        if attributes & SERVICE_TDS_LATER != 0 && body != Body::Td15Ex {
            return Err(Rejection::Untrusted("service TDs that the quote does not show"));
        }
        let xfam = u64::from_le_bytes(*self.xfam.as_bytes());
        if xfam & !XFAM_DEFINED != 0 || xfam & XFAM_ALWAYS != XFAM_ALWAYS {
            return Err(Rejection::Malformed("undefined bits of XFAM"));
        }
        Ok(())
    }
}

/// MRSERVICETD, and in an extended report the hashes of service TDs at creation and now. Zero stands for none.
fn service_tds(fields: &Fields<'_>, body: Body) -> Result<BTreeSet<Measurement>, Rejection> {
    let offsets: &[usize] = match body {
        Body::Td10 => &[],
        Body::Td15 => &[600],
        Body::Td15Ex => &[600, 729, 829],
    };
    let hashes = offsets.iter().map(|offset| fields.register(*offset)).collect::<Result<BTreeSet<_>, _>>()?;
    Ok(hashes.into_iter().filter(|hash| *hash.as_bytes() != [0; 48]).collect())
}

/// What the extended report says besides, and nothing here could judge.
fn check_extension(fields: &Fields<'_>) -> Result<(), Rejection> {
    // VMID: the report was asked for on behalf of a virtual machine inside the trust domain.
    if fields.at(648)? != [0; 1] {
        return Err(Rejection::Untrusted("the quote is for a partition of the trust domain"));
    }
    // Hash of the information on devices that belong to the trust domain (TDX Connect).
    if fields.at(681)? != [0; 48] {
        return Err(Rejection::Untrusted("devices are bound to the trust domain"));
    }
    Ok(())
}

/// A TD report of the right length.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn at<const N: usize>(&self, offset: usize) -> Result<[u8; N], Rejection> {
        let field = self.0.get(offset..).and_then(|rest| rest.first_chunk());
        field.copied().ok_or(Rejection::Malformed("length of the TD report"))
    }

    fn register(&self, offset: usize) -> Result<Measurement, Rejection> {
        self.at(offset).map(Measurement::new)
    }
}

//! TCB info: how each set of security version numbers of one processor family stands, as Intel's provisioning
//! certification service (API version 4) writes it.

use sealane_types::Fmspc;
use serde::Deserialize;

use super::statement::{Dates, EnclaveLevel, Standing, bytes, dates, enclave_levels, statuses};
use crate::rejection::Rejection;

const COMPONENTS: usize = 16;

/// TCB info of version 3 for TDX.
#[derive(Debug)]
pub(super) struct TcbInfo {
    pub(super) dates: Dates,
    pub(super) fmspc: Fmspc,
    pub(super) pce_id: [u8; 2],
    pub(super) evaluation: u32,
    /// What holds for modules of version 0.
    pub(super) module: Signer,
    pub(super) modules: Vec<Module>,
    /// Highest first.
    pub(super) levels: Vec<Level>,
}

/// Who signed a TDX module, and what its attributes are.
#[derive(Debug)]
pub(super) struct Signer {
    pub(super) signer: [u8; 48],
    pub(super) attributes: [u8; 8],
    pub(super) attributes_mask: [u8; 8],
}

/// TDX modules of one major version.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) version: u8,
    pub(super) signer: Signer,
    /// Highest version first.
    pub(super) levels: Vec<(u16, Standing)>,
}

/// The least numbers that a platform of this level has. Ordered as Intel's own verifier orders levels.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) sgx: [u8; COMPONENTS],
    pub(super) pce_svn: u16,
    pub(super) tdx: [u8; COMPONENTS],
    pub(super) standing: Standing,
}

impl TcbInfo {
    pub(super) fn parse(text: &[u8]) -> Result<Self, Rejection> {
        const MALFORMED: Rejection = Rejection::CollateralMissing("the TCB info cannot be parsed");
        let raw: Raw = serde_json::from_slice(text).map_err(|_| MALFORMED)?;
        // Type 0: components are compared one by one. No other is defined.
        if raw.id != "TDX" || raw.version != 3 || raw.tcb_type != 0 {
            return Err(Rejection::CollateralMissing("the TCB info is not one for TDX"));
        }
        raw.read().ok_or(MALFORMED)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    id: String,
    version: u32,
    issue_date: String,
    next_update: String,
    fmspc: String,
    pce_id: String,
    tcb_type: u32,
    tcb_evaluation_data_number: u32,
    tdx_module: RawSigner,
    #[serde(default)]
    tdx_module_identities: Vec<RawModule>,
    tcb_levels: Vec<RawLevel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSigner {
    mrsigner: String,
    attributes: String,
    attributes_mask: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawModule {
    id: String,
    mrsigner: String,
    attributes: String,
    attributes_mask: String,
    tcb_levels: Vec<EnclaveLevel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLevel {
    tcb: RawTcb,
    tcb_status: String,
    #[serde(rename = "advisoryIDs", default)]
    advisories: Vec<String>,
}

#[derive(Deserialize)]
struct RawTcb {
    sgxtcbcomponents: [Component; COMPONENTS],
    pcesvn: u16,
    tdxtcbcomponents: [Component; COMPONENTS],
}

#[derive(Deserialize)]
struct Component {
    svn: u8,
}

impl Raw {
    fn read(self) -> Option<TcbInfo> {
        let mut levels = self.tcb_levels.into_iter().map(RawLevel::read).collect::<Option<Vec<_>>>()?;
        levels.sort_by(|one, other| {
            let key = |level: &Level| (level.sgx, level.pce_svn, level.tdx);
            key(other).cmp(&key(one))
        });
        let modules = self.tdx_module_identities.into_iter().map(RawModule::read);
        let modules = modules.collect::<Option<Vec<_>>>()?;
        let unique = modules
            .iter()
            .enumerate()
            .all(|(at, one)| modules.iter().skip(at).skip(1).all(|other| one.version != other.version));
        unique.then_some(TcbInfo {
            dates: dates(&self.issue_date, &self.next_update)?,
            fmspc: Fmspc::new(bytes(&self.fmspc)?),
            pce_id: bytes(&self.pce_id)?,
            evaluation: self.tcb_evaluation_data_number,
            module: self.tdx_module.read()?,
            modules,
            levels,
        })
    }
}

impl RawSigner {
    fn read(self) -> Option<Signer> {
        Some(Signer {
            signer: bytes(&self.mrsigner)?,
            attributes: bytes(&self.attributes)?,
            attributes_mask: bytes(&self.attributes_mask)?,
        })
    }
}

impl RawModule {
    fn read(self) -> Option<Module> {
        let Self { id, mrsigner, attributes, attributes_mask, tcb_levels } = self;
        let [version] = bytes(id.strip_prefix("TDX_")?)?;
        let signer = RawSigner { mrsigner, attributes, attributes_mask }.read()?;
        Some(Module { version, signer, levels: enclave_levels(tcb_levels)? })
    }
}

impl RawLevel {
    fn read(self) -> Option<Level> {
        let svn = |components: [Component; COMPONENTS]| components.map(|component| component.svn);
        Some(Level {
            sgx: svn(self.tcb.sgxtcbcomponents),
            pce_svn: self.tcb.pcesvn,
            tdx: svn(self.tcb.tdxtcbcomponents),
            standing: Standing { statuses: statuses(&self.tcb_status)?, advisories: self.advisories },
        })
    }
}

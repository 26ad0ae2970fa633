//! The platform that is simulated.

use serde::{Deserialize, Serialize};

/// What a platform's certificate says of it. TCB info and TD reports agree with it, as they do on hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Processor {
    pub fmspc: [u8; 6],
    pub pce_id: [u8; 2],
    /// Security version numbers of the processor's components.
    pub components: [u8; 16],
    pub pce_svn: u16,
    /// TEE_TCB_SVN: the TDX module's version and major version, then what loads it.
    pub tee_tcb: [u8; 16],
    /// Left out of the certificate where it is None, as certificates of single packages do.
    pub dynamic_platform: Option<bool>,
    pub cached_keys: Option<bool>,
    pub smt: Option<bool>,
}

impl Default for Processor {
    fn default() -> Self {
        Self {
            fmspc: [0x50, 0x53, 0x49, 0x4d, 0, 0],
            pce_id: [0, 0],
            components: [2, 2, 2, 2, 3, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0],
            pce_svn: 11,
            tee_tcb: [5, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            dynamic_platform: Some(false),
            cached_keys: Some(false),
            smt: Some(false),
        }
    }
}

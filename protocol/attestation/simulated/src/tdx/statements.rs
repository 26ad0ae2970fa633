//! TCB info and QE identity, as Intel's provisioning certification service words them.

use std::time::Duration;

use serde_json::{Value, json};

use super::processor::Processor;
use crate::error::SimulationError;

/// MRSIGNER, ISVPRODID and ISVSVN of the simulated quoting enclave.
pub(super) const ENCLAVE_SIGNER: [u8; 32] = [0x51; 32];
pub(super) const ENCLAVE_PRODUCT: u16 = 2;
pub(super) const ENCLAVE_VERSION: u16 = 4;
/// ATTRIBUTES of an initialised enclave in 64-bit mode that may use the provisioning key.
pub(super) const ENCLAVE_ATTRIBUTES: [u8; 16] = [0x15, 0, 0, 0, 0, 0, 0, 0, 0xe7, 0, 0, 0, 0, 0, 0, 0];
const EVALUATION: u32 = 20;

/// One level, which `processor` reaches in every number, and one of old.
pub(super) fn info(processor: &Processor, from: Duration, until: Duration) -> Result<Value, SimulationError> {
    let Processor { fmspc, pce_id, components, pce_svn, tee_tcb, .. } = processor;
    let listed = |numbers: &[u8; 16]| numbers.iter().map(|svn| json!({"svn": svn})).collect::<Vec<_>>();
    let [version, major, ..] = *tee_tcb;
    let level = |components: &[u8; 16], status: &str| {
        json!({
            "tcb": {
                "sgxtcbcomponents": listed(components),
                "pcesvn": pce_svn,
                "tdxtcbcomponents": listed(tee_tcb),
            },
            "tcbDate": "2026-01-01T00:00:00Z",
            "tcbStatus": status,
        })
    };
    let signer = |id: Option<String>| {
        let mut signer = json!({
            "mrsigner": "00".repeat(48),
            "attributes": "00".repeat(8),
            "attributesMask": "FF".repeat(8),
        });
        if let Some(id) = id {
            signer["id"] = id.into();
            signer["tcbLevels"] = json!([{
                "tcb": {"isvsvn": version},
                "tcbDate": "2026-01-01T00:00:00Z",
                "tcbStatus": "UpToDate",
            }]);
        }
        signer
    };
    Ok(json!({
        "id": "TDX",
        "version": 3,
        "issueDate": time(from)?,
        "nextUpdate": time(until)?,
        "fmspc": hex(fmspc),
        "pceId": hex(pce_id),
        "tcbType": 0,
        "tcbEvaluationDataNumber": EVALUATION,
        "tdxModule": signer(None),
        "tdxModuleIdentities": [signer(Some(format!("TDX_{major:02X}")))],
        "tcbLevels": [level(components, "UpToDate"), level(&[0; 16], "OutOfDate")],
    }))
}

pub(super) fn identity(from: Duration, until: Duration) -> Result<Value, SimulationError> {
    Ok(json!({
        "id": "TD_QE",
        "version": 2,
        "issueDate": time(from)?,
        "nextUpdate": time(until)?,
        "tcbEvaluationDataNumber": EVALUATION,
        "miscselect": "00000000",
        "miscselectMask": "FFFFFFFF",
        "attributes": "11000000000000000000000000000000",
        "attributesMask": "FBFFFFFFFFFFFFFF0000000000000000",
        "mrsigner": hex(&ENCLAVE_SIGNER),
        "isvprodid": ENCLAVE_PRODUCT,
        "tcbLevels": [{
            "tcb": {"isvsvn": ENCLAVE_VERSION},
            "tcbDate": "2026-01-01T00:00:00Z",
            "tcbStatus": "UpToDate",
        }],
    }))
}

/// Intel writes upper case.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// RFC 3339 in UTC with whole seconds, by the calendar that certificates use.
fn time(since_epoch: Duration) -> Result<String, SimulationError> {
    let time = x509_cert::der::DateTime::from_unix_duration(Duration::from_secs(since_epoch.as_secs()))?;
    Ok(time.to_string())
}

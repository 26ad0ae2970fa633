//! What Intel's signed statements have in common. Members that are not read say nothing that the verdict needs; one that
//! is there twice is refused.

use sealane_policy::Timestamp;
use sealane_types::{TcbStatus, UnixSeconds};
use serde::Deserialize;

/// What Intel says of one level, the words that apply to it: some of its statuses are two at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) statuses: &'static [TcbStatus],
    pub(super) advisories: Vec<String>,
}

/// From when until when a statement is valid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dates {
    pub(super) from: UnixSeconds,
    pub(super) until: UnixSeconds,
}

/// A level of an enclave or module, which has one number.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnclaveLevel {
    tcb: EnclaveTcb,
    tcb_status: String,
    #[serde(rename = "advisoryIDs", default)]
    advisories: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct EnclaveTcb {
    isvsvn: u16,
}

/// Highest version first: the first that is reached is the one that applies, in whatever order they were written.
pub(super) fn enclave_levels(levels: Vec<EnclaveLevel>) -> Option<Vec<(u16, Standing)>> {
    let levels = levels.into_iter().map(|EnclaveLevel { tcb, tcb_status, advisories }| {
        Some((tcb.isvsvn, Standing { statuses: statuses(&tcb_status)?, advisories }))
    });
    let mut levels = levels.collect::<Option<Vec<_>>>()?;
    levels.sort_by(|(one, _), (other, _)| other.cmp(one));
    Some(levels)
}

/// Intel's words in ours. A relaunch is advised to guests that were launched by a module that is out of date.
pub(super) fn statuses(word: &str) -> Option<&'static [TcbStatus]> {
    use TcbStatus::{ConfigurationNeeded, OutOfDate, Revoked, SoftwareHardeningNeeded, UpToDate};
    Some(match word {
        "UpToDate" => &[UpToDate],
        "SWHardeningNeeded" => &[SoftwareHardeningNeeded],
        "ConfigurationNeeded" => &[ConfigurationNeeded],
        "ConfigurationAndSWHardeningNeeded" => &[ConfigurationNeeded, SoftwareHardeningNeeded],
        "OutOfDate" | "TDRelaunchAdvised" => &[OutOfDate],
        "OutOfDateConfigurationNeeded" | "TDRelaunchAdvisedConfigurationNeeded" => {
            &[OutOfDate, ConfigurationNeeded]
        }
        "Revoked" => &[Revoked],
        _ => return None,
    })
}

pub(super) fn dates(from: &str, until: &str) -> Option<Dates> {
    let [from, until] = [from, until].map(|date| date.parse::<Timestamp>());
    Some(Dates { from: from.ok()?.unix(), until: until.ok()?.unix() })
}

/// Intel writes hex in either case.
pub(super) fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

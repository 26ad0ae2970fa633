//! /dev/sev-guest: reports of SEV-SNP guests whose kernel has no configfs-tsm.
//!
//! Reports come without certificates: the call of the `sev` crate that returns them follows offsets that the
//! host wrote, by pointer. The signing certificate is had from the collateral instead.

use std::io;
use std::sync::{Arc, OnceLock};

use futures::future::{BoxFuture, FutureExt, ready};
use sealane_attestation::Format;
use sev::error::{FirmwareError, SevError, UserApiError};
use sev::firmware::guest::Firmware;

use super::device::Device;
use super::report;
use crate::evidence::provider::{Provider, ProviderError, Quote, QuoteRequest};

/// The least privileged level of a guest; the most privileged one is 0, and software below a service module cannot ask for
/// that.
const LEVEL_MAX: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct SevGuest {
    device: Device,
    /// The level that reports are asked for, once there was one: it is part of what policies pin, and does not change.
    level: Arc<OnceLock<u32>>,
}

impl Provider for SevGuest {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        ready(open().map(|_| Format::SevSnp)).boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        let level = Arc::clone(&self.level);
        self.device.ask(move || quote(&level, &request.report_data)).boxed()
    }
}

fn quote(level: &OnceLock<u32>, report_data: &[u8; 64]) -> Result<Quote, ProviderError> {
    let mut device = open()?;
    let report = reported(level, |level| device.get_report(None, Some(*report_data), Some(level)));
    let report =
        report.map_err(|error| ProviderError::Refused(Box::new(io::Error::other(error.to_string()))))?;
    report::carries(Format::SevSnp, &report, report_data)?;
    Ok(Quote { report, certificates: Vec::new(), workload: None })
}

/// The report of the level that is `known`; before one is, of the first level that this software may ask for. Any other
/// failure is no word on levels.
fn reported(
    known: &OnceLock<u32>,
    mut ask: impl FnMut(u32) -> Result<Vec<u8>, UserApiError>,
) -> Result<Vec<u8>, UserApiError> {
    let mut level = known.get().copied().unwrap_or(0);
    loop {
        match ask(level) {
            // What the firmware says of a level that is more privileged than the key of the request (SEV-SNP ABI 7.3).
            Err(UserApiError::FirmwareError(FirmwareError::KnownSevError(SevError::InvalidParam)))
                if known.get().is_none() && level < LEVEL_MAX =>
            {
                level += 1;
            }
            report => {
                return report.inspect(|_| {
                    known.get_or_init(|| level);
                });
            }
        }
    }
}

fn open() -> Result<Firmware, ProviderError> {
    Firmware::open().map_err(|source| ProviderError::Device { what: "/dev/sev-guest", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_allowed() -> UserApiError {
        FirmwareError::KnownSevError(SevError::InvalidParam).into()
    }

    #[test]
    fn reports_are_of_one_level() {
        let known = OnceLock::new();
        let below = |most: u32| {
            move |level: u32| if level < most { Err(not_allowed()) } else { Ok(vec![level as u8]) }
        };
        assert_eq!(reported(&known, below(2)).unwrap(), [2]);
        assert!(reported(&known, below(3)).is_err(), "not that of another level");
        assert_eq!(reported(&known, below(0)).unwrap(), [2]);
    }

    #[test]
    fn a_device_that_fails_is_not_asked_for_another_level() {
        let known = OnceLock::new();
        let mut asked = 0;
        let busy = reported(&known, |_| {
            asked += 1;
            Err(FirmwareError::KnownSevError(SevError::ResourceLimit).into())
        });
        assert!(busy.is_err());
        assert_eq!((asked, known.get()), (1, None));
        let nothing = reported(&known, |_| {
            asked += 1;
            Err(not_allowed())
        });
        assert!(nothing.is_err());
        assert_eq!(asked, 5, "each of the four levels, once");
    }
}

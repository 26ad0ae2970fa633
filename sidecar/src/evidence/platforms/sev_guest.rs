//! /dev/sev-guest: reports of SEV-SNP guests whose kernel has no configfs-tsm.
//!
//! Reports come without certificates: the call of the `sev` crate that returns them follows offsets that the
//! host wrote, by pointer. The signing certificate is had from the collateral instead.

use std::io;

use futures::future::{BoxFuture, FutureExt, ready};
use sealane_attestation::Format;
use sev::firmware::guest::Firmware;

use super::report;
use crate::evidence::provider::{Provider, ProviderError, Quote, QuoteRequest};

/// Privilege levels of a guest, the most privileged first. Software below a service module cannot ask for 0.
const LEVELS: std::ops::RangeInclusive<u32> = 0..=3;

#[derive(Debug)]
pub(super) struct SevGuest;

impl Provider for SevGuest {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        ready(open().map(|_| Format::SevSnp)).boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        async move {
            let done = tokio::task::spawn_blocking(move || quote(&request.report_data)).await;
            done.unwrap_or_else(|failed| Err(ProviderError::Refused(Box::new(failed))))
        }
        .boxed()
    }
}

fn quote(report_data: &[u8; 64]) -> Result<Quote, ProviderError> {
    let mut device = open()?;
    let mut refused = None;
    for level in LEVELS {
        match device.get_report(None, Some(*report_data), Some(level)) {
            Ok(report) => {
                report::carries(Format::SevSnp, &report, report_data)?;
                return Ok(Quote { report, certificates: Vec::new(), workload: None });
            }
            // The refusal of the highest level is the one that tells what is wrong.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.map_or(ProviderError::Unavailable, |error| {
        ProviderError::Refused(Box::new(io::Error::other(error.to_string())))
    }))
}

fn open() -> Result<Firmware, ProviderError> {
    Firmware::open().map_err(|source| ProviderError::Device { what: "/dev/sev-guest", source })
}

//! Whether a fresh quote carries what was asked for: a platform that mixes up its callers is caught here, with
//! a clear message, rather than by every peer.

use sealane_attestation::Format;

use crate::evidence::provider::ProviderError;

/// REPORT_DATA of an SEV-SNP report (AMD 56860, table 23).
const SNP_REPORT_DATA: usize = 0x50;
/// REPORTDATA within the TD report, and where that begins in quotes of version 4 and 5 (Intel TDX DCAP Quoting
/// Library API, appendix A.3 and A.4).
const TD_REPORT_DATA: usize = 520;
const TD_REPORT_V4: usize = 48;
const TD_REPORT_V5: usize = 48 + 6;

/// # Errors
/// [`ProviderError::Malformed`] when it does not.
pub(super) fn carries(format: Format, report: &[u8], report_data: &[u8; 64]) -> Result<(), ProviderError> {
    let offset = match format {
        Format::SevSnp => SNP_REPORT_DATA,
        Format::Tdx if report.starts_with(&[4, 0]) => TD_REPORT_V4 + TD_REPORT_DATA,
        Format::Tdx if report.starts_with(&[5, 0]) => TD_REPORT_V5 + TD_REPORT_DATA,
        Format::Tdx => {
            return Err(ProviderError::Malformed("the platform gave a quote of an unknown version"));
        }
        // A signed structure of variable layout; peers read it whole.
        _ => return Ok(()),
    };
    if report.get(offset..offset + report_data.len()) == Some(report_data) {
        Ok(())
    } else {
        Err(ProviderError::Malformed("the platform's quote does not carry what it was asked for"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_data_and_short_reports_are_refused() {
        let asked = [7; 64];
        for (format, version, offset) in
            [(Format::SevSnp, 3, 0x50), (Format::Tdx, 4, 568), (Format::Tdx, 5, 574)]
        {
            let mut report = vec![0; 1184];
            report[0] = version;
            assert!(carries(format, &report, &asked).is_err());
            report[offset..offset + 64].copy_from_slice(&asked);
            carries(format, &report, &asked).unwrap();
            assert!(carries(format, &report[..offset + 63], &asked).is_err());
        }
        assert!(carries(Format::Tdx, &[3; 700], &asked).is_err());
    }
}

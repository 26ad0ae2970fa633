//! Raw attestation bytes as they travel.

use std::fmt;

use sealane_types::Platform;

use crate::codec::{Reader, put_prefixed};
use crate::limits::{CERTIFICATE_BYTES_MAX, CERTIFICATES_MAX, EVIDENCE_BYTES_MAX, REPORT_BYTES_MAX};
use crate::rejection::Rejection;

/// What a platform said, unverified.
///
/// Encoded as: platform (one byte) ‖ lp(report) ‖ number of certificates (one byte) ‖ lp(certificate)…, with
/// nothing after it.
#[derive(Clone, PartialEq, Eq)]
pub struct Evidence {
    pub platform: Platform,
    /// The platform's own signed structure: for SEV-SNP the 1184 bytes of ATTESTATION_REPORT.
    pub report: Vec<u8>,
    /// DER, the signing certificate first, then its issuers. For SEV-SNP `[VCEK, ASK?, ARK?]`, of which real
    /// hardware's issuers are ignored in favour of the pinned ones; for Simulated all three are needed.
    pub certificates: Vec<Vec<u8>>,
}

impl Evidence {
    /// The bytes on the wire.
    ///
    /// # Errors
    /// [`Rejection::Malformed`] when a part is larger than any verifier accepts.
    pub fn encode(&self) -> Result<Vec<u8>, Rejection> {
        self.check_sizes()?;
        let count = u8::try_from(self.certificates.len())
            .map_err(|_| Rejection::Malformed("number of certificates"))?;
        let mut out = vec![code(self.platform)];
        put_prefixed(&mut out, &self.report);
        out.push(count);
        for certificate in &self.certificates {
            put_prefixed(&mut out, certificate);
        }
        if out.len() > EVIDENCE_BYTES_MAX {
            return Err(Rejection::Malformed("size of the evidence"));
        }
        debug_assert_eq!(Self::decode(&out).as_ref(), Ok(self));
        Ok(out)
    }

    /// Reads exactly one encoded evidence.
    ///
    /// # Errors
    /// [`Rejection::Malformed`] for anything that [`Self::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, Rejection> {
        if bytes.len() > EVIDENCE_BYTES_MAX {
            return Err(Rejection::Malformed("size of the evidence"));
        }
        Self::read(bytes).ok_or(Rejection::Malformed("evidence encoding"))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let platform = platform(reader.byte()?)?;
        let report = reader.prefixed(REPORT_BYTES_MAX)?.to_vec();
        let count = usize::from(reader.byte()?);
        if count > CERTIFICATES_MAX {
            return None;
        }
        let mut certificates = Vec::with_capacity(count);
        for _ in 0..count {
            certificates.push(reader.prefixed(CERTIFICATE_BYTES_MAX)?.to_vec());
        }
        reader.is_empty().then_some(Self { platform, report, certificates })
    }

    /// Evidence may also be built by its fields, so [`crate::inspect`] checks the same bounds again.
    pub(crate) fn check_sizes(&self) -> Result<(), Rejection> {
        if self.report.len() > REPORT_BYTES_MAX {
            return Err(Rejection::Malformed("size of the report"));
        }
        if self.certificates.len() > CERTIFICATES_MAX {
            return Err(Rejection::Malformed("number of certificates"));
        }
        if self.certificates.iter().any(|certificate| certificate.len() > CERTIFICATE_BYTES_MAX) {
            return Err(Rejection::Malformed("size of a certificate"));
        }
        Ok(())
    }
}

impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evidence")
            .field("platform", &self.platform)
            .field("report_bytes", &self.report.len())
            .field("certificates", &self.certificates.len())
            .finish()
    }
}

/// The byte of a platform on the wire; the list only grows.
const fn code(platform: Platform) -> u8 {
    match platform {
        Platform::SevSnp => 1,
        Platform::Tdx => 2,
        Platform::Nitro => 3,
        Platform::Key => 4,
        Platform::Simulated => 5,
    }
}

fn platform(byte: u8) -> Option<Platform> {
    Platform::ALL.iter().copied().find(|platform| code(*platform) == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Evidence {
        Evidence {
            platform: Platform::Simulated,
            report: vec![7; 1184],
            certificates: vec![vec![1], vec![2; 9]],
        }
    }

    #[test]
    fn what_is_encoded_decodes() {
        for platform in Platform::ALL {
            let evidence = Evidence { platform: *platform, ..sample() };
            assert_eq!(Evidence::decode(&evidence.encode().unwrap()).unwrap(), evidence);
        }
    }

    #[test]
    fn one_encoding_only() {
        let bytes = sample().encode().unwrap();
        for length in 0..bytes.len() {
            assert!(Evidence::decode(&bytes[..length]).is_err(), "{length}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Evidence::decode(&longer).is_err());
        let mut unknown = bytes;
        unknown[0] = 6;
        assert!(Evidence::decode(&unknown).is_err());
    }

    #[test]
    fn sizes_are_bounded() {
        let too_large = [
            Evidence { report: vec![0; REPORT_BYTES_MAX + 1], ..sample() },
            Evidence { certificates: vec![vec![]; CERTIFICATES_MAX + 1], ..sample() },
            Evidence { certificates: vec![vec![0; CERTIFICATE_BYTES_MAX + 1]], ..sample() },
            Evidence {
                report: vec![0; REPORT_BYTES_MAX],
                certificates: vec![vec![0; CERTIFICATE_BYTES_MAX]; CERTIFICATES_MAX],
                ..sample()
            },
        ];
        for evidence in too_large {
            assert!(evidence.encode().is_err(), "{evidence:?}");
        }
        // A length far beyond the bytes that are there is refused before anything is allocated for it.
        assert!(Evidence::decode(&[1, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(Evidence::decode(&vec![0; EVIDENCE_BYTES_MAX + 1]).is_err());
    }
}

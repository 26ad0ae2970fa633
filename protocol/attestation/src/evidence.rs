//! Raw attestation bytes as they travel.

use std::fmt;

use sealane_types::Platform;

use crate::codec::{Reader, put_prefixed};
use crate::limits::{CERTIFICATE_BYTES_MAX, CERTIFICATES_MAX, EVIDENCE_BYTES_MAX, REPORT_BYTES_MAX};
use crate::rejection::Rejection;

/// The layout of evidence, and whether it is a simulation's. The byte on the wire is the discriminant; the list
/// only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Format {
    SevSnp = 1,
    Tdx = 2,
    Nitro = 3,
    /// No TEE: a pinned key signs in its place.
    Key = 4,
    SimulatedSevSnp = 5,
    SimulatedTdx = 6,
    SimulatedNitro = 7,
}

impl Format {
    /// Every format, in the order of their bytes.
    pub const ALL: &'static [Self] = &[
        Self::SevSnp,
        Self::Tdx,
        Self::Nitro,
        Self::Key,
        Self::SimulatedSevSnp,
        Self::SimulatedTdx,
        Self::SimulatedNitro,
    ];

    /// The platform as policies and users name it.
    #[must_use]
    pub const fn platform(self) -> Platform {
        match self {
            Self::SevSnp => Platform::SevSnp,
            Self::Tdx => Platform::Tdx,
            Self::Nitro => Platform::Nitro,
            Self::Key => Platform::Key,
            Self::SimulatedSevSnp | Self::SimulatedTdx | Self::SimulatedNitro => Platform::Simulated,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| *format as u8 == byte)
    }
}

/// What a platform said, unverified.
///
/// Encoded as: format (one byte) ‖ lp(report) ‖ number of certificates (one byte) ‖ lp(certificate)…, with
/// nothing after it.
#[derive(Clone, PartialEq, Eq)]
pub struct Evidence {
    pub format: Format,
    /// The platform's own signed structure: the 1184 bytes of an SEV-SNP ATTESTATION_REPORT, a TDX quote, the
    /// COSE_Sign1 of a Nitro attestation document, or what [`crate::key_report`] puts together.
    pub report: Vec<u8>,
    /// DER, the signing certificate first, then its issuers. For SEV-SNP `[VCEK, ASK?, ARK?]`, of which real
    /// hardware's issuers are ignored in favour of the pinned ones; for Simulated all three are needed. Empty for TDX
    /// and Nitro, whose quotes and documents bring their own, and for Key, which has none. A simulation of TDX brings what a verifier of the real one
    /// has as collateral: `[signer, TCB info, its signature, QE identity, its signature, the root's list, the
    /// authority's list]`.
    pub certificates: Vec<Vec<u8>>,
}

impl Evidence {
    /// The platform that it claims to be from.
    #[must_use]
    pub const fn platform(&self) -> Platform {
        self.format.platform()
    }

    /// The bytes on the wire.
    ///
    /// # Errors
    /// [`Rejection::Malformed`] when a part is larger than any verifier accepts.
    pub fn encode(&self) -> Result<Vec<u8>, Rejection> {
        self.check_sizes()?;
        let count = u8::try_from(self.certificates.len())
            .map_err(|_| Rejection::Malformed("number of certificates"))?;
        let mut out = vec![self.format as u8];
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
        let format = Format::of(reader.byte()?)?;
        let report = reader.prefixed(REPORT_BYTES_MAX)?.to_vec();
        let count = usize::from(reader.byte()?);
        if count > CERTIFICATES_MAX {
            return None;
        }
        let mut certificates = Vec::with_capacity(count);
        for _ in 0..count {
            certificates.push(reader.prefixed(CERTIFICATE_BYTES_MAX)?.to_vec());
        }
        reader.is_empty().then_some(Self { format, report, certificates })
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
            .field("format", &self.format)
            .field("report_bytes", &self.report.len())
            .field("certificates", &self.certificates.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Evidence {
        Evidence {
            format: Format::SimulatedSevSnp,
            report: vec![7; 1184],
            certificates: vec![vec![1], vec![2; 9]],
        }
    }

    #[test]
    fn what_is_encoded_decodes() {
        for format in Format::ALL {
            let evidence = Evidence { format: *format, ..sample() };
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
        unknown[0] = 8;
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
        // As large as all of it may be, and each part as large as it may be.
        let report = EVIDENCE_BYTES_MAX - CERTIFICATES_MAX * (4 + CERTIFICATE_BYTES_MAX) - 6;
        let certificates = vec![vec![0; CERTIFICATE_BYTES_MAX]; CERTIFICATES_MAX];
        let largest = Evidence { report: vec![0; report], certificates, ..sample() };
        let bytes = largest.encode().unwrap();
        assert_eq!(bytes.len(), EVIDENCE_BYTES_MAX);
        assert_eq!(Evidence::decode(&bytes), Ok(largest));
        let mut larger = bytes;
        larger[1..5].copy_from_slice(&u32::try_from(report + 1).unwrap().to_be_bytes());
        larger.insert(5, 0);
        assert_eq!(Evidence::decode(&larger), Err(Rejection::Malformed("size of the evidence")));
        let report = vec![0; REPORT_BYTES_MAX];
        assert!(Evidence { report, ..sample() }.encode().is_ok());
        // A length far beyond the bytes that are there is refused before anything is allocated for it.
        assert!(Evidence::decode(&[1, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(Evidence::decode(&vec![0; EVIDENCE_BYTES_MAX + 1]).is_err());
        let certificates = |count: usize| [&[1, 0, 0, 0, 0, count as u8][..], &vec![0; 4 * count]].concat();
        assert!(Evidence::decode(&certificates(CERTIFICATES_MAX)).is_ok());
        assert!(Evidence::decode(&certificates(CERTIFICATES_MAX + 1)).is_err());
    }
}

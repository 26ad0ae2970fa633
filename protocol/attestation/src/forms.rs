//! Collateral in the forms in which services answer it and people keep it in files: DER, PEM, hex, and the JSON of Intel.

use x509_cert::Certificate;
use x509_cert::crl::CertificateList;
use x509_cert::der::pem;

use crate::der;
use crate::limits::{CERTIFICATE_BYTES_MAX, REVOCATION_LIST_BYTES_MAX, TDX_COLLATERAL_BYTES_MAX};
use crate::naming::{Naming, common_name};
use crate::piece::Piece;
use crate::rejection::Rejection;
use crate::snp::names;
use crate::tdx::answer;

/// First octet of every certificate and list: a SEQUENCE.
const SEQUENCE: u8 = 0x30;

impl Piece {
    /// What a file holds, whichever it is: a revocation list of AMD's or of Intel's root, the certificate of a chip, or
    /// Intel's collateral in the JSON form of its quote verification library. Nothing is verified.
    ///
    /// # Errors
    /// [`Rejection::CollateralMissing`] when it is none of them.
    pub fn read(file: &[u8]) -> Result<Vec<Self>, Rejection> {
        const UNKNOWN: Rejection = Rejection::CollateralMissing(
            "it is neither a revocation list of AMD's or of Intel's root, nor a VCEK, nor Intel's collateral in JSON",
        );
        if file.len() > TDX_COLLATERAL_BYTES_MAX {
            return Err(Rejection::CollateralMissing("the file is too large"));
        }
        if file.trim_ascii_start().first() == Some(&b'{') {
            return answer::library(file);
        }
        let bytes = der_of(file, REVOCATION_LIST_BYTES_MAX).ok_or(UNKNOWN)?;
        if let Some(list) = der::decode::<CertificateList>(&bytes) {
            let issuer = &list.tbs_cert_list.issuer;
            return match common_name(issuer) {
                _ if names::root_product(issuer, Naming::Vendor).is_some() => Ok(vec![Self::SnpList(bytes)]),
                Some("Intel SGX Root CA") => Ok(vec![Self::TdxRootList(bytes)]),
                Some(name) if name.starts_with("Intel SGX PCK") => Err(Rejection::CollateralMissing(
                    "a list of Intel's platforms needs the certificate of its issuer beside it: bring Intel's collateral in JSON",
                )),
                _ => Err(UNKNOWN),
            };
        }
        let fits = bytes.len() <= CERTIFICATE_BYTES_MAX;
        let certificate = fits.then(|| der::decode::<Certificate>(&bytes)).flatten().ok_or(UNKNOWN)?;
        names::issuer_product(&certificate.tbs_certificate.issuer, Naming::Vendor).ok_or(UNKNOWN)?;
        Ok(vec![Self::Vcek(bytes)])
    }

    /// A revocation list as a service of AMD's or Intel's answers it.
    ///
    /// # Errors
    /// [`Rejection::CollateralMissing`] when it is in no form that they use.
    pub fn list(body: &[u8]) -> Result<Vec<u8>, Rejection> {
        der_of(body, REVOCATION_LIST_BYTES_MAX)
            .ok_or(Rejection::CollateralMissing("the answer holds no revocation list"))
    }

    /// A certificate as a service of AMD's answers it; of several in PEM, the first.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn vcek(body: &[u8]) -> Result<Self, Rejection> {
        let certificate = der_of(body, CERTIFICATE_BYTES_MAX);
        certificate.map(Self::Vcek).ok_or(Rejection::CollateralMissing("the answer holds no certificate"))
    }

    /// TCB info as Intel's service answers it, and the chain in PEM beside it.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn tcb_info(body: &[u8], chain: &[u8]) -> Result<Self, Rejection> {
        answer::tcb_info(body, chain)
    }

    /// QE identity as Intel's service answers it, and the chain in PEM beside it.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn qe_identity(body: &[u8], chain: &[u8]) -> Result<Self, Rejection> {
        answer::identity(body, chain)
    }

    /// A list of platforms as Intel's service answers it, and the chain in PEM beside it.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn tdx_list(body: &[u8], chain: &[u8]) -> Result<Self, Rejection> {
        answer::list(Self::list(body)?, chain)
    }
}

/// DER, from itself, PEM or hex.
fn der_of(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    // Base64 in lines, or hex, of the largest.
    if bytes.len() > most.checked_mul(2)? {
        return None;
    }
    let found = if bytes.first() == Some(&SEQUENCE) && bytes.get(1).is_some_and(|second| *second >= 0x80) {
        bytes.to_vec()
    } else if bytes.trim_ascii_start().starts_with(b"-----BEGIN") {
        pem::decode_vec(first_block(bytes.trim_ascii_start())?).ok()?.1
    } else {
        hex::decode(bytes.trim_ascii()).ok()?
    };
    (found.first() == Some(&SEQUENCE) && found.len() <= most).then_some(found)
}

/// Up to the end of the first PEM block.
fn first_block(text: &[u8]) -> Option<&[u8]> {
    const END: &[u8] = b"-----END ";
    let end = text.windows(END.len()).position(|window| window == END)?;
    let rest = text.get(end..)?;
    let line = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    text.get(..end.checked_add(line)?)
}

//! Certificates and revocation lists as AMD writes them: RSA-PSS with explicit parameters, AMD's extensions.

use std::str::FromStr;
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{KeyPair as _, RSA_PSS_SHA384};
use sealane_types::Product;
use x509_cert::Certificate;
use x509_cert::certificate::{TbsCertificate, Version};
use x509_cert::crl::{CertificateList, RevokedCert, TbsCertList};
use x509_cert::der::asn1::{BitString, GeneralizedTime, Ia5String, OctetString, Uint, UtcTime};
use x509_cert::der::flagset::FlagSet;
use x509_cert::der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{BasicConstraints, CrlNumber, KeyUsage, KeyUsages};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};

use crate::chip::Chip;
use crate::error::SimulationError;

/// id-RSASSA-PSS with SHA-384, MGF1 with SHA-384, a salt of 48 bytes and a trailerField that DER would leave
/// out (RFC 4055 §3.1): AMD's very bytes.
const AMD_PSS_SHA384: &[u8] = &[
    0x30, 0x46, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a, 0x30, 0x39, 0xa0, 0x0f,
    0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0xa1, 0x1c,
    0x30, 0x1a, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08, 0x30, 0x0d, 0x06, 0x09,
    0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0xa2, 0x03, 0x02, 0x01, 0x30, 0xa3,
    0x03, 0x02, 0x01, 0x01,
];
/// SubjectPublicKeyInfo of P-384 up to the point.
const P384_PREFIX: &[u8] = &[
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81,
    0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];
/// Last year that UTCTime can write (RFC 5280 §4.1.2.5).
const UTC_TIME_END: Duration = Duration::from_secs(2_524_607_999);

/// `CN=…` under the organisation of every simulated certificate.
pub(crate) fn name(common_name: &str) -> Result<Name, SimulationError> {
    Ok(Name::from_str(&format!("CN={common_name},O=Sealane simulation,OU=Engineering"))?)
}

pub(crate) fn validity(not_before: Duration, not_after: Duration) -> Result<Validity, SimulationError> {
    Ok(Validity { not_before: time(not_before)?, not_after: time(not_after)? })
}

fn time(since_epoch: Duration) -> Result<Time, SimulationError> {
    if since_epoch <= UTC_TIME_END {
        return Ok(Time::UtcTime(UtcTime::from_unix_duration(since_epoch)?));
    }
    Ok(Time::GeneralTime(GeneralizedTime::from_unix_duration(since_epoch)?))
}

pub(crate) fn rsa_key_info(key: &RsaKeyPair) -> Result<SubjectPublicKeyInfoOwned, SimulationError> {
    let der: PublicKeyX509Der<'_> = key.public_key().as_der()?;
    Ok(SubjectPublicKeyInfoOwned::from_der(der.as_ref())?)
}

pub(crate) fn p384_key_info(point: &[u8]) -> Result<SubjectPublicKeyInfoOwned, SimulationError> {
    Ok(SubjectPublicKeyInfoOwned::from_der(&[P384_PREFIX, point].concat())?)
}

/// A certificate that is not signed yet.
pub(crate) fn unsigned(
    serial: &[u8],
    issuer: Name,
    subject: Name,
    validity: Validity,
    subject_public_key_info: SubjectPublicKeyInfoOwned,
    extensions: Vec<Extension>,
) -> Result<TbsCertificate, SimulationError> {
    Ok(TbsCertificate {
        version: Version::V3,
        serial_number: SerialNumber::new(serial)?,
        signature: AlgorithmIdentifierOwned::from_der(AMD_PSS_SHA384)?,
        issuer,
        validity,
        subject,
        subject_public_key_info,
        issuer_unique_id: None,
        subject_unique_id: None,
        extensions: Some(extensions),
    })
}

/// DER of the certificate, signed by `key`.
pub(crate) fn sign(tbs_certificate: TbsCertificate, key: &RsaKeyPair) -> Result<Vec<u8>, SimulationError> {
    let signature = sign_pss(&tbs_certificate.to_der()?, key)?;
    let signature_algorithm = tbs_certificate.signature.clone();
    Ok(Certificate { tbs_certificate, signature_algorithm, signature }.to_der()?)
}

/// A list, not signed yet, that revokes the certificates with these serial numbers.
pub(crate) fn unsigned_list(
    issuer: Name,
    validity: Validity,
    revoked: &[&[u8]],
) -> Result<TbsCertList, SimulationError> {
    let revoked = revoked.iter().map(|serial| {
        let serial_number = SerialNumber::new(serial)?;
        Ok(RevokedCert { serial_number, revocation_date: validity.not_before, crl_entry_extensions: None })
    });
    let revoked = revoked.collect::<Result<Vec<_>, SimulationError>>()?;
    let number = CrlNumber(Uint::new(&[1])?).to_der()?;
    Ok(TbsCertList {
        version: Version::V2,
        signature: AlgorithmIdentifierOwned::from_der(AMD_PSS_SHA384)?,
        issuer,
        this_update: validity.not_before,
        next_update: Some(validity.not_after),
        revoked_certificates: (!revoked.is_empty()).then_some(revoked),
        crl_extensions: Some(vec![extension(CrlNumber::OID, false, &number)?]),
    })
}

/// DER of the list, signed by `key`.
pub(crate) fn sign_list(tbs_cert_list: TbsCertList, key: &RsaKeyPair) -> Result<Vec<u8>, SimulationError> {
    let signature = sign_pss(&tbs_cert_list.to_der()?, key)?;
    let signature_algorithm = tbs_cert_list.signature.clone();
    Ok(CertificateList { tbs_cert_list, signature_algorithm, signature }.to_der()?)
}

fn sign_pss(message: &[u8], key: &RsaKeyPair) -> Result<BitString, SimulationError> {
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PSS_SHA384, &SystemRandom::new(), message, &mut signature)?;
    Ok(BitString::from_bytes(&signature)?)
}

/// Extensions of ARK and ASK.
pub(crate) fn authority_extensions(path_length: Option<u8>) -> Result<Vec<Extension>, SimulationError> {
    let constraints = BasicConstraints { ca: true, path_len_constraint: path_length };
    let usage = KeyUsage(FlagSet::from(KeyUsages::KeyCertSign) | KeyUsages::CRLSign);
    Ok(vec![
        extension(KeyUsage::OID, true, &usage.to_der()?)?,
        extension(BasicConstraints::OID, true, &constraints.to_der()?)?,
    ])
}

/// Extensions of a VCEK (AMD 57230, chapter 3), or of a VLEK when the chip has no id of its own to show.
pub(crate) fn chip_extensions(
    chip: &Chip,
    provider: Option<&str>,
) -> Result<Vec<Extension>, SimulationError> {
    let tcb = chip.tcb;
    let mut extensions = vec![
        amd("1", &1_u8.to_der()?)?,
        amd("2", &Ia5String::new(chip.product.as_str())?.to_der()?)?,
        amd("3.1", &tcb.bootloader.to_der()?)?,
        amd("3.2", &tcb.tee.to_der()?)?,
        amd("3.3", &tcb.snp.to_der()?)?,
        amd("3.8", &tcb.microcode.to_der()?)?,
    ];
    if chip.product == Product::Turin {
        extensions.push(amd("3.9", &tcb.fmc.to_der()?)?);
    }
    extensions.push(match provider {
        None => amd("4", chip.hardware_id())?,
        Some(provider) => amd("5", &Ia5String::new(provider)?.to_der()?)?,
    });
    Ok(extensions)
}

/// An extension below AMD's arc for KDS certificates.
fn amd(id: &str, value: &[u8]) -> Result<Extension, SimulationError> {
    let id = ObjectIdentifier::new(&format!("1.3.6.1.4.1.3704.1.{id}"))
        .map_err(|_| SimulationError::Certificate(x509_cert::der::Tag::ObjectIdentifier.value_error()))?;
    extension(id, false, value)
}

pub(crate) fn extension(
    extn_id: ObjectIdentifier,
    critical: bool,
    value: &[u8],
) -> Result<Extension, SimulationError> {
    Ok(Extension { extn_id, critical, extn_value: OctetString::new(value)? })
}

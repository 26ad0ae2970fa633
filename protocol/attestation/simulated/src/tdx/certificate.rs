//! Certificates and revocation lists as Intel writes them: ECDSA on P-256, Intel's extension of platforms.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use x509_cert::Certificate;
use x509_cert::certificate::{TbsCertificate, Version};
use x509_cert::crl::{CertificateList, TbsCertList};
use x509_cert::der::asn1::{AnyRef, BitString, OctetStringRef};
use x509_cert::der::flagset::FlagSet;
use x509_cert::der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::der::{Decode, Encode, Tag};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, KeyUsages};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::Validity;

use super::processor::Processor;
use crate::certificate::extension;
use crate::error::SimulationError;

/// ecdsa-with-SHA256 (RFC 5758 §3.2).
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
/// SubjectPublicKeyInfo of P-256 up to the point.
const P256_PREFIX: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Intel's extension of a PCK certificate.
const INTEL: &str = "1.2.840.113741.1.13.1";

/// Who certifies whom: subject, issuer, and the key of the subject.
pub(super) struct Subject<'a> {
    pub(super) serial: &'a [u8],
    pub(super) issuer: Name,
    pub(super) name: Name,
    pub(super) validity: Validity,
    /// Uncompressed point.
    pub(super) key: &'a [u8],
    pub(super) extensions: Vec<Extension>,
}

/// A certificate that is not signed yet.
pub(super) fn unsigned(subject: Subject<'_>) -> Result<TbsCertificate, SimulationError> {
    let Subject { serial, issuer, name, validity, key, extensions } = subject;
    Ok(TbsCertificate {
        version: Version::V3,
        serial_number: SerialNumber::new(serial)?,
        signature: algorithm(),
        issuer,
        validity,
        subject: name,
        subject_public_key_info: SubjectPublicKeyInfoOwned::from_der(&[P256_PREFIX, key].concat())?,
        issuer_unique_id: None,
        subject_unique_id: None,
        extensions: Some(extensions),
    })
}

const fn algorithm() -> AlgorithmIdentifierOwned {
    AlgorithmIdentifierOwned { oid: ECDSA_SHA256, parameters: None }
}

/// DER of the certificate, signed by the key of this PKCS #8.
pub(super) fn sign(tbs_certificate: TbsCertificate, key: &[u8]) -> Result<Vec<u8>, SimulationError> {
    let signature = signature(&tbs_certificate.to_der()?, key)?;
    let signature_algorithm = tbs_certificate.signature.clone();
    Ok(Certificate { tbs_certificate, signature_algorithm, signature }.to_der()?)
}

/// DER of the list, signed by the key of this PKCS #8.
pub(super) fn sign_list(tbs_cert_list: TbsCertList, key: &[u8]) -> Result<Vec<u8>, SimulationError> {
    let tbs_cert_list = TbsCertList { signature: algorithm(), ..tbs_cert_list };
    let signature = signature(&tbs_cert_list.to_der()?, key)?;
    Ok(CertificateList { tbs_cert_list, signature_algorithm: algorithm(), signature }.to_der()?)
}

fn signature(message: &[u8], key: &[u8]) -> Result<BitString, SimulationError> {
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key)
        .map_err(|_| SimulationError::MaterialKey)?;
    let signature = key.sign(&SystemRandom::new(), message)?;
    Ok(BitString::from_bytes(signature.as_ref())?)
}

/// Extensions of a root or authority.
pub(super) fn authority_extensions(path_length: u8) -> Result<Vec<Extension>, SimulationError> {
    extensions(true, Some(path_length), FlagSet::from(KeyUsages::KeyCertSign) | KeyUsages::CRLSign)
}

/// Extensions of a key that certifies nobody.
pub(super) fn leaf_extensions() -> Result<Vec<Extension>, SimulationError> {
    extensions(false, None, FlagSet::from(KeyUsages::DigitalSignature) | KeyUsages::NonRepudiation)
}

fn extensions(
    ca: bool,
    path_len_constraint: Option<u8>,
    usage: FlagSet<KeyUsages>,
) -> Result<Vec<Extension>, SimulationError> {
    let constraints = BasicConstraints { ca, path_len_constraint };
    Ok(vec![
        extension(KeyUsage::OID, true, &KeyUsage(usage).to_der()?)?,
        extension(BasicConstraints::OID, true, &constraints.to_der()?)?,
    ])
}

/// Intel's extension: what the platform of a PCK certificate is.
pub(super) fn platform_extension(processor: &Processor) -> Result<Extension, SimulationError> {
    let Processor { fmspc, pce_id, components, pce_svn, dynamic_platform, cached_keys, smt, .. } = processor;
    let mut tcb = Vec::new();
    for (component, number) in components.iter().zip(1_u32..) {
        tcb.push(pair(&format!("2.{number}"), &component.to_der()?)?);
    }
    tcb.push(pair("2.17", &pce_svn.to_der()?)?);
    tcb.push(pair("2.18", &octets(components)?)?);
    let mut entries = vec![
        pair("1", &octets(&[0x5a; 16])?)?,
        pair("2", &sequence(&tcb)?)?,
        pair("3", &octets(pce_id)?)?,
        pair("4", &octets(fmspc)?)?,
        // SGXType: scalable.
        pair("5", &[0x0a, 0x01, 0x01])?,
    ];
    let settings = [("7.1", dynamic_platform), ("7.2", cached_keys), ("7.3", smt)];
    let configuration = settings
        .into_iter()
        .filter_map(|(id, setting)| setting.map(|setting| pair(id, &setting.to_der()?)))
        .collect::<Result<Vec<_>, SimulationError>>()?;
    if !configuration.is_empty() {
        entries.push(pair("6", &octets(&[0x17; 16])?)?);
        entries.push(pair("7", &sequence(&configuration)?)?);
    }
    extension(oid(INTEL)?, false, &sequence(&entries)?)
}

fn octets(bytes: &[u8]) -> Result<Vec<u8>, SimulationError> {
    Ok(OctetStringRef::new(bytes)?.to_der()?)
}

/// A name below Intel's extension, and its value.
fn pair(id: &str, value: &[u8]) -> Result<Vec<u8>, SimulationError> {
    let name = oid(&format!("{INTEL}.{id}"))?.to_der()?;
    sequence(&[name, value.to_vec()])
}

fn sequence(elements: &[Vec<u8>]) -> Result<Vec<u8>, SimulationError> {
    Ok(AnyRef::new(Tag::Sequence, &elements.concat())?.to_der()?)
}

fn oid(text: &str) -> Result<ObjectIdentifier, SimulationError> {
    ObjectIdentifier::new(text).map_err(|_| SimulationError::Certificate(Tag::ObjectIdentifier.value_error()))
}

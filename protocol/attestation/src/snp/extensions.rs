//! AMD's extensions of VCEK and VLEK certificates (AMD 57230, chapter 3).

use sealane_types::Product;
use x509_cert::Certificate;
use x509_cert::der::oid::ObjectIdentifier;

use super::SigningKey;
use crate::claims::Tcb;
use crate::rejection::Rejection;

const PRODUCT_NAME: ObjectIdentifier = oid("1.3.6.1.4.1.3704.1.2");
const BOOTLOADER: ObjectIdentifier = oid("1.3.6.1.4.1.3704.1.3.1");
const TEE: ObjectIdentifier = oid("1.3.6.1.4.1.3704.1.3.2");
const SNP: ObjectIdentifier = oid("1.3.6.1.4.1.3704.1.3.3");
const MICROCODE: ObjectIdentifier = oid("1.3.6.1.4.1.3704.1.3.8");
const FMC: ObjectIdentifier = oid("1.3.6.1.4.1.3704.1.3.9");
const HARDWARE_ID: ObjectIdentifier = oid("1.3.6.1.4.1.3704.1.4");
const PROVIDER_ID: ObjectIdentifier = oid("1.3.6.1.4.1.3704.1.5");

const fn oid(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new_unwrap(text)
}

/// What the signing certificate says about the chip and firmware that its key belongs to.
pub(super) struct Extensions {
    pub(super) tcb: Tcb,
    /// The chip, for a VCEK.
    pub(super) hardware_id: Option<Vec<u8>>,
    /// The cloud provider, for a VLEK.
    pub(super) provider: Option<String>,
}

/// Reads the extensions of a certificate whose issuer speaks for `product` and `signing_key`.
pub(super) fn read(
    certificate: &Certificate,
    product: Product,
    signing_key: SigningKey,
) -> Result<Extensions, Rejection> {
    let find = |id| find(certificate, id);
    let level = |id| find(id)?.and_then(integer).ok_or(Rejection::Untrusted("TCB extension of the VCEK"));
    let tcb = Tcb {
        fmc: if product == Product::Turin { Some(level(FMC)?) } else { None },
        bootloader: level(BOOTLOADER)?,
        tee: level(TEE)?,
        snp: level(SNP)?,
        microcode: level(MICROCODE)?,
    };
    if find(PRODUCT_NAME)?.and_then(product_name) != Some(product) {
        return Err(Rejection::Untrusted("the VCEK is for another product than its issuer"));
    }
    let (hardware_id, provider) = match (signing_key, find(HARDWARE_ID)?, find(PROVIDER_ID)?) {
        (SigningKey::Vcek, Some(id), None) if is_hardware_id(id, product) => (Some(id.to_vec()), None),
        (SigningKey::Vlek, None, Some(id)) => (None, provider_id(id)),
        _ => (None, None),
    };
    if hardware_id.is_none() && provider.is_none() {
        return Err(Rejection::Untrusted("hardware or provider id of the VCEK"));
    }
    Ok(Extensions { tcb, hardware_id, provider })
}

/// A short id would match many chips, a zero one those that mask theirs.
fn is_hardware_id(id: &[u8], product: Product) -> bool {
    id.len() == hardware_id_bytes(product) && id.iter().any(|byte| *byte != 0)
}

/// CSP_ID: a provider as its VLEKs name it, which policies pin as text.
fn provider_id(value: &[u8]) -> Option<String> {
    let text = ia5_string(value)?;
    let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    (printable && !text.is_empty()).then(|| text.to_owned())
}

/// Turin fuses 8 bytes of id, its predecessors 64.
const fn hardware_id_bytes(product: Product) -> usize {
    match product {
        Product::Milan | Product::Genoa => 64,
        Product::Turin => 8,
    }
}

/// The value of an extension; one that is there twice is an error, since readers would differ.
fn find(certificate: &Certificate, id: ObjectIdentifier) -> Result<Option<&[u8]>, Rejection> {
    let extensions = certificate.tbs_certificate.extensions.as_deref().unwrap_or_default();
    let mut found = extensions.iter().filter(|extension| extension.extn_id == id);
    let value = found.next().map(|extension| extension.extn_value.as_bytes());
    if found.next().is_some() {
        return Err(Rejection::Untrusted("an extension of the VCEK is there twice"));
    }
    Ok(value)
}

/// A DER INTEGER from 0 to 255 in its only encoding.
const fn integer(value: &[u8]) -> Option<u8> {
    match value {
        [0x02, 0x01, level] if *level < 0x80 => Some(*level),
        [0x02, 0x02, 0x00, level] if *level >= 0x80 => Some(*level),
        _ => None,
    }
}

/// `Milan-B0` or `Turin`: product, then optionally a stepping. Bergamo and Siena are Genoa's kin: its root certifies
/// them, and their TCB counts as Genoa's.
fn product_name(value: &[u8]) -> Option<Product> {
    match ia5_string(value)?.split('-').next()? {
        "Bergamo" | "Siena" => Some(Product::Genoa),
        name => name.parse().ok(),
    }
}

/// A DER IA5String of at most 127 bytes in its only encoding.
fn ia5_string(value: &[u8]) -> Option<&str> {
    match value {
        [0x16, length @ 0..=0x7f, text @ ..] if usize::from(*length) == text.len() => {
            std::str::from_utf8(text).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_has_one_encoding() {
        assert_eq!(integer(&[0x02, 0x01, 0x00]), Some(0));
        assert_eq!(integer(&[0x02, 0x01, 0x7f]), Some(127));
        assert_eq!(integer(&[0x02, 0x02, 0x00, 0x80]), Some(128));
        assert_eq!(integer(&[0x02, 0x02, 0x00, 0xff]), Some(255));
        // What DER reads as -128, and a zero too many.
        assert_eq!(integer(&[0x02, 0x01, 0x80]), None);
        assert_eq!(integer(&[0x02, 0x02, 0x00, 0x7f]), None);
    }
}

//! SEV-SNP evidence that tries to cost much. That of a simulation brings its issuers as well, so that it can cost more.

use std::time::Duration;

use sealane_attestation::{Anchor, Collateral, Evidence, Format, Rejection, inspect, limits};
use sealane_simulated::forge::{Dates, Kind, Recipe};
use sealane_types::Product;
use x509_cert::Certificate;
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::asn1::{BitString, OctetString};
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::ext::Extension;

use crate::quick;
use crate::support::{AUTHORITY, MATERIAL, inspected, now, quoted_by, recipe};

#[track_caller]
fn refused(what: &str, evidence: &Evidence) -> Rejection {
    quick::refused(what, || inspected(evidence))
}

/// A DER SEQUENCE.
fn sequence(content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[0x30, 0x82, high, low][..], content].concat()
}

fn edited(certificate: &[u8], edit: impl FnOnce(&mut Certificate)) -> Vec<u8> {
    let mut certificate = Certificate::from_der(certificate).unwrap();
    edit(&mut certificate);
    certificate.to_der().unwrap()
}

#[test]
fn certificates_of_nested_or_tiny_elements_cost_nothing() {
    const MOST: usize = limits::CERTIFICATE_BYTES_MAX;
    let nested = |depth: usize| (0..depth).fold(Vec::new(), |inner, _| sequence(&inner));
    for (what, certificate) in [
        ("nested certificates", nested(MOST / 4)),
        ("certificates of empty elements", sequence(&[0x05, 0x00].repeat((MOST - 4) / 2))),
        ("certificates of empty sequences", sequence(&[0x30, 0x00].repeat((MOST - 4) / 2))),
    ] {
        assert_eq!(certificate.len(), MOST, "{what}");
        let refusal = refused(what, &Evidence { certificates: vec![certificate; 3], ..quoted_by(&MATERIAL) });
        assert_eq!(refusal, Rejection::Malformed("a certificate"), "{what}");
    }
}

/// Nothing is wrong with them: they are read to their ends, and every signature is verified up to the last.
#[test]
fn certificates_full_of_extensions_are_read_once() {
    let fill = |certificate: &mut TbsCertificate| {
        let extn_value = OctetString::new([]).unwrap();
        let extension = Extension { extn_id: "2.5.29.99".parse().unwrap(), critical: false, extn_value };
        certificate.extensions.as_mut().unwrap().extend(std::iter::repeat_n(extension, 240));
    };
    let full = AUTHORITY.issue_edited(&recipe(Product::Genoa, Kind::Vcek), fill, fill).unwrap();
    let mut evidence = quoted_by(&full);
    evidence.certificates[2] = edited(&evidence.certificates[2], |root| fill(&mut root.tbs_certificate));
    for certificate in &evidence.certificates {
        assert!((3 * 1024..=limits::CERTIFICATE_BYTES_MAX).contains(&certificate.len()));
    }
    inspected(&evidence).unwrap();
    evidence.report[0x50] ^= 1;
    let refusal = refused("extensions", &evidence);
    assert_eq!(refusal, Rejection::Untrusted("the signature of the report"));
}

#[test]
fn a_chain_whose_last_signature_is_wrong_is_verified_once() {
    let mut evidence = quoted_by(&MATERIAL);
    evidence.report[0x50] ^= 1;
    let refusal = refused("a wrong report", &evidence);
    assert_eq!(refusal, Rejection::Untrusted("the signature of the report"));

    let recipe = Recipe { marked: false, ..recipe(Product::Genoa, Kind::Vcek) };
    let material = AUTHORITY.issue(&recipe).unwrap();
    let from = Duration::from_secs(now().0);
    let dates = Dates { from, until: from + Duration::from_secs(3600) };
    let list = AUTHORITY.revocation_list(&recipe, dates, false).unwrap();
    let [_, ask, ark] = material.certificates();
    let anchor = Anchor::new(ark, ask).unwrap().with_revocation_list(&list).unwrap();
    let collateral = Collateral::empty().with_anchor(anchor);
    let mut evidence = Evidence { format: Format::SevSnp, ..quoted_by(&material) };
    evidence.report[0x50] ^= 1;
    let refusal = quick::refused("a wrong report of hardware", || inspect(&evidence, &collateral, now()));
    assert_eq!(refusal, Rejection::Untrusted("the signature of the report"));
}

/// An ASK of 8192 bits with the largest exponent that is computed with, and a signature to match.
#[test]
fn the_largest_keys_cost_little() {
    let modulus = [&[0x02, 0x82, 0x04, 0x01, 0x00][..], &[0xff; 1024]].concat();
    let exponent = [0x02, 0x05, 0x01, 0xff, 0xff, 0xff, 0xff];
    let key = sequence(&[&modulus[..], &exponent].concat());
    let large = |ask: &mut TbsCertificate| {
        ask.subject_public_key_info.subject_public_key = BitString::from_bytes(&key).unwrap();
    };
    let material = AUTHORITY.issue_edited(&recipe(Product::Genoa, Kind::Vcek), large, |_| {}).unwrap();
    let mut evidence = quoted_by(&material);
    evidence.certificates[0] = edited(&evidence.certificates[0], |signer| {
        signer.signature = BitString::from_bytes(&[0x55; 1024]).unwrap();
    });
    let refusal = refused("the largest keys", &evidence);
    assert_eq!(refusal, Rejection::Untrusted("the certificates are no chain to the root"));
}

//! Certificates and revocation lists.

use sealane_attestation::Rejection;
use sealane_simulated::tdx::forge::{Place, Recipe};
use sealane_types::Reason;
use x509_cert::certificate::TbsCertificate;
use x509_cert::crl::TbsCertList;
use x509_cert::der::asn1::OctetString;
use x509_cert::ext::Extension;

use super::support::{
    MATERIAL, OTHER_AUTHORITY, assert_missing, assert_untrusted, dates, evidence, inspected, issued,
    platform, quoted_by, recipe, with_certificate, with_list,
};

const PLACES: [Place; 4] = [Place::Root, Place::Authority, Place::Signer, Place::Platform];
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
const INTEL: &str = "1.2.840.113741.1.13.1";

fn extensions(certificate: &mut TbsCertificate) -> &mut Vec<Extension> {
    certificate.extensions.as_mut().unwrap()
}

fn value(certificate: &mut TbsCertificate, id: &str) -> Vec<u8> {
    let found = extensions(certificate).iter().find(|extension| extension.extn_id.to_string() == id);
    found.unwrap().extn_value.as_bytes().to_vec()
}

fn put(certificate: &mut TbsCertificate, id: &str, value: &[u8]) {
    let extn_value = OctetString::new(value).unwrap();
    extensions(certificate).push(Extension { extn_id: id.parse().unwrap(), critical: false, extn_value });
}

fn remove(certificate: &mut TbsCertificate, id: &str) {
    extensions(certificate).retain(|extension| extension.extn_id.to_string() != id);
}

fn replace(certificate: &mut TbsCertificate, id: &str, value: &[u8]) {
    remove(certificate, id);
    put(certificate, id, value);
}

const MISPLACED: Rejection = Rejection::Untrusted("a certificate of Intel's hierarchy in another's place");

#[test]
fn every_simulated_name_says_sim() {
    let unmarked = Recipe { marked: false, ..recipe() };
    assert_untrusted(issued(&unmarked, Default::default()));
    for place in PLACES {
        let outcome = with_certificate(place, |certificate| {
            let name = certificate.subject.to_string().replace("SIM ", "");
            certificate.subject = name.parse().unwrap();
        });
        let unmarked = Rejection::Untrusted("a simulated certificate whose name does not say SIM");
        assert_eq!(outcome, Err(unmarked));
    }
}

#[test]
fn every_certificate_is_named_for_its_place() {
    for place in PLACES {
        for name in ["SIM Intel SGX", "SIM Intel SGX Attestation Report Signing", "SIM Intel SGX Root CA"] {
            if place == Place::Root && name.ends_with("Root CA") {
                continue;
            }
            let subject = format!("CN={name},O=Sealane simulation");
            let outcome =
                with_certificate(place, |certificate| certificate.subject = subject.parse().unwrap());
            assert_eq!(outcome, Err(MISPLACED), "{place:?}: {name}");
        }
    }
    // Of two common names, one reader takes the first and another the last.
    assert_untrusted(with_certificate(Place::Platform, |certificate| {
        let subject = "CN=SIM Intel SGX PCK Certificate,CN=SIM Intel SGX PCK Certificate";
        certificate.subject = subject.parse().unwrap();
    }));
}

/// A platform's key certifies nothing that Intel says.
#[test]
fn statements_are_signed_by_the_signer_alone() {
    let outcome = with_certificate(Place::Signer, |certificate| {
        certificate.subject = "CN=SIM Intel SGX PCK Certificate".parse().unwrap();
    });
    assert_eq!(outcome, Err(MISPLACED));
}

#[test]
fn a_chain_holds_together() {
    let mut foreign = quoted_by(&MATERIAL);
    let other = OTHER_AUTHORITY.issue(&recipe()).unwrap();
    // The statements of another root.
    foreign.certificates = other.collateral();
    assert!(inspected(&foreign).is_err());
    // The chain of a platform, its authority or its root, of another.
    for place in 0..3 {
        let mut chain = MATERIAL.chain().clone();
        chain[place] = other.chain()[place].clone();
        let quote = platform(&MATERIAL).quote_edited([7; 64], |draft| draft.chain = pem(&chain)).unwrap();
        assert_untrusted(inspected(&evidence(quote)));
    }
}

fn pem(chain: &[Vec<u8>; 3]) -> Vec<u8> {
    use base64::Engine as _;
    let block = |certificate: &Vec<u8>| {
        let text = base64::engine::general_purpose::STANDARD.encode(certificate);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    };
    chain.iter().map(block).collect::<String>().into_bytes()
}

#[test]
fn each_part_has_dates() {
    let expired = dates(-7200, -3600);
    let future = dates(3600, 7200);
    for dates in [expired, future] {
        for (name, recipe) in parts(dates) {
            let refused = issued(&recipe, Default::default()).unwrap_err();
            let expected = [Reason::CollateralExpired, Reason::EvidenceExpired];
            assert!(expected.contains(&refused.reason()), "{name}: {refused}");
        }
    }
}

/// A recipe for each part, with these dates for it.
fn parts(dates: sealane_simulated::forge::Dates) -> [(&'static str, Recipe); 8] {
    let honest = recipe;
    [
        ("root", Recipe { root: dates, ..honest() }),
        ("authority", Recipe { authority: dates, ..honest() }),
        ("signer", Recipe { signer: dates, ..honest() }),
        ("platform", Recipe { platform: dates, ..honest() }),
        ("root's list", Recipe { root_list: dates, ..honest() }),
        ("list", Recipe { list: dates, ..honest() }),
        ("TCB info", Recipe { info: dates, ..honest() }),
        ("QE identity", Recipe { identity: dates, ..honest() }),
    ]
}

#[test]
fn claims_expire_with_the_first_part() {
    let soon = dates(-3600, 600);
    for (name, recipe) in parts(soon) {
        let claims = issued(&recipe, Default::default()).unwrap();
        assert_eq!(claims.expires().0, soon.until.as_secs(), "{name}");
    }
}

#[test]
fn whoever_is_revoked_is_refused() {
    for place in PLACES {
        let revoked = Recipe { revoked: vec![place], ..recipe() };
        let outcome = issued(&revoked, Default::default());
        assert!(matches!(outcome, Err(Rejection::Revoked(_))), "{place:?}: {outcome:?}");
    }
}

#[test]
fn a_list_is_signed_by_its_issuer() {
    let other = OTHER_AUTHORITY.issue(&recipe()).unwrap().collateral();
    for list in [5, 6] {
        let mut foreign = quoted_by(&MATERIAL);
        foreign.certificates[list] = other[list].clone();
        assert_missing(inspected(&foreign));
    }
}

#[test]
fn each_issuer_has_a_list() {
    for list in [5, 6] {
        let mut evidence = quoted_by(&MATERIAL);
        evidence.certificates[list] = evidence.certificates[11 - list].clone();
        assert_missing(inspected(&evidence));
        evidence.certificates[list].clear();
        assert_missing(inspected(&evidence));
    }
}

#[test]
fn a_list_speaks_for_everything_and_expires() {
    let distribution_point = |list: &mut TbsCertList| {
        // onlyContainsUserCerts.
        let extn_value = OctetString::new([0x30, 0x03, 0x81, 0x01, 0xff]).unwrap();
        let extn_id = "2.5.29.28".parse().unwrap();
        list.crl_extensions.as_mut().unwrap().push(Extension { extn_id, critical: true, extn_value });
    };
    for place in [Place::Root, Place::Authority] {
        let refused = with_list(place, distribution_point).unwrap_err();
        let part = "a revocation list covers a part of the certificates";
        assert_eq!(refused, Rejection::CollateralMissing(part));
        assert_missing(with_list(place, |list| list.next_update = None));
    }
}

#[test]
fn the_authority_is_an_authority_and_the_leaves_are_not() {
    assert_untrusted(with_certificate(Place::Authority, |certificate| {
        remove(certificate, BASIC_CONSTRAINTS)
    }));
    assert_untrusted(with_certificate(Place::Authority, |certificate| {
        replace(certificate, BASIC_CONSTRAINTS, &[0x30, 0x00]);
    }));
    for leaf in [Place::Platform, Place::Signer] {
        assert_untrusted(with_certificate(leaf, |certificate| {
            replace(certificate, BASIC_CONSTRAINTS, &[0x30, 0x03, 0x01, 0x01, 0xff]);
        }));
    }
}

#[test]
fn keys_are_on_p_256() {
    // id-ecPublicKey on secp384r1, a point of 97 bytes.
    let p384 = [
        &[
            0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b,
            0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00, 0x04,
        ][..],
        &[1; 96],
    ]
    .concat();
    assert_untrusted(with_certificate(Place::Platform, |certificate| {
        use x509_cert::der::Decode as _;
        certificate.subject_public_key_info =
            x509_cert::spki::SubjectPublicKeyInfoOwned::from_der(&p384).unwrap();
    }));
}

#[test]
fn intels_extension_is_there_once_and_whole() {
    assert_untrusted(with_certificate(Place::Platform, |certificate| remove(certificate, INTEL)));
    assert_untrusted(with_certificate(Place::Platform, |certificate| {
        let value = value(certificate, INTEL);
        put(certificate, INTEL, &value);
    }));
    for broken in [&[][..], &[0x30, 0x00], &[0x04, 0x00], &[0x30, 0x02, 0x30, 0x00]] {
        assert_untrusted(with_certificate(Place::Platform, |certificate| {
            replace(certificate, INTEL, broken)
        }));
    }
    // A length that nothing stands behind.
    assert_untrusted(with_certificate(Place::Platform, |certificate| {
        let mut value = value(certificate, INTEL);
        value[2] ^= 1;
        replace(certificate, INTEL, &value);
    }));
}

/// Of two values, one reader takes the first and another the last.
#[test]
fn an_entry_of_intels_extension_is_there_once() {
    assert_untrusted(with_certificate(Place::Platform, |certificate| {
        let value = value(certificate, INTEL);
        // The whole extension again, behind one outer header.
        let contents = &value[4..];
        let doubled = [contents, contents].concat();
        let length = u16::try_from(doubled.len()).unwrap().to_be_bytes();
        replace(certificate, INTEL, &[&[0x30, 0x82], &length[..], &doubled].concat());
    }));
}

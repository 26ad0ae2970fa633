//! Certificates: what makes a simulated chain no chain.

use std::time::Duration;

use sealane_attestation::{Collateral, Format, Rejection, Revocation, inspect};
use sealane_simulated::forge::{Dates, Kind, Recipe};
use sealane_types::{Platform, Product, Reason};
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::asn1::OctetString;
use x509_cert::ext::Extension;

use crate::support::{
    AUTHORITY, MATERIAL, OTHER_AUTHORITY, evidence, guest, inspected, now, quoted_by, recipe, said,
};

const BASIC_CONSTRAINTS: &str = "2.5.29.19";
const PRODUCT_NAME: &str = "1.3.6.1.4.1.3704.1.2";
const MICROCODE: &str = "1.3.6.1.4.1.3704.1.3.8";
const FMC: &str = "1.3.6.1.4.1.3704.1.3.9";
const HARDWARE_ID: &str = "1.3.6.1.4.1.3704.1.4";
const PROVIDER_ID: &str = "1.3.6.1.4.1.3704.1.5";

fn extensions(certificate: &mut TbsCertificate) -> &mut Vec<Extension> {
    certificate.extensions.as_mut().unwrap()
}

fn remove(certificate: &mut TbsCertificate, id: &str) {
    extensions(certificate).retain(|extension| extension.extn_id.to_string() != id);
}

fn put(certificate: &mut TbsCertificate, id: &str, value: &[u8]) {
    let extn_value = OctetString::new(value).unwrap();
    extensions(certificate).push(Extension { extn_id: id.parse().unwrap(), critical: false, extn_value });
}

fn replace(certificate: &mut TbsCertificate, id: &str, value: &[u8]) {
    remove(certificate, id);
    put(certificate, id, value);
}

/// What `inspect` makes of evidence whose VCEK was changed before it was signed.
fn with_vcek(product: Product, edit: impl FnOnce(&mut TbsCertificate)) -> Result<(), Rejection> {
    let recipe = recipe(product, Kind::Vcek);
    let material = AUTHORITY.issue_edited(&recipe, |_| {}, edit).unwrap();
    inspected(&quoted_by(&material)).map(|_| ())
}

fn with_ask(edit: impl FnOnce(&mut TbsCertificate)) -> Result<(), Rejection> {
    let recipe = recipe(Product::Genoa, Kind::Vcek);
    let material = AUTHORITY.issue_edited(&recipe, edit, |_| {}).unwrap();
    inspected(&quoted_by(&material)).map(|_| ())
}

#[track_caller]
fn assert_untrusted(outcome: Result<(), Rejection>) {
    assert!(matches!(outcome, Err(Rejection::Untrusted(_))), "{outcome:?}");
}

#[test]
fn honest_evidence_says_what_the_platform_said() {
    for product in Product::ALL {
        let material = AUTHORITY.issue(&recipe(*product, Kind::Vcek)).unwrap();
        let claims = inspected(&quoted_by(&material)).unwrap();
        assert_eq!(claims.platform(), Platform::Simulated);
        assert_eq!(*claims.root(), material.fingerprint());
        assert_eq!(claims.measurement(), Some(&sealane_simulated::MEASUREMENT));
        assert_eq!(claims.report_data(), Some(&[7; 64]));
        let snp = said(&claims);
        assert_eq!(snp.product(), *product);
        assert_eq!(snp.chip_id(), Some(&material.chip().id));
        assert_eq!(snp.tcb().reported.microcode, material.chip().tcb.microcode);
        assert_eq!(snp.tcb().reported.fmc.is_some(), *product == Product::Turin);
        assert!(!snp.debug() && snp.vmpl() == 0);
        assert_eq!(claims.revocation(), Revocation::NotApplicable);
        assert!(claims.expires() > now());
    }
}

#[test]
fn simulated_evidence_needs_a_program_that_allows_it() {
    let evidence = quoted_by(&MATERIAL);
    for collateral in [Collateral::builtin(), Collateral::empty()] {
        let refused = inspect(&evidence, &collateral, now()).unwrap_err();
        assert_eq!(refused, Rejection::SimulationNotAllowed);
        assert_eq!(refused.reason(), Reason::SimulationNotAllowed);
    }
}

#[test]
fn every_simulated_name_says_sim() {
    let unmarked = Recipe { marked: false, ..recipe(Product::Genoa, Kind::Vcek) };
    let material = AUTHORITY.issue(&unmarked).unwrap();
    assert_untrusted(inspected(&quoted_by(&material)).map(|_| ()));
    let plain = "CN=SEV-VCEK,O=Sealane simulation";
    assert_untrusted(with_vcek(Product::Genoa, |vcek| vcek.subject = plain.parse().unwrap()));
    assert_untrusted(with_ask(|ask| ask.subject = "CN=SEV-Genoa".parse().unwrap()));
}

/// Of two common names, one reader takes the first and another the last.
#[test]
fn an_issuer_has_one_common_name() {
    let ambiguous = || "CN=SIM-SEV-Genoa,CN=SIM-SEV-Milan".parse().unwrap();
    for product in [Product::Genoa, Product::Milan] {
        let recipe = recipe(product, Kind::Vcek);
        let issued = AUTHORITY.issue_edited(
            &recipe,
            |ask| ask.subject = ambiguous(),
            |vcek| vcek.issuer = ambiguous(),
        );
        assert_untrusted(inspected(&quoted_by(&issued.unwrap())).map(|_| ()));
    }
}

#[test]
fn simulated_evidence_brings_its_whole_chain() {
    let mut evidence = quoted_by(&MATERIAL);
    evidence.certificates.pop();
    assert!(matches!(inspected(&evidence), Err(Rejection::Malformed(_))));
    let mut evidence = quoted_by(&MATERIAL);
    evidence.certificates.push(vec![]);
    assert!(matches!(inspected(&evidence), Err(Rejection::Malformed(_))));
}

#[test]
fn each_certificate_has_dates() {
    let now = Duration::from_secs(now().0);
    let (hour, year) = (Duration::from_secs(3600), Duration::from_secs(365 * 24 * 3600));
    let expired = Dates { from: now - year, until: now - hour };
    let future = Dates { from: now + hour, until: now + year };
    for dates in [expired, future] {
        let honest = recipe(Product::Genoa, Kind::Vcek);
        for recipe in [
            Recipe { validity: dates, ..honest.clone() },
            Recipe { ask_validity: dates, ..honest.clone() },
            Recipe { ark_validity: dates, ..honest },
        ] {
            let refused = inspected(&quoted_by(&AUTHORITY.issue(&recipe).unwrap())).unwrap_err();
            assert_eq!(refused.reason(), Reason::EvidenceExpired, "{refused}");
        }
    }
}

#[test]
fn claims_expire_with_the_first_certificate() {
    let soon = now().0 + 600;
    let mut recipe = recipe(Product::Genoa, Kind::Vcek);
    recipe.ask_validity.until = Duration::from_secs(soon);
    let claims = inspected(&quoted_by(&AUTHORITY.issue(&recipe).unwrap())).unwrap();
    assert_eq!(claims.expires().0, soon);
}

#[test]
fn a_chain_holds_together() {
    let honest = quoted_by(&MATERIAL);
    let other = OTHER_AUTHORITY.issue(&recipe(Product::Genoa, Kind::Vcek)).unwrap();
    let [vcek, ask, ark] = other.certificates().map(<[u8]>::to_vec);
    for (position, certificate) in [vcek, ask, ark].into_iter().enumerate() {
        let mut spliced = honest.clone();
        spliced.certificates[position] = certificate;
        assert_untrusted(inspected(&spliced).map(|_| ()));
    }
}

#[test]
fn the_ask_is_an_authority() {
    assert_untrusted(with_ask(|ask| remove(ask, BASIC_CONSTRAINTS)));
    assert_untrusted(with_ask(|ask| replace(ask, BASIC_CONSTRAINTS, &[0x30, 0x00])));
}

#[test]
fn a_chip_certifies_nobody() {
    // A VCEK with the CA flag could sign another.
    assert_untrusted(with_vcek(Product::Genoa, |vcek| {
        put(vcek, BASIC_CONSTRAINTS, &[0x30, 0x03, 0x01, 0x01, 0xff]);
    }));
}

#[test]
fn the_signing_key_is_on_p_384() {
    let mut rsa = None;
    with_ask(|ask| rsa = Some(ask.subject_public_key_info.clone())).unwrap();
    assert_untrusted(with_vcek(Product::Genoa, |vcek| vcek.subject_public_key_info = rsa.unwrap()));
}

#[test]
fn product_of_certificate_and_issuer_agree() {
    assert_untrusted(with_vcek(Product::Genoa, |vcek| remove(vcek, PRODUCT_NAME)));
    assert_untrusted(with_vcek(Product::Genoa, |vcek| replace(vcek, PRODUCT_NAME, b"\x16\x05Milan")));
    assert_untrusted(with_vcek(Product::Genoa, |vcek| replace(vcek, PRODUCT_NAME, b"\x16\x06Genoa")));
    assert_untrusted(with_vcek(Product::Genoa, |vcek| replace(vcek, PRODUCT_NAME, b"\x16\x06Genoa2")));
    assert_eq!(with_vcek(Product::Genoa, |vcek| replace(vcek, PRODUCT_NAME, b"\x16\x08Genoa-B1")), Ok(()));
    // Genoa's kin is certified under Genoa, and under nothing else.
    for kin in [&b"\x16\x08Siena-A0"[..], b"\x16\x07Bergamo"] {
        assert_eq!(with_vcek(Product::Genoa, |vcek| replace(vcek, PRODUCT_NAME, kin)), Ok(()));
        assert_untrusted(with_vcek(Product::Turin, |vcek| replace(vcek, PRODUCT_NAME, kin)));
    }
}

#[test]
fn a_provider_is_named_in_one_printable_text() {
    let with_vlek = |value: &[u8]| {
        let recipe = recipe(Product::Genoa, Kind::Vlek);
        let edit = |vlek: &mut TbsCertificate| replace(vlek, PROVIDER_ID, value);
        let material = AUTHORITY.issue_edited(&recipe, |_| {}, edit).unwrap();
        let quote = guest(&material).quote_edited([7; 64], |report| {
            report[0x48] = 1 << 2;
            report[0x1a0..0x1e0].fill(0);
        });
        inspected(&evidence(Format::SimulatedSevSnp, quote.unwrap()))
            .map(|claims| said(&claims).provider().map(str::to_owned))
    };
    assert_eq!(with_vlek(b"\x16\x04CN=x"), Ok(Some("CN=x".to_owned())));
    for other in [
        &b""[..],
        b"\x16\x00",
        b"\x0c\x01x",
        b"\x16\x02x",
        b"\x16\x01\x07",
        b"\x16\x01\xff",
        b"\x16\x81\x01x",
    ] {
        assert_untrusted(with_vlek(other).map(|_| ()));
    }
}

#[test]
fn tcb_extensions_are_there_once_in_one_encoding() {
    assert_untrusted(with_vcek(Product::Genoa, |vcek| remove(vcek, MICROCODE)));
    assert_untrusted(with_vcek(Product::Turin, |vcek| remove(vcek, FMC)));
    assert_untrusted(with_vcek(Product::Genoa, |vcek| put(vcek, MICROCODE, &[0x02, 0x01, 84])));
    // What DER reads as -37 is no patch level, though its byte is the right one.
    assert_untrusted(with_vcek(Product::Milan, |vcek| replace(vcek, MICROCODE, &[0x02, 0x01, 219])));
    for other in [&[0x02, 0x01, 83][..], &[0x02, 0x02, 0x00, 84], &[84], &[0x02, 0x01, 0xd4], &[]] {
        assert_untrusted(with_vcek(Product::Genoa, |vcek| replace(vcek, MICROCODE, other)));
    }
}

/// A short id would match many chips, a zero one those that mask theirs.
#[test]
fn a_hardware_id_is_whole_and_not_zero() {
    for length in [8, 64] {
        let recipe = recipe(Product::Genoa, Kind::Vcek);
        let mut id = *recipe.chip.id.as_bytes();
        id[length % 64..].fill(0);
        let edit = |vcek: &mut TbsCertificate| replace(vcek, HARDWARE_ID, &id[..length]);
        let material = AUTHORITY.issue_edited(&recipe, |_| {}, edit).unwrap();
        let quote =
            guest(&material).quote_edited([7; 64], |report| report[0x1a0..0x1e0].copy_from_slice(&id));
        let evidence = evidence(Format::SimulatedSevSnp, quote.unwrap());
        assert_untrusted(inspected(&evidence).map(|_| ()));
    }
}

#[test]
fn a_vcek_names_its_chip_and_no_provider() {
    assert_untrusted(with_vcek(Product::Genoa, |vcek| remove(vcek, HARDWARE_ID)));
    assert_untrusted(with_vcek(Product::Genoa, |vcek| replace(vcek, HARDWARE_ID, &[0; 64])));
    assert_untrusted(with_vcek(Product::Genoa, |vcek| replace(vcek, HARDWARE_ID, &[1; 8])));
    assert_untrusted(with_vcek(Product::Genoa, |vcek| put(vcek, PROVIDER_ID, b"\x16\x01x")));
    assert_untrusted(with_vcek(Product::Genoa, |vcek| {
        remove(vcek, HARDWARE_ID);
        put(vcek, PROVIDER_ID, b"\x16\x01x");
    }));
}

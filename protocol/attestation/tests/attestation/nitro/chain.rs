//! The certificates in a document: what makes them no chain.

use std::time::Duration;

use sealane_attestation::{AnchorError, Collateral, Evidence, Format, Rejection, Revocation, inspect};
use sealane_simulated::forge::Dates;
use sealane_simulated::nitro::{Chain, Recipe};
use sealane_types::{Platform, Reason, UnixSeconds};
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::OctetString;
use x509_cert::ext::Extension;

use super::support::{assert_malformed, assert_untrusted, edited, inspected, recipe, under};
use crate::support::{now, simulation};

const KEY_USAGE: &str = "2.5.29.15";
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
/// DER of key usages: one bit each, from the left.
const DIGITAL_SIGNATURE: &[u8] = &[0x03, 0x02, 0x07, 0x80];
const CERT_SIGN: &[u8] = &[0x03, 0x02, 0x02, 0x04];

const ENCLAVE: usize = 4;

fn with(edit: impl FnMut(usize, &mut TbsCertificate)) -> Evidence {
    under(Chain::issue_edited(&recipe(), edit).unwrap())
}

/// Changes the certificate at `position` only.
fn at(position: usize, edit: impl Fn(&mut TbsCertificate)) -> Evidence {
    with(|found, certificate| {
        if found == position {
            edit(certificate);
        }
    })
}

fn extensions(certificate: &mut TbsCertificate) -> &mut Vec<Extension> {
    certificate.extensions.as_mut().unwrap()
}

fn remove(certificate: &mut TbsCertificate, id: &str) {
    extensions(certificate).retain(|extension| extension.extn_id.to_string() != id);
}

fn put(certificate: &mut TbsCertificate, id: &str, value: &[u8]) {
    let extn_value = OctetString::new(value).unwrap();
    extensions(certificate).push(Extension { extn_id: id.parse().unwrap(), critical: true, extn_value });
}

fn replace(certificate: &mut TbsCertificate, id: &str, value: &[u8]) {
    remove(certificate, id);
    put(certificate, id, value);
}

#[test]
fn chains_of_other_lengths_are_chains() {
    for length in [2, 3, 8] {
        let recipe = Recipe { dates: vec![recipe().dates[0]; length], ..recipe() };
        inspected(&under(Chain::issue(&recipe).unwrap())).unwrap();
    }
    assert_malformed(&under(
        Chain::issue(&Recipe { dates: vec![recipe().dates[0]; 9], ..recipe() }).unwrap(),
    ));
}

#[test]
fn each_certificate_has_dates() {
    let now = Duration::from_secs(now().0);
    let (hour, year) = (Duration::from_secs(3600), Duration::from_secs(365 * 24 * 3600));
    for dates in
        [Dates { from: now - year, until: now - hour }, Dates { from: now + hour, until: now + year }]
    {
        for position in 0..=ENCLAVE {
            let mut recipe = recipe();
            recipe.dates[position] = dates;
            let refused = inspected(&under(Chain::issue(&recipe).unwrap())).unwrap_err();
            assert_eq!(refused, Rejection::Expired("a certificate of the document"), "{position}");
        }
    }
}

#[test]
fn claims_expire_with_the_first_certificate() {
    for position in 0..=ENCLAVE {
        let mut recipe = recipe();
        let until = now().0 + 3 * 3600;
        recipe.dates[position].until = Duration::from_secs(until);
        let claims = inspected(&under(Chain::issue(&recipe).unwrap())).unwrap();
        assert_eq!(claims.expires().0, until, "{position}");
        assert_eq!(claims.revocation(), Revocation::NotApplicable);
    }
}

#[test]
fn the_first_and_the_last_second_count() {
    for position in 0..=ENCLAVE {
        let mut recipe = recipe();
        let (from, until) = (now().0, now().0 + 600);
        recipe.dates[position] = Dates { from: Duration::from_secs(from), until: Duration::from_secs(until) };
        let evidence = under(Chain::issue(&recipe).unwrap());
        for (at, holds) in [(from - 1, false), (from, true), (until, true), (until + 1, false)] {
            let outcome = inspect(&evidence, &simulation(), UnixSeconds(at));
            assert_eq!(outcome.is_ok(), holds, "{position}: {at}");
        }
    }
}

#[test]
fn every_link_is_signed_by_the_one_before() {
    let other = Chain::issue(&recipe()).unwrap();
    for position in 0..ENCLAVE {
        assert_untrusted(&edited(|document| {
            document.cabundle[position] = other.certificates()[position].clone();
        }));
    }
    assert_untrusted(&edited(|document| document.certificate = other.certificates()[ENCLAVE].clone()));
}

#[test]
fn issuers_stand_in_their_order() {
    assert_untrusted(&edited(|document| document.cabundle.swap(1, 2)));
    assert_untrusted(&edited(|document| document.cabundle.swap(0, 1)));
    assert_untrusted(&edited(|document| document.cabundle.reverse()));
    assert_untrusted(&edited(|document| drop(document.cabundle.remove(2))));
    assert_untrusted(&edited(|document| drop(document.cabundle.remove(0))));
    // One that belongs to no path, and one that is there twice.
    assert_untrusted(&edited(|document| document.cabundle.insert(2, document.cabundle[2].clone())));
    let other = Chain::issue(&recipe()).unwrap();
    assert_untrusted(&edited(|document| document.cabundle.push(other.certificates()[0].clone())));
    assert_untrusted(&edited(|document| document.certificate = document.cabundle[3].clone()));
}

/// Among certificates of one name a verifier would try every order.
#[test]
fn no_two_certificates_have_one_name() {
    let name: x509_cert::name::Name = "CN=SIM-one,O=Sealane simulation".parse().unwrap();
    let evidence = with(|_, certificate| {
        certificate.subject = name.clone();
        certificate.issuer = name.clone();
    });
    assert_eq!(
        inspected(&evidence),
        Err(Rejection::Untrusted("two certificates of the document have one name"))
    );
}

#[test]
fn every_issuer_may_sign_certificates() {
    for position in 0..ENCLAVE {
        // The root's own flag is for who pins it; what it may sign is not.
        if position > 0 {
            assert_untrusted(&at(position, |issuer| remove(issuer, BASIC_CONSTRAINTS)));
            assert_untrusted(&at(position, |issuer| replace(issuer, BASIC_CONSTRAINTS, &[0x30, 0x00])));
        }
        assert_untrusted(&at(position, |issuer| remove(issuer, KEY_USAGE)));
        assert_untrusted(&at(position, |issuer| replace(issuer, KEY_USAGE, DIGITAL_SIGNATURE)));
        inspected(&at(position, |issuer| replace(issuer, KEY_USAGE, CERT_SIGN))).unwrap();
        // Two of them: one reader takes the first and another the last.
        assert_untrusted(&at(position, |issuer| put(issuer, KEY_USAGE, CERT_SIGN)));
    }
}

#[test]
fn paths_have_their_lengths() {
    // CA, at most that many issuers below.
    let bounded = |length: u8| [0x30, 0x06, 0x01, 0x01, 0xff, 0x02, 0x01, length];
    for (position, below) in [(1, 2), (2, 1), (3, 0)] {
        inspected(&at(position, |issuer| replace(issuer, BASIC_CONSTRAINTS, &bounded(below)))).unwrap();
        if below > 0 {
            assert_untrusted(&at(position, |issuer| {
                replace(issuer, BASIC_CONSTRAINTS, &bounded(below - 1));
            }));
        }
    }
}

#[test]
fn an_enclave_signs_documents_and_certifies_nobody() {
    let enclave = |edit: fn(&mut TbsCertificate)| at(ENCLAVE, edit);
    assert_untrusted(&enclave(|end| replace(end, BASIC_CONSTRAINTS, &[0x30, 0x03, 0x01, 0x01, 0xff])));
    assert_untrusted(&enclave(|end| replace(end, BASIC_CONSTRAINTS, &[0x30, 0x03, 0x02, 0x01, 0x00])));
    assert_untrusted(&enclave(|end| replace(end, KEY_USAGE, CERT_SIGN)));
    assert_untrusted(&enclave(|end| remove(end, KEY_USAGE)));
    inspected(&enclave(|end| remove(end, BASIC_CONSTRAINTS))).unwrap();
    // An extension that nobody knows and that says it must be understood.
    assert_malformed(&enclave(|end| put(end, "1.2.3.4", &[0x05, 0x00])));
    for position in 1..ENCLAVE {
        assert_untrusted(&at(position, |issuer| put(issuer, "1.2.3.4", &[0x05, 0x00])));
    }
}

/// A P-256 key in the enclave's certificate, which its issuer signed.
#[test]
fn the_enclave_s_key_is_on_p_384() {
    let point = [4; 65];
    let info = [
        &[0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01][..],
        &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00],
        &point,
    ]
    .concat();
    let evidence = at(ENCLAVE, |end| {
        end.subject_public_key_info = Decode::from_der(&info).unwrap();
    });
    assert_eq!(inspected(&evidence), Err(Rejection::Untrusted("the enclave's key is not on P-384")));
}

#[test]
fn every_simulated_name_says_sim() {
    assert_untrusted(&under(Chain::issue(&Recipe { marked: false, ..recipe() }).unwrap()));
    for position in 0..=ENCLAVE {
        let plain: x509_cert::name::Name = "CN=aws.nitro-enclaves,O=Amazon".parse().unwrap();
        let evidence = with(|found, certificate| {
            if found == position {
                certificate.subject = plain.clone();
            }
            // The root is its own issuer.
            if found == position + 1 || (found, position) == (0, 0) {
                certificate.issuer = plain.clone();
            }
        });
        assert_eq!(
            inspected(&evidence),
            Err(Rejection::Untrusted("a simulated certificate whose name does not say SIM")),
            "{position}"
        );
    }
}

#[test]
fn simulated_documents_need_a_program_that_allows_them() {
    let refused = inspect(&edited(|_| {}), &Collateral::builtin(), now()).unwrap_err();
    assert_eq!(refused, Rejection::SimulationNotAllowed);
}

#[test]
fn certificates_come_in_the_document_only() {
    let mut evidence = edited(|_| {});
    evidence.certificates.push(vec![]);
    assert_malformed(&evidence);
}

/// AWS's names under keys of our own, pinned for the test.
#[test]
fn a_real_root_is_pinned_and_not_brought_along() {
    let chain = Chain::issue(&Recipe { marked: false, ..recipe() }).unwrap();
    let root = chain.certificates()[0].clone();
    let real = Evidence { format: Format::Nitro, ..under(chain) };
    let judged = |collateral: &Collateral| inspect(&real, collateral, now());
    let pinned = Collateral::empty().with_nitro_root(&root).unwrap();
    let claims = judged(&pinned).unwrap();
    assert_eq!((claims.platform(), claims.revocation()), (Platform::Nitro, Revocation::NotApplicable));
    assert_eq!(
        judged(&Collateral::builtin()),
        Err(Rejection::Untrusted("the document's root is not the pinned one"))
    );
    assert_eq!(judged(&Collateral::empty()).unwrap_err().reason(), Reason::CollateralMissing);
}

#[test]
fn simulation_never_passes_as_hardware() {
    let chain = Chain::issue(&recipe()).unwrap();
    let root = chain.certificates()[0].clone();
    assert_eq!(Collateral::empty().with_nitro_root(&root).unwrap_err(), AnchorError::Simulated);
    assert_eq!(Collateral::empty().with_nitro_root(&[]).unwrap_err(), AnchorError::Certificate);
    assert_eq!(Collateral::empty().with_nitro_root(&[0x30; 1025]).unwrap_err(), AnchorError::Size);
    assert_eq!(
        Collateral::empty().with_nitro_root(&[0x30; 1024]).unwrap_err(),
        AnchorError::Certificate,
        "as large as AWS's may be"
    );
    // Not even below a pinned root.
    for position in 1..=ENCLAVE {
        let named: x509_cert::name::Name = "CN=SIM-issuer,O=Amazon".parse().unwrap();
        let recipe = Recipe { marked: false, ..recipe() };
        let chain = Chain::issue_edited(&recipe, |found, certificate| {
            if found == position {
                certificate.subject = named.clone();
            }
            if found == position + 1 {
                certificate.issuer = named.clone();
            }
        });
        let chain = chain.unwrap();
        let collateral = Collateral::empty().with_nitro_root(&chain.certificates()[0]).unwrap();
        let evidence = Evidence { format: Format::Nitro, ..under(chain) };
        let refused = inspect(&evidence, &collateral.allowing_simulated(), now());
        assert_eq!(
            refused,
            Err(Rejection::Untrusted("a simulated certificate in place of a real one")),
            "{position}"
        );
    }
}

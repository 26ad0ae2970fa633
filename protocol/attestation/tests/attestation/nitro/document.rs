//! The document's members: each once, of its type, within its bounds.

use sealane_attestation::limits::CLOCK_SKEW_SECONDS_MAX;
use sealane_attestation::{Claims, Evidence, Rejection, inspect};
use sealane_simulated::nitro::{Document, measurements, register};
use sealane_types::{Platform, Reason, TcbStatus, UnixSeconds};

use super::support::{
    MATERIAL, REPORT_DATA, ROLE, TREE_ROOT, assert_malformed, document, edited, inspected, said, sealed,
};
use crate::support::{PROVER, now, simulation};

const MODULE_ID: usize = 0;
const PCRS: usize = 3;
const CABUNDLE: usize = 5;
const PUBLIC_KEY: usize = 6;
const USER_DATA: usize = 7;
const NONCE: usize = 8;

/// Evidence whose members `edit` changed before it was signed.
fn of_members(edit: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) -> Evidence {
    let mut members = document().members();
    edit(&mut members);
    sealed(&Document::of_members(&members))
}

fn outcome(edit: impl FnOnce(&mut Document)) -> Result<Claims, Rejection> {
    inspected(&edited(edit))
}

#[test]
fn an_honest_document_says_what_the_enclave_said() {
    let claims = inspected(&edited(|_| {})).unwrap();
    assert_eq!(claims.platform(), Platform::Simulated);
    assert_eq!(*claims.root(), MATERIAL.fingerprint());
    assert_eq!(claims.report_data(), Some(&REPORT_DATA));
    assert_eq!(claims.tcb_status(), Some(TcbStatus::UpToDate));
    assert!(claims.expires() > now());
    let nitro = said(&claims);
    assert_eq!(*nitro.image(), measurements());
    assert_eq!(claims.measurement(), Some(&measurements()[0]));
    assert_eq!(nitro.pcr(1), Some(&measurements()[1]));
    assert_eq!(nitro.pcr(3), Some(&register(ROLE)));
    assert_eq!(nitro.pcr(15).map(|pcr| *pcr.as_bytes()), Some([0; 48]));
    assert_eq!((nitro.pcr(16), nitro.pcr(32)), (None, None));
    assert_eq!(nitro.nonce(), Some(TREE_ROOT.as_slice()));
    assert_eq!(nitro.public_key(), Some(PROVER.as_slice()));
    assert!(nitro.module_id().starts_with("i-") && !nitro.debug());
    assert!(nitro.timestamp() <= now());
}

#[test]
fn maps_without_a_length_say_the_same() {
    let document = document();
    let [closed, open] = [document.payload(), document.open_payload()]
        .map(|payload: Vec<u8>| inspected(&sealed(&payload)).unwrap());
    assert_eq!(closed, open);
    let mut unended = document.open_payload();
    unended.pop();
    assert_malformed(&sealed(&unended));
}

#[test]
fn what_is_demanded_is_there_and_what_is_optional_need_not_be() {
    for index in 0..9 {
        let without = of_members(|members| drop(members.remove(index)));
        if index >= PUBLIC_KEY {
            inspected(&without).unwrap();
        } else {
            assert_malformed(&without);
        }
        // AWS writes null for what an enclave did not give, and for nothing else.
        for (value, allowed) in [(0xf6, index >= PUBLIC_KEY), (0xf7, false), (0xf4, false), (0x00, false)] {
            let with = of_members(|members| members[index].1 = vec![value]);
            assert_eq!(inspected(&with).is_ok(), allowed, "{index} {value:#x}");
        }
    }
    let silent = outcome(|document| {
        (document.user_data, document.nonce, document.public_key) = (None, None, None);
    });
    let silent = silent.unwrap();
    assert_eq!(silent.report_data(), None);
    assert_eq!((said(&silent).nonce(), said(&silent).public_key()), (None, None));
}

#[test]
fn no_member_is_there_twice() {
    for index in 0..9 {
        let twice = of_members(|members| members.push(members[index].clone()));
        assert_eq!(
            inspected(&twice),
            Err(Rejection::Malformed("a member of the document is there twice")),
            "{index}"
        );
    }
    // Not even as a null, which says nothing.
    for index in [PUBLIC_KEY, USER_DATA, NONCE] {
        let name = document().members()[index].0.clone();
        assert_malformed(&of_members(|members| members.insert(0, (name, vec![0xf6]))));
    }
}

#[test]
fn no_other_member_is_there() {
    for name in ["", "nitrotpm_pcrs", "Nonce", "a name that is longer than any"] {
        assert_malformed(&of_members(|members| members.push((name.to_owned(), vec![0xf6]))));
    }
    assert_malformed(&sealed(&[document().payload(), vec![0]].concat()));
    assert_malformed(&sealed(&[document().open_payload(), vec![0xff]].concat()));
    assert_malformed(&sealed(&[0xa0]));
    assert_malformed(&sealed(&[]));
    // A map of numbers, a list.
    assert_malformed(&sealed(&[0xa1, 0x01, 0x01]));
    assert_malformed(&sealed(&[0x80]));
}

#[test]
fn members_have_their_bounds() {
    type Edit = fn(&mut Document);
    let refused: [Edit; 14] = [
        |document| document.digest = "SHA512".to_owned(),
        |document| document.digest = "sha384".to_owned(),
        |document| document.digest.clear(),
        |document| document.module_id.clear(),
        |document| document.module_id = "i".repeat(257),
        // What is shown to people moves no cursor and is no other name than it seems.
        |document| document.module_id = "i-1\u{1b}[2K".to_owned(),
        |document| document.module_id = "i-1\n".to_owned(),
        |document| document.module_id = "і-1".to_owned(),
        |document| document.timestamp = 0,
        |document| document.public_key = Some(vec![0; 1025]),
        |document| document.user_data = Some(vec![0; 1025]),
        |document| document.nonce = Some(vec![0; 1025]),
        |document| document.certificate.clear(),
        |document| document.certificate = vec![0x30; 1025],
    ];
    for (index, edit) in refused.into_iter().enumerate() {
        assert!(matches!(outcome(edit), Err(Rejection::Malformed(_))), "{index}");
    }
    let accepted: [Edit; 7] = [
        |document| document.module_id = "i".repeat(256),
        |document| document.public_key = Some(vec![0; 1024]),
        |document| document.user_data = Some(vec![0; 1024]),
        |document| document.nonce = Some(vec![0; 1024]),
        |document| document.public_key = Some(vec![]),
        |document| document.user_data = Some(vec![]),
        |document| document.nonce = Some(vec![]),
    ];
    for (index, edit) in accepted.into_iter().enumerate() {
        assert!(outcome(edit).is_ok(), "{index}");
    }
    // Text that is no UTF-8.
    assert_malformed(&of_members(|members| members[MODULE_ID].1 = vec![0x61, 0xff]));
}

/// Only 64 bytes can be REPORT_DATA: never padded, never cut.
#[test]
fn user_data_of_another_length_is_no_report_data() {
    for length in [0, 42, 63, 65, 128] {
        let claims = outcome(|document| document.user_data = Some(vec![7; length])).unwrap();
        assert_eq!(claims.report_data(), None, "{length}");
        assert_eq!(said(&claims).user_data(), Some(vec![7; length].as_slice()));
    }
}

#[test]
fn pcrs_are_sha_384_and_below_32() {
    for index in 0..3 {
        let outcome = outcome(|document| drop(document.pcrs.remove(&index)));
        assert_eq!(outcome, Err(Rejection::Malformed("PCR0, PCR1 or PCR2 is missing")));
    }
    // An enclave may extend and lock PCR16 to PCR31.
    let claims = outcome(|document| {
        for index in 16..32 {
            document.pcrs.insert(index, vec![index as u8; 48]);
        }
    });
    assert_eq!(said(&claims.unwrap()).pcr(22).map(|pcr| *pcr.as_bytes()), Some([22; 48]));
    for index in [32, 256, u64::MAX] {
        assert!(outcome(|document| drop(document.pcrs.insert(index, vec![0; 48]))).is_err(), "{index}");
    }
    for length in [0, 32, 47, 49, 64] {
        assert!(outcome(|document| drop(document.pcrs.insert(5, vec![0; length]))).is_err(), "{length}");
    }
    assert!(outcome(|document| document.pcrs.clear()).is_err());
}

/// A second PCR0, which a map of the simulation cannot hold.
#[test]
fn no_pcr_is_there_twice() {
    let with_second = |key: &[u8]| {
        of_members(|members| {
            let pcrs = &mut members[PCRS].1;
            assert_eq!(pcrs[0], 0xb0, "sixteen, so that the seventeenth needs a longer head");
            pcrs.splice(0..1, [0xb1]);
            pcrs.extend_from_slice(&[key, &[0x58, 48], &[0xee; 48]].concat());
        })
    };
    inspected(&with_second(&[16])).unwrap();
    assert_malformed(&with_second(&[0]));
    assert_malformed(&with_second(&[15]));
    // The same number in another width, as a negative one, as text.
    assert_malformed(&with_second(&[0x18, 0]));
    assert_malformed(&with_second(&[0x20]));
    assert_malformed(&with_second(&[0x61, b'0']));
}

#[test]
fn the_bundle_is_not_empty_and_not_long() {
    assert_malformed(&edited(|document| document.cabundle.clear()));
    assert_malformed(&edited(|document| {
        let first = document.cabundle[0].clone();
        document.cabundle = vec![first; 8];
    }));
    assert_malformed(&edited(|document| document.cabundle[1] = vec![0x30; 1025]));
    assert_malformed(&edited(|document| document.cabundle[1].clear()));
    assert_malformed(&of_members(|members| members[CABUNDLE].1 = vec![0x40]));
}

/// A document that is signed today and dated tomorrow would stay fresh as long as its author likes.
#[test]
fn no_document_is_from_the_future() {
    let dated = |ahead: u64| {
        let dated = outcome(|document| document.timestamp = (now().0 + ahead) * 1000);
        dated.map(|_| ()).map_err(|refused| refused.reason())
    };
    assert_eq!(dated(30), Ok(()));
    assert_eq!(dated(120), Err(Reason::EvidenceExpired));
    assert!(outcome(|document| document.timestamp = u64::MAX).is_err());
    // To the second.
    let evidence = edited(|document| document.timestamp = now().0 * 1000);
    let written = said(&inspected(&evidence).unwrap()).timestamp();
    let read = |behind: u64| inspect(&evidence, &simulation(), UnixSeconds(written.0 - behind)).is_ok();
    assert!(read(CLOCK_SKEW_SECONDS_MAX));
    assert!(!read(CLOCK_SKEW_SECONDS_MAX + 1));
}

#[test]
fn an_enclave_extends_its_initdata_into_pcr8() {
    let extended = |index: u64| {
        let register = sealane_simulated::nitro::register(b"initdata").as_bytes().to_vec();
        inspected(&edited(|document| drop(document.pcrs.insert(index, register)))).unwrap()
    };
    assert!(sealane_attestation::measures_initdata(&extended(8), b"initdata"));
    assert!(!sealane_attestation::measures_initdata(&extended(8), b"other"));
    assert!(!sealane_attestation::measures_initdata(&extended(9), b"initdata"), "another register");
}

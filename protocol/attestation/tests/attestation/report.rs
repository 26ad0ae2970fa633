//! The report: its layout, its signature, and its agreement with the certificate of the key.

use sealane_attestation::{Format, Rejection, binding, limits};
use sealane_simulated::forge::{Kind, REPORT_BYTES};
use sealane_types::{Product, Reason};

use crate::support::{AUTHORITY, MATERIAL, edited, evidence, guest, inspected, quoted_by, recipe, said};

#[track_caller]
fn assert_malformed(edit: impl FnOnce(&mut [u8; REPORT_BYTES])) {
    let outcome = inspected(&edited(edit));
    assert!(matches!(outcome, Err(Rejection::Malformed(_))), "{outcome:?}");
}

#[track_caller]
fn assert_untrusted(edit: impl FnOnce(&mut [u8; REPORT_BYTES])) {
    let outcome = inspected(&edited(edit));
    assert!(matches!(outcome, Err(Rejection::Untrusted(_))), "{outcome:?}");
}

#[test]
fn length_is_exact() {
    for length in [0, 1, 0x2a0, REPORT_BYTES - 1, REPORT_BYTES + 1] {
        let mut evidence = edited(|_| {});
        evidence.report.resize(length, 0);
        assert_eq!(inspected(&evidence).unwrap_err().reason(), Reason::EvidenceMalformed);
    }
}

#[test]
fn versions_are_those_that_are_known() {
    for version in [0, 1, 6, 0xff] {
        assert_malformed(|report| report[0] = version);
    }
    assert_malformed(|report| report[3] = 1);
    // Version 2 reserves the CPUID bytes that version 3 fills, version 3 the mitigations of version 5.
    assert_malformed(|report| report[0] = 2);
    let second = edited(|report| {
        report[0] = 2;
        report[0x188..0x18b].fill(0);
    });
    assert_eq!(said(&inspected(&second).unwrap()).report_version(), 2);
    assert_malformed(|report| report[0x1f8] = 1);
    // Version 4 is laid out as version 3: a byte of version 5's is none of its own.
    let fourth = edited(|report| report[0] = 4);
    assert_eq!(said(&inspected(&fourth).unwrap()).report_version(), 4);
    assert_malformed(|report| {
        report[0] = 4;
        report[0x1f8] = 1;
    });
    let fifth = edited(|report| {
        report[0] = 5;
        report[0x1f8..0x208].fill(1);
    });
    assert_eq!(said(&inspected(&fifth).unwrap()).report_version(), 5);
    assert_malformed(|report| {
        report[0] = 5;
        report[0x208] = 1;
    });
}

#[test]
fn reserved_bytes_are_zero() {
    for offset in [0x4c, 0x4f, 0x18b, 0x19f, 0x1eb, 0x1ef, 0x1f8, 0x208, 0x29f] {
        assert_malformed(|report| report[offset] = 1);
    }
    for tcb in [0x38, 0x180, 0x1e0, 0x1f0] {
        for reserved in 2..6 {
            assert_malformed(|report| report[tcb + reserved] = 1);
        }
    }
}

#[test]
fn reserved_bytes_of_turin_s_tcb_are_zero() {
    let material = AUTHORITY.issue(&recipe(Product::Turin, Kind::Vcek)).unwrap();
    for offset in [0x38, 0x180, 0x1e0, 0x1f0].into_iter().flat_map(|tcb| tcb + 4..tcb + 7) {
        let quote = guest(&material).quote_edited([7; 64], |report| report[offset] = 1).unwrap();
        let refused = inspected(&evidence(Format::SimulatedSevSnp, quote)).unwrap_err();
        assert_eq!(refused.reason(), Reason::EvidenceMalformed, "{offset:#x}");
    }
}

/// Evidence that never was on the wire is bounded all the same.
#[test]
fn oversized_evidence_is_refused_before_it_is_read() {
    let honest = edited(|_| {});
    let mut evidence = honest.clone();
    evidence.report.resize(limits::REPORT_BYTES_MAX + 1, 0);
    assert_eq!(inspected(&evidence), Err(Rejection::Malformed("size of the report")));
    let mut evidence = honest.clone();
    evidence.certificates[0].resize(limits::CERTIFICATE_BYTES_MAX + 1, 0);
    assert_eq!(inspected(&evidence), Err(Rejection::Malformed("size of a certificate")));
    let mut evidence = honest;
    evidence.certificates.resize(limits::CERTIFICATES_MAX + 1, vec![]);
    assert_eq!(inspected(&evidence), Err(Rejection::Malformed("number of certificates")));
}

#[test]
fn one_signature_has_one_form() {
    for offset in [0x2d0, 0x2e7, 0x318, 0x49f] {
        let mut evidence = edited(|_| {});
        evidence.report[offset] = 1;
        assert!(matches!(inspected(&evidence), Err(Rejection::Malformed(_))), "{offset:#x}");
    }
}

#[test]
fn the_signature_algorithm_is_ecdsa_p384() {
    for algorithm in [0, 2] {
        assert_malformed(|report| report[0x34] = algorithm);
    }
}

#[test]
fn the_signature_is_of_the_certificate_s_key() {
    let other = AUTHORITY.issue(&recipe(Product::Genoa, Kind::Vcek)).unwrap();
    let mut evidence = quoted_by(&MATERIAL);
    evidence.certificates = quoted_by(&other).certificates;
    assert_eq!(inspected(&evidence), Err(Rejection::Untrusted("the signature of the report")));
}

#[test]
fn the_policy_word_has_its_fixed_bits() {
    assert_malformed(|report| report[0x0a] = 0);
    assert_malformed(|report| report[0x0b] = 1 << 2);
    assert_malformed(|report| report[0x0f] = 1);
}

#[test]
fn the_key_word_names_the_key_that_signed() {
    assert_malformed(|report| report[0x48] = 1 << 1);
    assert_malformed(|report| report[0x48] = 1 << 5);
    assert_malformed(|report| report[0x4b] = 1);
    for kind in 1..8 {
        assert_untrusted(|report| report[0x48] = kind << 2);
    }
}

#[test]
fn a_vlek_signs_reports_that_say_so() {
    let material = AUTHORITY.issue(&recipe(Product::Milan, Kind::Vlek)).unwrap();
    let honest = |report: &mut [u8; REPORT_BYTES]| {
        report[0x48] = 1 << 2;
        report[0x1a0..0x1e0].fill(0);
    };
    let quote = guest(&material).quote_edited([7; 64], honest).unwrap();
    let claims = inspected(&evidence(Format::SimulatedSevSnp, quote)).unwrap();
    assert_eq!(said(&claims).chip_id(), None);
    assert_eq!(
        said(&claims).permitted(&Default::default()).unwrap_err().reason(),
        Reason::PermissionNotAllowed
    );
    let refused = inspected(&quoted_by(&material)).unwrap_err();
    assert_eq!(refused.reason(), Reason::EvidenceUntrusted);
}

#[test]
fn the_product_is_the_certificate_s() {
    assert_untrusted(|report| report[0x188] = 0x1a);
    assert_untrusted(|report| report[0x189] = 0x01);
    assert_untrusted(|report| report[0x189] = 0xff);
}

#[test]
fn the_chip_is_the_certificate_s() {
    assert_untrusted(|report| report[0x1a0] ^= 1);
    assert_untrusted(|report| report[0x1df] ^= 1);
    // Turin fuses 8 bytes; the others are zero.
    let material = AUTHORITY.issue(&recipe(Product::Turin, Kind::Vcek)).unwrap();
    for offset in [0x1a0, 0x1a7, 0x1a8, 0x1df] {
        let quote = guest(&material).quote_edited([7; 64], |report| report[offset] ^= 1).unwrap();
        let refused = inspected(&evidence(Format::SimulatedSevSnp, quote)).unwrap_err();
        assert_eq!(refused.reason(), Reason::EvidenceUntrusted, "{offset:#x}");
    }
}

#[test]
fn the_reported_tcb_is_the_certificate_s() {
    for part in [0, 1, 6, 7] {
        assert_untrusted(|report| {
            report[0x38 + part] = 0xff;
            report[0x180 + part] = 0xfe;
        });
    }
}

#[test]
fn no_tcb_lies_above_the_current_one() {
    // Reported: the current one is lowered instead, since the certificate fixes the reported one.
    assert_untrusted(|report| {
        for tcb in [0x38, 0x1e0, 0x1f0] {
            report[tcb + 7] -= 1;
        }
    });
    assert_untrusted(|report| report[0x1e0 + 7] += 1);
    assert_untrusted(|report| report[0x1f0 + 7] += 1);
}

#[test]
fn purposes_and_roles_are_what_the_vectors_name() {
    assert_eq!(binding::Role::Initiator.peer(), binding::Role::Responder);
    assert_eq!(binding::Role::Responder.peer(), binding::Role::Initiator);
}

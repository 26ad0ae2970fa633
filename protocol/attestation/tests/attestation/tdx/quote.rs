//! The layout of quotes, and the signatures from the platform's key to the quote.

use sealane_attestation::{Collateral, Evidence, Format, Rejection, Revocation, inspect};
use sealane_simulated::tdx::forge::Recipe;
use sealane_simulated::tdx::{Body, Draft, mr_config_id, rtmr};
use sealane_types::{Measurement, Platform, Reason, TcbStatus};

use super::support::{
    AUTHORITY, INITDATA, MATERIAL, REPORT_DATA, assert_malformed, assert_untrusted, drafted, evidence,
    inspected, now, platform, quoted_by, recipe, said,
};

#[test]
fn honest_evidence_says_what_the_platform_said() {
    for body in Body::ALL {
        let claims = drafted(*body, |_| {}).unwrap();
        assert_eq!(claims.platform(), Platform::Simulated);
        assert_eq!(*claims.root(), MATERIAL.fingerprint());
        assert_eq!(claims.report_data(), Some(&REPORT_DATA));
        assert_eq!(claims.tcb_status(), Some(TcbStatus::UpToDate));
        assert_eq!(claims.revocation(), Revocation::Checked);
        assert_eq!(claims.measurement(), Some(&sealane_simulated::MEASUREMENT));
        let tdx = said(&claims);
        assert_eq!(tdx.quote_version(), if *body == Body::V4 { 4 } else { 5 });
        let measured = tdx.measurement();
        assert_eq!(measured.rtmr, [rtmr(0), rtmr(1), rtmr(2)]);
        assert_eq!(measured.rtmr3, Some(Measurement::new([0; 48])));
        assert_eq!(*tdx.mr_config_id(), mr_config_id(Some(INITDATA)));
        assert_eq!(tdx.fmspc().as_bytes(), &MATERIAL.processor().fmspc);
        assert_eq!(tdx.statuses().iter().collect::<Vec<_>>(), [&TcbStatus::UpToDate]);
        assert_eq!(tdx.tcb_evaluation(), 20);
        assert!(tdx.service_tds().is_empty() && tdx.advisories().is_empty());
        assert!(!tdx.debug() && !tdx.relaunch_advised());
        assert_eq!(tdx.permitted(&Default::default()), Ok(()));
    }
}

#[test]
fn simulated_quotes_need_a_program_that_allows_them() {
    let evidence = quoted_by(&MATERIAL);
    let refused = inspect(&evidence, &Collateral::builtin(), now()).unwrap_err();
    assert_eq!(refused, Rejection::SimulationNotAllowed);
    // Under the format of real hardware its names betray it.
    let disguised = Evidence { format: Format::Tdx, certificates: vec![], ..evidence };
    assert_untrusted(inspected(&disguised));
}

#[test]
fn the_header_is_one_for_a_trust_domain_by_intel() {
    for (at, byte) in [(0, 3), (0, 6), (1, 1), (2, 3), (3, 1), (4, 0), (5, 1), (8, 1), (11, 1), (12, 0)] {
        assert_malformed(drafted(Body::V4, |draft| draft.header[at] = byte));
    }
    // The enclave's own data means nothing to a verifier.
    assert!(drafted(Body::V4, |draft| draft.header[28] = 1).is_ok());
}

#[test]
fn a_body_has_a_known_type_and_its_size() {
    for descriptor in [[1, 0, 72, 2], [5, 0, 72, 2], [3, 0, 72, 2], [2, 0, 73, 2]] {
        let [kind, _, low, high] = descriptor;
        assert_malformed(drafted(Body::Td10, |draft| draft.descriptor = vec![kind, 0, low, high, 0, 0]));
    }
    assert!(drafted(Body::Td10, |draft| draft.descriptor = vec![2, 0, 72, 2, 0, 0]).is_ok());
    assert_malformed(drafted(Body::Td10, |draft| draft.descriptor = vec![2, 0, 72, 2, 1, 0]));
    for body in Body::ALL {
        assert_malformed(drafted(*body, |draft| draft.report.push(0)));
        assert_malformed(drafted(*body, |draft| draft.report.truncate(body.bytes() - 1)));
    }
}

#[test]
fn nothing_follows_a_quote_and_nothing_is_missing() {
    let honest = quoted_by(&MATERIAL);
    for extra in [1, 64, 70] {
        let mut longer = honest.clone();
        longer.report.resize(longer.report.len() + extra, 0);
        assert_malformed(inspected(&longer));
    }
    for length in 0..honest.report.len() {
        let mut shorter = honest.clone();
        shorter.report.truncate(length);
        assert_malformed(inspected(&shorter));
    }
}

#[test]
fn certification_data_is_the_enclaves_report_and_a_chain() {
    for kinds in [[5, 5], [7, 5], [6, 4], [6, 3], [6, 7]] {
        assert_malformed(drafted(Body::V4, |draft| draft.kinds = kinds));
    }
    assert!(drafted(Body::V4, |draft| draft.chain.truncate(draft.chain.len() - 1)).is_ok(), "no NUL");
    assert_malformed(drafted(Body::V4, |draft| draft.chain.push(0)));
    assert_malformed(drafted(Body::V4, |draft| draft.chain.clear()));
    // Two certificates, and four.
    let root = |draft: &Draft| draft.chain.windows(10).rposition(|window| window == b"-----BEGIN").unwrap();
    assert_malformed(drafted(Body::V4, |draft| draft.chain.truncate(root(draft))));
    assert_malformed(drafted(Body::V4, |draft| {
        let again = draft.chain[root(draft)..].to_vec();
        draft.chain.pop();
        draft.chain.extend(again);
    }));
}

/// The enclave's report names the key that signs quotes.
#[test]
fn the_attestation_key_is_the_enclaves() {
    assert_untrusted(drafted(Body::V4, |draft| draft.enclave_report[320] ^= 1));
    assert_untrusted(drafted(Body::V4, |draft| draft.enclave_report[352] = 1));
    assert_untrusted(drafted(Body::V4, |draft| draft.authentication_data[0] ^= 1));
    assert_untrusted(drafted(Body::V4, |draft| draft.authentication_data.push(0)));
    // Another platform's key, under a genuine report of the first one's enclave.
    let [one, other] = [platform(&MATERIAL), platform(&MATERIAL)];
    let honest = one.quote(REPORT_DATA).unwrap();
    let key = honest.report[632 + 4 + 64..][..64].to_vec();
    let mut spliced = other.quote(REPORT_DATA).unwrap();
    assert_ne!(spliced.report[632 + 4 + 64..][..64], key);
    let from = 632 + 4;
    spliced.report[from..from + 128].copy_from_slice(&honest.report[from..from + 128]);
    spliced.report[..632].copy_from_slice(&honest.report[..632]);
    assert_untrusted(inspected(&evidence(spliced)));
}

#[test]
fn each_signature_counts() {
    let honest = quoted_by(&MATERIAL);
    let quote_signature = 632 + 4;
    let enclave_signature = quote_signature + 128 + 6 + 384;
    for at in [quote_signature, quote_signature + 63, enclave_signature, enclave_signature + 63] {
        let mut spoiled = honest.clone();
        spoiled.report[at] ^= 1;
        assert_untrusted(inspected(&spoiled));
    }
}

#[test]
fn the_quote_and_its_platform_belong_together() {
    let other = AUTHORITY.issue(&recipe()).unwrap();
    let mut chain = Vec::new();
    platform(&other).quote_edited(REPORT_DATA, |draft| chain.clone_from(&draft.chain)).unwrap();
    let spliced = platform(&MATERIAL).quote_edited(REPORT_DATA, |draft| draft.chain = chain).unwrap();
    assert_untrusted(inspected(&evidence(spliced)));
}

#[test]
fn simulated_evidence_brings_all_of_its_collateral() {
    let honest = quoted_by(&MATERIAL);
    for count in [0, 6, 8] {
        let mut evidence = honest.clone();
        evidence.certificates.resize(count, vec![]);
        assert_malformed(inspected(&evidence));
    }
}

/// Collateral of simulated evidence fits what evidence may carry on the wire.
#[test]
fn simulated_evidence_fits_the_wire() {
    let platform = platform(&MATERIAL).quoting(Body::Td15Ex);
    let evidence = evidence(platform.quote(REPORT_DATA).unwrap());
    assert!(evidence.encode().unwrap().len() < 16 * 1024);
}

#[test]
fn a_missing_collateral_has_a_word_of_its_own() {
    let material = AUTHORITY.issue(&Recipe { marked: false, ..recipe() }).unwrap();
    let real = Evidence { format: Format::Tdx, certificates: vec![], ..quoted_by(&material) };
    let refused = inspect(&real, &Collateral::builtin(), now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralMissing);
}

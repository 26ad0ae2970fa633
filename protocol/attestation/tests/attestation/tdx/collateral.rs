//! Collateral that the verifier brings: chains here bear Intel's names under keys of our own, pinned for the test.

use sealane_attestation::{
    AnchorError, Claims, Collateral, Evidence, Format, Rejection, Revocation, TdxCollateral, TdxRoot,
    inspect, limits,
};
use sealane_simulated::tdx::forge::{Edits, Place, Recipe};
use sealane_simulated::tdx::{Material, Processor};
use sealane_types::{Platform, Reason, UnixSeconds};
use serde_json::{Value, json};
use x509_cert::certificate::TbsCertificate;

use super::support::{AUTHORITY, MATERIAL, OTHER_AUTHORITY, dates, now, quoted_by, recipe, said};

/// An installation that names itself as Intel does.
fn real() -> Recipe {
    Recipe { marked: false, ..recipe() }
}

fn root(material: &Material) -> TdxRoot {
    let [_, _, root] = material.chain();
    TdxRoot::new(root).unwrap()
}

fn held(material: &Material) -> TdxCollateral {
    TdxCollateral::from_json_under(material.collateral_json().as_bytes(), &root(material)).unwrap()
}

fn quote(material: &Material) -> Evidence {
    Evidence { format: Format::Tdx, certificates: vec![], ..quoted_by(material) }
}

fn judged(material: &Material, collateral: TdxCollateral) -> Result<Claims, Rejection> {
    inspect(&quote(material), &Collateral::builtin().with_tdx(collateral), now())
}

/// The JSON of honest collateral with one member changed.
fn with(member: &str, value: Value) -> Result<TdxCollateral, Rejection> {
    let material = AUTHORITY.issue(&real()).unwrap();
    let mut json: Value = serde_json::from_str(&material.collateral_json()).unwrap();
    match value {
        Value::Null => drop(json.as_object_mut().unwrap().remove(member)),
        value => json[member] = value,
    }
    TdxCollateral::from_json_under(json.to_string().as_bytes(), &root(&material))
}

#[track_caller]
fn assert_missing<T: std::fmt::Debug>(outcome: Result<T, Rejection>) {
    assert_eq!(outcome.unwrap_err().reason(), Reason::CollateralMissing);
}

#[test]
fn a_quote_is_judged_by_the_collateral_of_its_family() {
    let material = AUTHORITY.issue(&real()).unwrap();
    let collateral = held(&material);
    assert_eq!(collateral.fmspc().as_bytes(), &material.processor().fmspc);
    assert_eq!(*collateral.root(), material.fingerprint());
    assert_eq!(collateral.tcb_evaluation(), 20);
    let claims = judged(&material, collateral.clone()).unwrap();
    assert_eq!(claims.platform(), Platform::Tdx);
    assert_eq!(claims.revocation(), Revocation::Checked);
    assert_eq!(claims.expires(), collateral.expires());
    assert!(format!("{collateral:?}").contains("505349"));

    let processor = Processor { fmspc: [1; 6], ..Processor::default() };
    let other = AUTHORITY.issue(&Recipe { processor, ..real() }).unwrap();
    assert_missing(judged(&other, collateral.clone()));
    let elsewhere = OTHER_AUTHORITY.issue(&real()).unwrap();
    let all = [&elsewhere, &other].map(held);
    let all = all.into_iter().fold(Collateral::empty().with_tdx(collateral), Collateral::with_tdx);
    assert_eq!(all.tdx().len(), 3);
    for material in [&material, &other, &elsewhere] {
        assert!(inspect(&quote(material), &all, now()).is_ok());
    }
}

/// A quote brings its own, so what lies beside it says nothing.
#[test]
fn nothing_lies_beside_a_quote() {
    let material = AUTHORITY.issue(&real()).unwrap();
    let collateral = Collateral::empty().with_tdx(held(&material));
    let evidence = Evidence { certificates: vec![vec![]], ..quote(&material) };
    let refused = inspect(&evidence, &collateral, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::EvidenceMalformed);
}

/// What a provisioning certification enclave of another kind signed is for other statements.
#[test]
fn collateral_is_for_one_kind_of_enclave() {
    let material = AUTHORITY.issue(&real()).unwrap();
    let edits = Edits { info: &|info| info["pceId"] = json!("0001"), ..Edits::default() };
    let other = AUTHORITY.issue_edited(&real(), edits).unwrap();
    assert_missing(judged(&material, held(&other)));
}

#[test]
fn newer_collateral_takes_the_place_of_older() {
    let material = AUTHORITY.issue(&real()).unwrap();
    let old = AUTHORITY.issue(&Recipe { info: dates(-7200, -3600), ..real() }).unwrap();
    // Both have the same root only if they are issued alike, so the statements are moved over.
    let mut json: Value = serde_json::from_str(&material.collateral_json()).unwrap();
    let stale: Value = serde_json::from_str(&old.collateral_json()).unwrap();
    for member in ["tcb_info", "tcb_info_signature"] {
        json[member] = stale[member].clone();
    }
    let stale = TdxCollateral::from_json_under(json.to_string().as_bytes(), &root(&material)).unwrap();
    let refused = judged(&material, stale.clone()).unwrap_err();
    assert_eq!(refused, Rejection::CollateralExpired("the TCB info"));
    let renewed = Collateral::empty().with_tdx(stale).with_tdx(held(&material));
    assert_eq!(renewed.tdx().len(), 1);
    assert!(inspect(&quote(&material), &renewed, now()).is_ok());
}

#[test]
fn dates_are_asked_each_time() {
    let recipe = real();
    let material = AUTHORITY.issue(&recipe).unwrap();
    let collateral = held(&material);
    let at = |now| inspect(&quote(&material), &Collateral::empty().with_tdx(collateral.clone()), now);
    let expires = collateral.expires();
    let begins = UnixSeconds(recipe.root.from.as_secs());
    assert!(at(begins).is_ok() && at(expires).is_ok());
    assert_eq!(at(expires.plus(1)).unwrap_err().reason(), Reason::CollateralExpired);
    let early = at(UnixSeconds(begins.0 - 1)).unwrap_err();
    assert_eq!(early, Rejection::CollateralExpired("Intel's root is from the future"));
}

/// Intel signs both statements with one key; where it does not, each signer counts.
#[test]
fn each_signer_has_dates() {
    let material = AUTHORITY.issue(&real()).unwrap();
    let soon = dates(-3600, 600);
    let other = AUTHORITY.issue(&Recipe { signer: soon, ..real() }).unwrap();
    let [mut json, other] = [&material, &other]
        .map(|material| serde_json::from_str::<Value>(&material.collateral_json()).unwrap());
    for member in ["qe_identity", "qe_identity_signature"] {
        json[member] = other[member].clone();
    }
    // The other signer's certificate, and the same root.
    let begin = "-----BEGIN";
    let last = |chain: &str| chain.rfind(begin).unwrap();
    let chain = "qe_identity_issuer_chain";
    let (own, theirs) = (json[chain].as_str().unwrap(), other[chain].as_str().unwrap());
    json[chain] = json!(format!("{}{}", &theirs[..last(theirs)], &own[last(own)..]));
    let both = TdxCollateral::from_json_under(json.to_string().as_bytes(), &root(&material)).unwrap();
    assert_eq!(both.expires().0, soon.until.as_secs());
}

#[test]
fn a_simulation_stands_for_no_hardware() {
    let [leaf, authority, simulated] = MATERIAL.chain();
    assert_eq!(TdxRoot::new(simulated), Err(AnchorError::Simulated));
    assert_eq!(TdxRoot::new(leaf), Err(AnchorError::Names));
    assert_eq!(TdxRoot::new(authority), Err(AnchorError::Names));
    assert_eq!(TdxRoot::new(&[]), Err(AnchorError::Certificate));
    assert_eq!(TdxRoot::new(&vec![0; limits::CERTIFICATE_BYTES_MAX + 1]), Err(AnchorError::Size));
    assert_missing(TdxCollateral::from_json(MATERIAL.collateral_json().as_bytes()));
    let material = AUTHORITY.issue(&real()).unwrap();
    assert_missing(TdxCollateral::from_json(material.collateral_json().as_bytes()));
}

/// Wherever in a name it says SIM.
#[test]
fn simulation_never_passes_as_hardware() {
    for place in [Place::Platform, Place::Authority] {
        let edit = |at: Place, certificate: &mut TbsCertificate| {
            if at == place {
                let name = certificate.subject.to_string().replace("simulation", "SIM");
                certificate.subject = name.parse().unwrap();
            }
        };
        let edits = Edits { certificate: &edit, ..Edits::default() };
        let material = AUTHORITY.issue_edited(&real(), edits).unwrap();
        let refused = judged(&material, held(&material)).unwrap_err();
        assert_eq!(refused, Rejection::Untrusted("a simulated certificate in place of a real one"));
    }
}

#[test]
fn collateral_under_another_root_is_refused() {
    let material = AUTHORITY.issue(&real()).unwrap();
    let other = OTHER_AUTHORITY.issue(&real()).unwrap();
    assert_missing(TdxCollateral::from_json_under(material.collateral_json().as_bytes(), &root(&other)));
    let refused = judged(&material, held(&other)).unwrap_err();
    assert_eq!(refused, Rejection::Untrusted("the quote's chain leads to another root"));
    // One of the three chains, that of the revocation list, leads elsewhere.
    let foreign: Value = serde_json::from_str(&other.collateral_json()).unwrap();
    for chain in ["tcb_info_issuer_chain", "qe_identity_issuer_chain", "pck_crl_issuer_chain"] {
        assert_missing(with(chain, foreign[chain].clone()));
    }
}

#[test]
fn statements_are_the_exact_text_that_was_signed() {
    let material = AUTHORITY.issue(&real()).unwrap();
    let honest: Value = serde_json::from_str(&material.collateral_json()).unwrap();
    for (statement, signature) in
        [("tcb_info", "tcb_info_signature"), ("qe_identity", "qe_identity_signature")]
    {
        let changed = |member: &str, value: String| {
            let mut json = honest.clone();
            json[member] = json!(value);
            TdxCollateral::from_json_under(json.to_string().as_bytes(), &root(&material))
        };
        let text = honest[statement].as_str().unwrap();
        for other in [format!("{text} "), text.replacen(':', ": ", 1), text.replace("UpToDate", "OutOfDate")]
        {
            let refused = changed(statement, other).unwrap_err();
            assert_eq!(refused.reason(), Reason::EvidenceUntrusted, "{refused}");
        }
        let other =
            if signature == "tcb_info_signature" { "qe_identity_signature" } else { "tcb_info_signature" };
        let refused = changed(signature, honest[other].as_str().unwrap().to_owned()).unwrap_err();
        assert_eq!(refused.reason(), Reason::EvidenceUntrusted, "{refused}");
    }
}

#[test]
fn malformed_collateral_is_refused() {
    for member in [
        "tcb_info",
        "tcb_info_signature",
        "tcb_info_issuer_chain",
        "qe_identity",
        "qe_identity_signature",
        "qe_identity_issuer_chain",
        "root_ca_crl",
        "pck_crl",
        "pck_crl_issuer_chain",
    ] {
        for value in [Value::Null, json!(""), json!("zz"), json!(1), json!("{}")] {
            let outcome = with(member, value.clone());
            assert!(outcome.is_err(), "{member}: {value}");
        }
    }
    let under = TdxRoot::intel();
    for text in [&b""[..], b"{}", b"[]", b"\xff", &vec![b' '; limits::TDX_COLLATERAL_BYTES_MAX + 1]] {
        assert_missing(TdxCollateral::from_json_under(text, &under));
    }
    let nested = "[".repeat(100_000);
    assert_missing(with("tcb_info", json!(nested)));
    with("unknown", json!(nested)).unwrap();
    assert_missing(with("tcb_info", json!("[]")));
    let twice = |text: &str| text.replacen("{\"", "{\"fmspc\":\"000000000000\",\"", 1);
    let material = AUTHORITY.issue(&real()).unwrap();
    let json: Value = serde_json::from_str(&material.collateral_json()).unwrap();
    assert_missing(with("tcb_info", json!(twice(json["tcb_info"].as_str().unwrap()))));
    let large = " ".repeat(limits::STATEMENT_BYTES_MAX + 1);
    assert_missing(with("qe_identity", json!(large)));
}

/// Collateral as tools store it names a platform as well. Which platform signed is for the quote to say.
#[test]
fn a_stored_chain_of_a_platform_is_passed_over() {
    let material = AUTHORITY.issue(&real()).unwrap();
    let other = AUTHORITY.issue(&real()).unwrap();
    let mut json: Value = serde_json::from_str(&material.collateral_json()).unwrap();
    json["pck_certificate_chain"] = json!("not even a certificate");
    let collateral = TdxCollateral::from_json_under(json.to_string().as_bytes(), &root(&material)).unwrap();
    assert!(judged(&material, collateral).is_ok());

    // A quote by one platform that shows the chain of another, with the right chain in the collateral.
    let text = |material: &Material| {
        let report = quote(material).report;
        let from = report.windows(10).position(|window| window == b"-----BEGIN").unwrap();
        report[from..].to_vec()
    };
    json["pck_certificate_chain"] = json!(String::from_utf8_lossy(&text(&material)).trim_end_matches('\0'));
    let collateral = TdxCollateral::from_json_under(json.to_string().as_bytes(), &root(&material)).unwrap();
    let foreign = text(&other);
    let quote =
        super::support::platform(&material).quote_edited([7; 64], |draft| draft.chain = foreign).unwrap();
    let evidence = Evidence { format: Format::Tdx, report: quote.report, certificates: vec![] };
    let refused = inspect(&evidence, &Collateral::empty().with_tdx(collateral), now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::EvidenceUntrusted, "{refused}");
}

/// Intel's service writes FMSPCs in either case.
#[test]
fn the_case_of_hex_does_not_matter() {
    let lower = |info: &mut Value| {
        let text = info["fmspc"].as_str().unwrap().to_lowercase();
        info["fmspc"] = json!(text);
    };
    let processor = Processor { fmspc: [0xb0, 0xc0, 0x6f, 0, 0, 0], ..Processor::default() };
    let recipe = Recipe { processor, ..real() };
    for edits in [Edits::default(), Edits { info: &lower, ..Edits::default() }] {
        let material = AUTHORITY.issue_edited(&recipe, edits).unwrap();
        let claims = judged(&material, held(&material)).unwrap();
        assert_eq!(said(&claims).fmspc().to_string(), "b0c06f000000");
    }
}

#[test]
fn intels_root_is_the_one_that_the_readme_lists() {
    let readme = include_str!("../../../collateral/README.md");
    assert!(readme.contains(&TdxRoot::intel().fingerprint().to_string()));
}

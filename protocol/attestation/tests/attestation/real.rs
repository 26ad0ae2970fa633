//! Roots of real hardware are pinned, and their revocation lists consulted. The chains here bear AMD's names
//! under keys of our own, pinned for the test.

use std::time::Duration;

use sealane_attestation::{
    Anchor, AnchorError, Claims, Collateral, Degradation, Evidence, Expected, Format, Rejection, Revocation,
    appraise, inspect, rejudge,
};
use sealane_policy::Floors;
use sealane_simulated::Material;
use sealane_simulated::forge::{Authority, Dates, Kind, Recipe};
use sealane_types::{Assurance, Platform, Product, Reason};
use x509_cert::Certificate;
use x509_cert::certificate::TbsCertificate;
use x509_cert::crl::TbsCertList;
use x509_cert::der::asn1::OctetString;
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::ext::Extension;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::support::{
    AUTHORITY, MATERIAL, OTHER_AUTHORITY, PROVER, Prover, entry, leaf, now, peer, pod, policy,
    policy_of_epoch, quoted_by, recipe, trust,
};

struct Real {
    recipe: Recipe,
    material: Material,
    evidence: Evidence,
}

fn real() -> Real {
    let recipe = Recipe { marked: false, ..recipe(Product::Genoa, Kind::Vcek) };
    let material = AUTHORITY.issue(&recipe).unwrap();
    let mut evidence = quoted_by(&material);
    evidence.format = Format::SevSnp;
    Real { recipe, material, evidence }
}

fn anchor(material: &Material) -> Anchor {
    let [_, ask, ark] = material.certificates();
    Anchor::new(ark, ask).unwrap()
}

fn fresh() -> Dates {
    let now = Duration::from_secs(now().0);
    Dates { from: now - Duration::from_secs(60), until: now + Duration::from_secs(3600) }
}

/// What `inspect` says with a list of `authority` at hand.
fn with_list(authority: &Authority, dates: Dates, revoke: bool) -> Result<Claims, Rejection> {
    let real = real();
    let list = authority.revocation_list(&real.recipe, dates, revoke).unwrap();
    let anchor = anchor(&real.material).with_revocation_list(&list).unwrap();
    inspect(&real.evidence, &Collateral::empty().with_anchor(anchor), now())
}

#[test]
fn a_fresh_list_makes_claims_complete() {
    let dates = fresh();
    let claims = with_list(&AUTHORITY, dates, false).unwrap();
    assert_eq!(claims.platform(), Platform::SevSnp);
    assert_eq!(claims.revocation(), Revocation::Checked);
    // The list expires first of all, and the claims with it.
    assert_eq!(claims.expires().0, dates.until.as_secs());
}

#[test]
fn a_revoked_issuer_is_refused() {
    let refused = with_list(&AUTHORITY, fresh(), true).unwrap_err();
    assert_eq!(refused, Rejection::Revoked("a certificate of the evidence"));
}

#[test]
fn a_list_is_neither_old_nor_from_the_future() {
    let now = Duration::from_secs(now().0);
    let hour = Duration::from_secs(3600);
    for dates in
        [Dates { from: now - 2 * hour, until: now - hour }, Dates { from: now + hour, until: now + 2 * hour }]
    {
        let refused = with_list(&AUTHORITY, dates, false).unwrap_err();
        assert_eq!(refused.reason(), Reason::CollateralExpired, "{refused}");
    }
}

#[test]
fn a_list_is_signed_by_the_root() {
    let refused = with_list(&OTHER_AUTHORITY, fresh(), false).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralMissing, "{refused}");
}

#[test]
fn a_list_of_another_issuer_says_nothing() {
    let real = real();
    let other = Recipe { marked: false, ..recipe(Product::Milan, Kind::Vcek) };
    let list = AUTHORITY.revocation_list(&other, fresh(), false).unwrap();
    let anchor = anchor(&real.material).with_revocation_list(&list).unwrap();
    let refused = inspect(&real.evidence, &Collateral::empty().with_anchor(anchor), now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralMissing, "{refused}");
}

#[test]
fn a_list_for_some_certificates_says_nothing() {
    let real = real();
    let restrict = |list: &mut TbsCertList| {
        // issuingDistributionPoint: onlyContainsUserCerts, so that it is silent about the ASK.
        let extn_value = OctetString::new([0x30, 0x03, 0x81, 0x01, 0xff]).unwrap();
        let extn_id = "2.5.29.28".parse().unwrap();
        list.crl_extensions.as_mut().unwrap().push(Extension { extn_id, critical: true, extn_value });
    };
    let list = AUTHORITY.revocation_list_edited(&real.recipe, fresh(), true, restrict).unwrap();
    let anchor = anchor(&real.material).with_revocation_list(&list).unwrap();
    let refused = inspect(&real.evidence, &Collateral::empty().with_anchor(anchor), now()).unwrap_err();
    assert_eq!(
        refused,
        Rejection::CollateralMissing("the revocation list covers a part of the certificates")
    );
}

#[test]
fn a_list_that_never_expires_is_refused() {
    let real = real();
    let endless = |list: &mut TbsCertList| list.next_update = None;
    let list = AUTHORITY.revocation_list_edited(&real.recipe, fresh(), false, endless).unwrap();
    let anchor = anchor(&real.material).with_revocation_list(&list).unwrap();
    let refused = inspect(&real.evidence, &Collateral::empty().with_anchor(anchor), now()).unwrap_err();
    assert_eq!(refused, Rejection::CollateralMissing("the revocation list never expires"));
}

#[test]
fn a_root_is_pinned_and_not_brought_along() {
    let real = real();
    // AMD's names under other keys.
    let refused = inspect(&real.evidence, &Collateral::builtin(), now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::EvidenceUntrusted, "{refused}");
    let refused = inspect(&real.evidence, &Collateral::empty(), now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralMissing, "{refused}");
    // The pinned issuers serve evidence that brings none, or somebody else's.
    let collateral = Collateral::empty().with_anchor(anchor(&real.material));
    let mut alone = real.evidence.clone();
    alone.certificates.truncate(1);
    assert!(inspect(&alone, &collateral, now()).is_ok());
    alone.certificates.extend(quoted_by(&MATERIAL).certificates);
    assert!(inspect(&alone, &collateral, now()).is_ok());
    alone.certificates.clear();
    assert!(matches!(inspect(&alone, &collateral, now()), Err(Rejection::Malformed(_))));
}

#[test]
fn an_issuer_s_key_is_rsa() {
    let rekeyed = |certificate: &[u8], edit: &dyn Fn(&mut SubjectPublicKeyInfoOwned)| {
        let mut certificate = Certificate::from_der(certificate).unwrap();
        edit(&mut certificate.tbs_certificate.subject_public_key_info);
        certificate.to_der().unwrap()
    };
    let real = real();
    let [vcek, ask, ark] = real.material.certificates();
    let of_chip = Certificate::from_der(vcek).unwrap().tbs_certificate.subject_public_key_info;
    let p384 = |key: &mut SubjectPublicKeyInfoOwned| *key = of_chip.clone();
    // id-RSASSA-PSS, which AMD does not use for keys.
    let restricted = |key: &mut SubjectPublicKeyInfoOwned| {
        key.algorithm.oid = "1.2.840.113549.1.1.10".parse().unwrap();
    };
    for edit in [&p384 as &dyn Fn(&mut SubjectPublicKeyInfoOwned), &restricted] {
        assert_eq!(Anchor::new(&rekeyed(ark, edit), ask).unwrap_err(), AnchorError::Key);
        assert_eq!(Anchor::new(ark, &rekeyed(ask, edit)).unwrap_err(), AnchorError::Key);
        for issuer in [1, 2] {
            let mut simulated = quoted_by(&MATERIAL);
            simulated.certificates[issuer] = rekeyed(&simulated.certificates[issuer], edit);
            let refused = inspect(&simulated, &Collateral::empty().allowing_simulated(), now()).unwrap_err();
            assert_eq!(refused.reason(), Reason::EvidenceUntrusted, "{refused}");
        }
    }
}

#[test]
fn simulation_never_passes_as_hardware() {
    let mut evidence = quoted_by(&MATERIAL);
    evidence.format = Format::SevSnp;
    let [_, ask, ark] = MATERIAL.certificates();
    assert_eq!(Anchor::new(ark, ask).unwrap_err(), AnchorError::Simulated);
    let real = real();
    let collateral = Collateral::builtin().with_anchor(anchor(&real.material)).allowing_simulated();
    let refused = inspect(&evidence, &collateral, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::EvidenceUntrusted, "{refused}");
    // Not even below a pinned root.
    let named = |vcek: &mut TbsCertificate| vcek.subject = "CN=SIM-SEV-VCEK".parse().unwrap();
    let material = AUTHORITY.issue_edited(&real.recipe, |_| {}, named).unwrap();
    let evidence = Evidence { format: Format::SevSnp, ..quoted_by(&material) };
    let refused = inspect(&evidence, &collateral, now()).unwrap_err();
    assert_eq!(refused, Rejection::Untrusted("a simulated certificate in place of a real one"));
}

#[test]
fn no_verdict_on_hardware_without_a_list() {
    let real = real();
    let mut pinned = entry(&real.material);
    (pinned.assurance, pinned.root) = (Assurance::Pod, None);
    let policy = policy(vec![pinned.clone()], Floors::default());
    let prover = Prover { format: Format::SevSnp, material: real.material, ..Prover::honest(&policy) };
    let message = prover.send();
    let (pod, policies) = (pod(), [policy.digest()]);
    let expected =
        Expected { leaf: leaf(), prover_static: &PROVER, pod: &pod, trust: &trust(), policies: &policies };
    let binding = expected.bind(&message).unwrap();

    let anchor = anchor(&prover.material);
    let unlisted = Collateral::empty().with_anchor(anchor.clone());
    let claims = inspect(&message.evidence, &unlisted, now()).unwrap();
    assert_eq!(claims.revocation(), Revocation::Unchecked);
    let refused = appraise(&claims, &peer(), &policy, &binding, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralMissing);

    // It ends before the policy of this test does.
    let dates = fresh();
    let dates = Dates { until: dates.from + Duration::from_secs(600), ..dates };
    let list = AUTHORITY.revocation_list(&real.recipe, dates, false).unwrap();
    let listed = Collateral::empty().with_anchor(anchor.with_revocation_list(&list).unwrap());
    let claims = inspect(&message.evidence, &listed, now()).unwrap();
    let verified = appraise(&claims, &peer(), &policy, &binding, now()).unwrap();
    assert_eq!(verified.assurance(), Assurance::Pod);
    assert_eq!(verified.platform(), Platform::SevSnp);
    // The owners come to call it a node: what is held says so from then on.
    let mut node = pinned;
    node.assurance = Assurance::Node;
    node.unverified_workload = true;
    let node = policy_of_epoch(2, vec![node], Floors::default());
    let again = rejudge(&verified, &node, now()).unwrap();
    assert_eq!(
        (again.assurance(), again.degradations()),
        (Assurance::Node, &[Degradation::WorkloadUnverified][..])
    );
    let later = verified.expires().plus(1);
    let refused = appraise(&claims, &peer(), &policy, &binding, later).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralExpired, "{refused}");
}

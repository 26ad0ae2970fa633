//! What is told to whoever writes entries or looks into them, beside verdicts.

use sealane_attestation::{Aspect, Expected, Finding, Rejection, review, shortfall};
use sealane_policy::Floors;
use sealane_types::{HostData, Measurement, Product};

use crate::support::{
    MATERIAL, PROVER, Prover, entry, honest, inspected, leaf, now, peer, pod, policy, snp, trust,
};

#[test]
fn what_an_entry_asks_for_in_vain_is_told() {
    let claims = inspected(&Prover::honest(&honest()).send().evidence).unwrap();
    assert_eq!(shortfall(&claims, &entry(&MATERIAL), now()), None);
    let mut other = entry(&MATERIAL);
    snp(&mut other).measurements = [Measurement::new([0; 48])].into();
    assert_eq!(shortfall(&claims, &other, now()), Some(Rejection::Measurement));
}

#[test]
fn every_check_is_told_of_the_entry_that_comes_closest() {
    let mut far = entry(&MATERIAL);
    snp(&mut far).measurements = [Measurement::new([0; 48])].into();
    let mut near = entry(&MATERIAL);
    (snp(&mut near).host_data, snp(&mut near).products) =
        ([HostData::new([0; 32])].into(), [Product::Turin].into());
    let policy = policy(vec![far, near.clone()], Floors::default());
    let message = Prover::honest(&policy).send();
    let (pod, policies) = (pod(), [policy.digest()]);
    let expected =
        Expected { leaf: leaf(), prover_static: &PROVER, pod: &pod, trust: &trust(), policies: &policies };
    let binding = expected.bind(&message).unwrap();
    assert_eq!(binding.tree_root(), leaf().as_bytes(), "the root of a tree of one leaf");
    let claims = inspected(&message.evidence).unwrap();
    let (closest, findings) = review(&claims, &peer(), &policy, &binding, now()).unwrap();
    assert_eq!(*closest, near);
    let short = |finding: &Finding| finding.outcome.err().map(|_| finding.aspect);
    let short: Vec<_> = findings.iter().filter_map(short).collect();
    assert_eq!(short, [Aspect::HostData, Aspect::Product]);
    assert_eq!(review(&claims, &"ranker".parse().unwrap(), &policy, &binding, now()), None);
}

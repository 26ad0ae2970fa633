//! Chains that are known: the same verdicts at less cost, and no verdict on anything but certificates.

use std::time::{Duration, Instant};

use sealane_attestation::{
    Anchor, ChainCache, Claims, Collateral, Evidence, Format, Rejection, Revocation, inspect, inspect_with,
};
use sealane_simulated::Material;
use sealane_simulated::forge::{Authority, Dates, Kind, Recipe};
use sealane_types::{Product, Reason, UnixSeconds};

use crate::support::{AUTHORITY, MATERIAL, OTHER_AUTHORITY, now, quoted_by, recipe, simulation};

/// AMD's names under keys of our own, pinned for the test.
struct Real {
    recipe: Recipe,
    material: Material,
}

impl Real {
    fn new() -> Self {
        let recipe = Recipe { marked: false, ..recipe(Product::Genoa, Kind::Vcek) };
        let material = AUTHORITY.issue(&recipe).unwrap();
        Self { recipe, material }
    }

    fn evidence(&self) -> Evidence {
        Evidence { format: Format::SevSnp, ..quoted_by(&self.material) }
    }

    fn anchor(&self) -> Anchor {
        let [_, ask, ark] = self.material.certificates();
        Anchor::new(ark, ask).unwrap()
    }

    fn collateral(&self) -> Collateral {
        Collateral::empty().with_anchor(self.anchor())
    }

    /// With a list that holds for an hour, or has revoked the issuer.
    fn listed(&self, authority: &Authority, revoke: bool) -> Collateral {
        let now = Duration::from_secs(now().0);
        let dates = Dates { from: now - Duration::from_secs(60), until: now + Duration::from_secs(3600) };
        let list = authority.revocation_list(&self.recipe, dates, revoke).unwrap();
        Collateral::empty().with_anchor(self.anchor().with_revocation_list(&list).unwrap())
    }
}

fn simulated(chains: &mut ChainCache, evidence: &Evidence) -> Result<Claims, Rejection> {
    inspect_with(chains, evidence, &simulation(), now())
}

#[test]
fn a_known_chain_gives_the_same_claims() {
    let mut chains = ChainCache::new();
    let first = simulated(&mut chains, &quoted_by(&MATERIAL)).unwrap();
    assert_eq!(chains.len(), 1);
    let evidence = quoted_by(&MATERIAL);
    assert_eq!(simulated(&mut chains, &evidence).unwrap(), inspect(&evidence, &simulation(), now()).unwrap());
    assert_eq!(simulated(&mut chains, &evidence).unwrap(), first);
    assert_eq!(chains.len(), 1);
}

#[test]
fn a_known_chain_vouches_for_no_report() {
    let mut chains = ChainCache::new();
    simulated(&mut chains, &quoted_by(&MATERIAL)).unwrap();
    let mut changed = quoted_by(&MATERIAL);
    changed.report[0x50] ^= 1;
    assert_eq!(simulated(&mut chains, &changed), Err(Rejection::Untrusted("the signature of the report")));
    let other = AUTHORITY.issue(&recipe(Product::Genoa, Kind::Vcek)).unwrap();
    let foreign = Evidence { certificates: quoted_by(&MATERIAL).certificates, ..quoted_by(&other) };
    assert_eq!(simulated(&mut chains, &foreign), Err(Rejection::Untrusted("the signature of the report")));
}

#[test]
fn every_byte_of_every_certificate_counts() {
    let mut chains = ChainCache::new();
    simulated(&mut chains, &quoted_by(&MATERIAL)).unwrap();
    for certificate in 0..3 {
        let mut changed = quoted_by(&MATERIAL);
        *changed.certificates[certificate].last_mut().unwrap() ^= 1;
        let fresh = inspect(&changed, &simulation(), now());
        assert_eq!(simulated(&mut chains, &changed), fresh);
        // The root's own signature is nobody's word; a policy pins its fingerprint, which is another.
        assert_eq!(fresh.is_ok(), certificate == 2);
    }
    // And what is signed, from end to end.
    let (honest, at) = (quoted_by(&MATERIAL), now());
    for certificate in 0..3 {
        for position in (0..honest.certificates[certificate].len()).step_by(17) {
            let mut changed = honest.clone();
            changed.certificates[certificate][position] ^= 1 << (position % 8);
            let known = inspect_with(&mut chains, &changed, &simulation(), at);
            assert_eq!(known, inspect(&changed, &simulation(), at), "{certificate}: {position}");
        }
    }
}

#[test]
fn a_chain_that_does_not_hold_is_not_known() {
    let mut chains = ChainCache::new();
    let mut spliced = quoted_by(&MATERIAL);
    let other = OTHER_AUTHORITY.issue(&recipe(Product::Genoa, Kind::Vcek)).unwrap();
    spliced.certificates[1] = other.certificates()[1].to_vec();
    assert!(simulated(&mut chains, &spliced).is_err());
    assert!(chains.is_empty());
}

#[test]
fn a_known_chain_ends_in_time() {
    let mut soon = recipe(Product::Genoa, Kind::Vcek);
    soon.validity.until = Duration::from_secs(now().0 + 600);
    let evidence = quoted_by(&AUTHORITY.issue(&soon).unwrap());
    let mut chains = ChainCache::new();
    let claims = simulated(&mut chains, &evidence).unwrap();
    let at = |chains: &mut ChainCache, time| inspect_with(chains, &evidence, &simulation(), time);
    assert!(at(&mut chains, claims.expires()).is_ok());
    let late = at(&mut chains, claims.expires().plus(1)).unwrap_err();
    assert_eq!(late.reason(), Reason::EvidenceExpired);
    // Nor does it hold before it began.
    simulated(&mut chains, &evidence).unwrap();
    assert!(at(&mut ChainCache::new(), UnixSeconds(soon.validity.from.as_secs())).is_ok());
    let early = at(&mut chains, UnixSeconds(soon.validity.from.as_secs() - 1)).unwrap_err();
    assert_eq!(early.reason(), Reason::EvidenceExpired);
}

#[test]
fn another_list_is_consulted() {
    let real = Real::new();
    let mut chains = ChainCache::new();
    let unlisted = inspect_with(&mut chains, &real.evidence(), &real.collateral(), now()).unwrap();
    assert_eq!(unlisted.revocation(), Revocation::Unchecked);
    let listed = real.listed(&AUTHORITY, false);
    let checked = inspect_with(&mut chains, &real.evidence(), &listed, now()).unwrap();
    assert_eq!(checked.revocation(), Revocation::Checked);
    let revoked = real.listed(&AUTHORITY, true);
    let refused = inspect_with(&mut chains, &real.evidence(), &revoked, now()).unwrap_err();
    assert_eq!(refused, Rejection::Revoked("a certificate of the evidence"));
    // And back again, at the cost of one signature.
    assert_eq!(inspect_with(&mut chains, &real.evidence(), &listed, now()).unwrap(), checked);
    let late = inspect_with(&mut chains, &real.evidence(), &listed, checked.expires()).unwrap_err();
    assert_eq!(late.reason(), Reason::CollateralExpired);
}

#[test]
fn a_root_that_is_no_longer_pinned_is_forgotten() {
    let real = Real::new();
    let mut chains = ChainCache::new();
    inspect_with(&mut chains, &real.evidence(), &real.collateral(), now()).unwrap();
    let refused = inspect_with(&mut chains, &real.evidence(), &Collateral::builtin(), now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::EvidenceUntrusted);
    let refused = inspect_with(&mut chains, &real.evidence(), &Collateral::empty(), now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralMissing);
}

/// A chain of hardware would pass for a simulated one without a name that says SIM.
#[test]
fn hardware_and_simulation_are_known_apart() {
    let real = Real::new();
    let collateral = real.collateral().allowing_simulated();
    let mut chains = ChainCache::new();
    inspect_with(&mut chains, &real.evidence(), &collateral, now()).unwrap();
    let posing = Evidence { format: Format::SimulatedSevSnp, ..real.evidence() };
    let refused = inspect_with(&mut chains, &posing, &collateral, now()).unwrap_err();
    assert_eq!(refused, Rejection::Untrusted("a simulated certificate whose name does not say SIM"));
    inspect_with(&mut chains, &quoted_by(&MATERIAL), &collateral, now()).unwrap();
    let posing = Evidence { format: Format::SevSnp, ..quoted_by(&MATERIAL) };
    let refused = inspect_with(&mut chains, &posing, &collateral, now()).unwrap_err();
    assert_eq!(refused, Rejection::Untrusted("a simulated certificate in place of a real one"));
}

/// No assertion on speed: the figures, the least of many, are for whoever reads the output.
#[test]
fn what_a_known_chain_saves() {
    const ROUNDS: u32 = 200;
    let real = Real::new();
    let (evidence, listed, now) = (real.evidence(), real.listed(&AUTHORITY, false), now());
    let time = |mut inspect: Box<dyn FnMut() -> Claims + '_>| {
        let once = |_| {
            let started = Instant::now();
            inspect();
            started.elapsed()
        };
        (0..ROUNDS).map(once).min().unwrap()
    };
    let fresh = time(Box::new(|| inspect(&evidence, &listed, now).unwrap()));
    let mut chains = ChainCache::new();
    inspect_with(&mut chains, &evidence, &listed, now).unwrap();
    let known = time(Box::new(|| inspect_with(&mut chains, &evidence, &listed, now).unwrap()));
    eprintln!("one verification with a revocation list: {fresh:?}; of a known chain: {known:?}");
}

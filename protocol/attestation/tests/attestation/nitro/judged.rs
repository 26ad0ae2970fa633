//! The whole way, from a document over the wire to a verdict.

use sealane_attestation::binding::Tree;
use sealane_attestation::{
    Degradation, Evidence, EvidenceMessage, Format, Rejection, VerifiedPeer, inspect, rejudge,
};
use sealane_policy::{
    Entry, Floors, NitroMeasurement, NitroPermissions, NitroReference, Pinnable, Reference, VerifiedPolicy,
};
use sealane_simulated::nitro::{Chain, Document, Recipe, measurements, register};
use sealane_types::{Assurance, Measurement, Platform, Reason, UnixSeconds};

use super::support::{MATERIAL, ROLE, chain, enclave, evidence, recipe, under};
use crate::support::{PROVER, judged, leaf, now, pod, policy, policy_of_epoch, report_of, simulation, trust};

const ROOT: &str = "its nonce is not the root of this handshake's tree";
const STATIC: &str = "its public_key is not the static key of this handshake";

/// An entry that honest documents satisfy, with everything pinned.
fn entry() -> Entry {
    let measurement = NitroMeasurement {
        image: measurements(),
        registers: [(NitroMeasurement::ROLE, register(ROLE))].into(),
    };
    Entry {
        assurance: Assurance::Simulated,
        root: Some(MATERIAL.fingerprint()),
        workload: None,
        unverified_workload: false,
        reference: Reference::Nitro(NitroReference {
            measurements: [measurement].into(),
            ..NitroReference::default()
        }),
    }
}

fn changed(edit: impl FnOnce(&mut NitroReference)) -> Entry {
    let mut entry = entry();
    let Reference::Nitro(nitro) = &mut entry.reference else { panic!("{entry:?}") };
    edit(nitro);
    entry
}

/// The same entry with its one measurement changed.
fn measuring(edit: impl FnOnce(&mut NitroMeasurement)) -> Entry {
    changed(|nitro| {
        let mut measurement = nitro.measurements.first().unwrap().clone();
        edit(&mut measurement);
        nitro.measurements = [measurement].into();
    })
}

fn honest() -> VerifiedPolicy {
    policy(vec![entry()], Floors { complete: true, ..Floors::default() })
}

/// What an enclave sends for the handshake under `policy`, after `edit` changed its document.
fn message(policy: &VerifiedPolicy, edit: impl FnOnce(&mut Document)) -> EvidenceMessage {
    let tree = Tree::single(leaf());
    let data = report_of(Platform::Simulated, policy, &tree);
    let mut document = enclave().document(&data, tree.root(), &PROVER).unwrap();
    edit(&mut document);
    let evidence = evidence(chain().seal(&document.payload()).unwrap());
    EvidenceMessage {
        pod: pod(),
        policy: policy.digest(),
        path: tree.path(0).unwrap(),
        evidence,
        workload: None,
    }
}

/// The verdict under a policy with this entry on a document that `edit` changed.
fn verdict(entry: Entry, edit: impl FnOnce(&mut Document)) -> Result<VerifiedPeer, Rejection> {
    let policy = policy(vec![entry], Floors::default());
    judged(&message(&policy, edit), &policy)
}

#[test]
fn an_honest_enclave_is_verified() {
    let policy = honest();
    let verified = judged(&message(&policy, |_| {}), &policy).unwrap();
    assert_eq!(verified.platform(), Platform::Simulated);
    assert_eq!(verified.assurance(), Assurance::Simulated);
    assert_eq!(verified.measurement(), Some(&measurements()[0]));
    assert_eq!((verified.static_key(), verified.degradations()), (&PROVER, &[][..]));
}

#[test]
fn a_document_is_bound_three_times() {
    let not_bound = |edit: fn(&mut Document)| match verdict(entry(), edit) {
        Err(Rejection::NotBound(why)) => why,
        other => panic!("{other:?}"),
    };
    let data = "its REPORT_DATA is not the one of this handshake";
    assert_eq!(not_bound(|document| document.user_data = Some(vec![9; 64])), data);
    assert_eq!(not_bound(|document| document.user_data = None), data);
    assert_eq!(not_bound(|document| document.user_data.as_mut().unwrap().push(0)), data);
    assert_eq!(not_bound(|document| document.user_data.as_mut().unwrap().truncate(63)), data);
    assert_eq!(not_bound(|document| document.nonce = Some(vec![9; 32])), ROOT);
    assert_eq!(not_bound(|document| document.nonce = None), ROOT);
    assert_eq!(not_bound(|document| document.public_key = Some(vec![9; 32])), STATIC);
    assert_eq!(not_bound(|document| document.public_key = None), STATIC);
}

#[test]
fn reference_values_have_to_match() {
    let refused = |entry: Entry| verdict(entry, |_| {}).unwrap_err();
    for index in 0..3 {
        let entry = measuring(|measured| measured.image[index] = Measurement::new([9; 48]));
        assert_eq!(refused(entry), Rejection::Measurement, "{index}");
    }
    let other = Measurement::new([9; 48]);
    let pinning = |index, pcr| measuring(|measured| measured.registers.extend([(index, pcr)]));
    for index in 3..32 {
        assert_eq!(refused(pinning(index, other)), Rejection::Registers, "{index}");
        // A document without the register shows nothing.
        let pinned = pinning(index, Measurement::new([0; 48]));
        let without = verdict(pinned, |document| drop(document.pcrs.remove(&u64::from(index))));
        assert_eq!(without.unwrap_err(), Rejection::Registers, "{index}");
        let shown = verdict(pinning(index, other), |document| {
            document.pcrs.insert(u64::from(index), vec![9; 48]);
        });
        assert!(shown.is_ok(), "{index}");
    }
    // What is pinned belongs together: the image of one measurement with the role of another fits neither.
    let two = changed(|nitro| {
        let own = nitro.measurements.first().unwrap().clone();
        let image = NitroMeasurement { registers: [(NitroMeasurement::ROLE, other)].into(), ..own.clone() };
        let role = NitroMeasurement { image: [other; 3], ..own };
        nitro.measurements = [image, role].into();
    });
    assert_eq!(refused(two), Rejection::Registers);
    let module = |name: &str| changed(|nitro| nitro.module_ids = [name.to_owned()].into());
    assert_eq!(refused(module("i-1-enc1")), Rejection::Module);
    assert!(verdict(module("i-00000000000000000-enc0000000000000000"), |_| {}).is_ok());
    for refused in [Rejection::Registers, Rejection::Module] {
        assert_eq!(refused.reason(), Reason::MeasurementMismatch);
    }
}

#[test]
fn debug_needs_permission() {
    let debug = |document: &mut Document| {
        (0..3).for_each(|index| *document.pcrs.get_mut(&index).unwrap() = vec![0; 48])
    };
    let zeros = |permitted| {
        changed(|nitro| {
            let zero = Measurement::new([0; 48]);
            let measured = NitroMeasurement::of([zero; 3]);
            nitro.measurements = [measured].into();
            nitro.permissions = NitroPermissions { debug: permitted };
        })
    };
    assert!(verdict(zeros(true), debug).is_ok());
    // Whoever reads it learns that it is debug mode, not merely that the image is another.
    assert_eq!(verdict(entry(), debug).unwrap_err(), Rejection::Debug);
    // The policy's own lint refuses zeros without the permission; the verifier does not rely on it.
    let policy = policy(vec![zeros(true)], Floors::default());
    let claims = inspect(&message(&policy, debug).evidence, &simulation(), now()).unwrap();
    let nitro = super::support::said(&claims);
    assert!(nitro.debug());
    assert_eq!(nitro.permitted(&NitroPermissions::default()), Err(Rejection::Debug));
    assert_eq!(Rejection::Debug.reason(), Reason::DebugNotAllowed);
    // One register that is not zero was measured.
    let claims = inspect(
        &message(&policy, |document| {
            debug(document);
            document.pcrs.get_mut(&2).unwrap()[47] = 1;
        })
        .evidence,
        &simulation(),
        now(),
    );
    assert!(!super::support::said(&claims.unwrap()).debug());
}

#[test]
fn a_document_is_fresh_when_it_is_shown() {
    let aged = |seconds: u64| move |document: &mut Document| document.timestamp -= seconds * 1000;
    assert!(verdict(entry(), aged(200)).is_ok());
    let refused = verdict(entry(), aged(600)).unwrap_err();
    assert!(matches!(refused, Rejection::Stale { age_seconds: 600.., most_seconds: 300 }), "{refused}");
    assert_eq!(refused.reason(), Reason::EvidenceExpired);
    assert!(verdict(changed(|nitro| nitro.max_age_seconds = 3600), aged(600)).is_ok());
    assert!(verdict(changed(|nitro| nitro.max_age_seconds = 100), aged(200)).is_err());
    // As old as it may be, to the second.
    let policy = policy(vec![entry()], Floors::default());
    let claims = inspect(&message(&policy, |_| {}).evidence, &simulation(), now()).unwrap();
    let nitro = super::support::said(&claims);
    assert_eq!(nitro.fresh(300, nitro.timestamp().plus(300)), Ok(()));
    let stale = Rejection::Stale { age_seconds: 301, most_seconds: 300 };
    assert_eq!(nitro.fresh(300, nitro.timestamp().plus(301)), Err(stale));
}

/// What was fresh in its handshake does not age with the connection, and a policy may still ask for fresher.
#[test]
fn age_is_that_of_the_handshake() {
    let first = policy(vec![entry()], Floors::default());
    let held = judged(&message(&first, |document| document.timestamp -= 200_000), &first).unwrap();
    let later = UnixSeconds(held.evidence_time().0 + 1200);
    assert!(rejudge(&held, &first, later).is_ok());
    let stricter = changed(|nitro| nitro.max_age_seconds = 100);
    let stricter = policy_of_epoch(2, vec![stricter], Floors::default());
    assert!(matches!(rejudge(&held, &stricter, later), Err(Rejection::Stale { most_seconds: 100, .. })));
}

#[test]
fn claims_end_with_the_enclave_s_certificate() {
    let mut soon = recipe();
    soon.dates[4].until = std::time::Duration::from_secs(now().0 + 600);
    let chain = Chain::issue(&soon).unwrap();
    let mut pinned = entry();
    pinned.root = Some(sealane_simulated::nitro::Material::from(chain.clone()).fingerprint());
    let policy = policy(vec![pinned], Floors::default());
    let mut message = message(&policy, |_| {});
    let tree = Tree::single(leaf());
    let data = report_of(Platform::Simulated, &policy, &tree);
    let enclave = sealane_simulated::nitro::Enclave::new(chain.into(), Some(ROLE));
    message.evidence.report = enclave.quote(&data, tree.root(), &PROVER).unwrap();
    let held = judged(&message, &policy).unwrap();
    assert!(rejudge(&held, &policy, held.expires()).is_ok());
    let refused = rejudge(&held, &policy, held.expires().plus(1)).unwrap_err();
    assert_eq!(refused.reason(), Reason::CollateralExpired);
}

#[test]
fn an_open_role_degrades_and_complete_floors_refuse_it() {
    let open = measuring(|measured| measured.registers.clear());
    let verified = verdict(open, |_| {}).unwrap();
    assert_eq!(verified.degradations(), [Degradation::ReferenceValueMissing(Pinnable::Pcr3)]);
}

#[test]
fn another_platform_s_entry_or_root_fits_no_enclave() {
    let snp = crate::support::entry(&crate::support::MATERIAL);
    let refused = verdict(Entry { root: Some(MATERIAL.fingerprint()), ..snp }, |_| {}).unwrap_err();
    assert_eq!(refused, Rejection::PlatformNotAllowed(Platform::Simulated));
    let root = Some(sealane_types::Digest::new([9; 32]));
    assert_eq!(verdict(Entry { root, ..entry() }, |_| {}).unwrap_err(), Rejection::Root);
    let real = Entry { root: None, assurance: Assurance::Pod, ..entry() };
    assert_eq!(verdict(real, |_| {}).unwrap_err(), Rejection::PlatformNotAllowed(Platform::Simulated));
}

/// AWS says not to consult lists for enclaves: a verdict on a real one needs none.
#[test]
fn a_real_enclave_needs_no_list() {
    let chain = Chain::issue(&Recipe { marked: false, ..recipe() }).unwrap();
    let collateral =
        sealane_attestation::Collateral::empty().with_nitro_root(&chain.certificates()[0]).unwrap();
    let real = Entry { root: None, assurance: Assurance::Pod, ..entry() };
    let policy = policy(vec![real], Floors { complete: true, ..Floors::default() });
    let tree = Tree::single(leaf());
    let data = report_of(Platform::Nitro, &policy, &tree);
    let enclave = sealane_simulated::nitro::Enclave::new(chain.clone().into(), Some(ROLE));
    let report = enclave.quote(&data, tree.root(), &PROVER).unwrap();
    let evidence = Evidence { format: Format::Nitro, report, certificates: vec![] };
    let message = EvidenceMessage {
        pod: pod(),
        policy: policy.digest(),
        path: tree.path(0).unwrap(),
        evidence,
        workload: None,
    };
    let (pod, policies) = (pod(), [policy.digest()]);
    let expected = sealane_attestation::Expected {
        leaf: leaf(),
        prover_static: &PROVER,
        pod: &pod,
        trust: &trust(),
        policies: &policies,
    };
    let verified =
        sealane_attestation::judge(&message, &expected, &crate::support::peer(), &policy, &collateral, now())
            .unwrap();
    assert_eq!((verified.platform(), verified.assurance()), (Platform::Nitro, Assurance::Pod));
    assert!(under(chain).certificates.is_empty());
}

//! What sessions with `Auto` take: told to sidecars, and explained in their status.

use std::sync::Arc;

use sealane_operator_api::{CarrierChoice, CipherChoice, RecommendedTransport};
use sealane_types::{Carrier, Cipher};
use serde_json::json;

use super::condition;
use crate::advice::tests::{AES128, AES256, CHACHA, UDP, figures};
use crate::advice::{Advice, Contribution, Figures, Transport};
use crate::control::convert::configuration;
use crate::reconcile::fixture::{NOW, document, peer, policy, run, snapshot};
use crate::spec::Snapshot;

type Pool = (Arc<Figures>, Vec<String>);

/// Pool `name`, measured a moment ago, with one node of its name.
fn pool(name: &str, transports: &[(Transport, u64)]) -> Pool {
    (figures(name, NOW - 10, transports), vec![name.to_owned()])
}

/// The sending pod runs on node `one`, the receiving one on `two`, and these pools were measured.
fn measured(pools: &[Pool]) -> Snapshot {
    let mut snapshot = snapshot();
    for (pod, node) in snapshot.pods.iter_mut().zip(["one", "two"]) {
        pod.node = Some(node.to_owned());
    }
    snapshot.advice = advising(pools, Vec::new());
    listing(&mut snapshot, &["Aes256Gcm", "ChaCha20Poly1305", "Aes128Gcm"]);
    snapshot
}

fn advising(pools: &[Pool], pairs: Vec<(String, String, Arc<Figures>)>) -> Arc<Advice> {
    Arc::new(Advice::new(std::iter::once(&Contribution { pools: pools.to_vec(), pairs })))
}

/// The policy lists these ciphers, and every carrier.
fn listing(snapshot: &mut Snapshot, ciphers: &[&str]) {
    flooring(snapshot, &json!({"ciphers": ciphers}));
}

fn flooring(snapshot: &mut Snapshot, floors: &serde_json::Value) {
    snapshot.policies = vec![policy(&document(1, |document| document["floors"] = floors.clone()))];
}

fn both(transports: &[(Transport, u64)]) -> Snapshot {
    measured(&[pool("one", transports), pool("two", transports)])
}

/// As [`both`], and measured between the two as well.
fn across(transports: &[(Transport, u64)]) -> Snapshot {
    let pools = ["one", "two"].map(|name| pool(name, transports));
    let between = figures("one → two", NOW - 5, transports);
    let mut snapshot = measured(&pools);
    snapshot.advice = advising(&pools, vec![("one".to_owned(), "two".to_owned(), between)]);
    snapshot
}

fn recommended(snapshot: &Snapshot) -> Option<RecommendedTransport> {
    run(snapshot.clone()).2.sessions.into_iter().next().unwrap().1.recommended
}

/// The cipher that both sides are told to offer first, as it is on the wire.
fn preferred(snapshot: &Snapshot) -> String {
    told(snapshot).1
}

/// Carrier and cipher that both sides are told to take first.
fn told(snapshot: &Snapshot) -> (String, String) {
    let (_, applied, _) = run(snapshot.clone());
    let told = ["embedder-1-uid", "ranker-2-uid"].map(|uid| {
        let told = configuration(applied.desired(uid).unwrap(), 0);
        let session = told.sessions.into_iter().next().unwrap();
        (session.preferred_carrier, session.preferred_cipher)
    });
    assert_eq!(told[0], told[1]);
    told[0].clone()
}

/// Why nothing is recommended; then nobody is told to prefer anything either.
fn refused(snapshot: &Snapshot) -> String {
    let RecommendedTransport { carrier, cipher, megabytes_per_second, reason } =
        recommended(snapshot).unwrap();
    assert_eq!((carrier, cipher, megabytes_per_second), (None, None, None), "{reason}");
    assert_eq!(told(snapshot), (String::new(), String::new()));
    let otherwise = "; each sidecar takes Tcp if the policy lists it, and chooses the cipher by its CPU";
    assert!(reason.ends_with(otherwise), "{reason}");
    reason
}

#[test]
fn the_best_cipher_of_both_pools_is_told_and_explained() {
    let snapshot = both(&[(AES256, 1000), (CHACHA, 500), (AES128, 1500)]);
    assert_eq!(preferred(&snapshot), "Aes128Gcm");
    let told = recommended(&snapshot).unwrap();
    assert_eq!((told.carrier.as_deref(), told.cipher.as_deref()), (Some("Tcp"), Some("Aes128Gcm")));
    assert_eq!(told.megabytes_per_second, Some(1500));
    for part in [
        "Tcp+Aes128Gcm reaches 1500 MB/s from pool one to pool two",
        "Tcp+Aes256Gcm 1000 MB/s",
        "Benchmark bench/nightly, run one-",
        "2026-11-20T23:59:50Z",
    ] {
        assert!(told.reason.contains(part), "{}", told.reason);
    }
    // What is in use is another matter.
    let (_, _, statuses) = run(snapshot);
    assert_eq!(statuses.sessions[0].1.cipher.as_deref(), Some("Aes256Gcm"));
}

#[test]
fn what_the_policy_does_not_list_is_never_recommended() {
    let mut snapshot = both(&[(AES256, 1000), (CHACHA, 500), (AES128, 9000)]);
    listing(&mut snapshot, &["Aes256Gcm", "ChaCha20Poly1305"]);
    assert_eq!(preferred(&snapshot), "Aes256Gcm");
    assert!(!recommended(&snapshot).unwrap().reason.contains("Aes128Gcm"));
    flooring(&mut snapshot, &json!({"ciphers": ["ChaCha20Poly1305"], "carriers": ["Tcp"]}));
    assert_eq!(preferred(&snapshot), "ChaCha20Poly1305");
    let only = recommended(&snapshot).unwrap().reason;
    assert!(only.contains("the only one that spec and TrustPolicy `demo` permit"), "{only}");
    // What was recommended under an earlier policy does not stay either.
    listing(&mut snapshot, &["Aes256Gcm", "Aes128Gcm"]);
    snapshot.sessions[0].status =
        run(snapshot.clone()).2.sessions.into_iter().next().map(|(_, status)| status);
    listing(&mut snapshot, &["Aes256Gcm", "ChaCha20Poly1305"]);
    assert_eq!(preferred(&snapshot), "Aes256Gcm");
    snapshot.policies.clear();
    assert!(refused(&snapshot).contains("TrustPolicy `demo` is not verified"));
}

#[test]
fn a_cipher_is_recommended_by_figures_of_the_carrier_that_the_session_names() {
    let carried_by = |carrier| {
        let past = |cipher| Transport { carrier, cipher };
        let (slow, fast) = (past(Cipher::Aes256Gcm), past(Cipher::ChaCha20Poly1305));
        [(AES256, 9000), (CHACHA, 8000), (slow, 500), (fast, 900)]
    };
    for (choice, carrier) in [(CarrierChoice::Udp, Carrier::Udp), (CarrierChoice::AfXdp, Carrier::AfXdp)] {
        let mut snapshot = both(&carried_by(carrier));
        listing(&mut snapshot, &["Aes256Gcm", "ChaCha20Poly1305"]);
        snapshot.sessions[0].spec.carrier = choice;
        assert_eq!(preferred(&snapshot), "ChaCha20Poly1305", "{carrier}");
        let told = recommended(&snapshot).unwrap();
        assert_eq!((told.carrier.as_deref(), told.megabytes_per_second), (Some(carrier.as_str()), Some(900)));
    }
}

#[test]
fn of_two_pools_the_slower_counts() {
    let fast = [(AES256, 4000), (CHACHA, 3000), (AES128, 5000)];
    let snapshot =
        measured(&[pool("one", &fast), pool("two", &[(AES256, 200), (CHACHA, 900), (AES128, 250)])]);
    assert_eq!(preferred(&snapshot), "ChaCha20Poly1305");
    assert_eq!(recommended(&snapshot).unwrap().megabytes_per_second, Some(900));
}

#[test]
fn replicas_in_several_pools_take_what_is_fastest_for_the_slowest_pair() {
    let fast = [(AES256, 4000), (CHACHA, 1000)];
    let old = [(AES256, 300), (CHACHA, 900)];
    let mut snapshot = measured(&[pool("one", &fast), pool("two", &fast), pool("three", &old)]);
    assert_eq!(preferred(&snapshot), "Aes256Gcm");
    let mut third = crate::reconcile::fixture::pod("ranker", 3);
    third.node = Some("three".to_owned());
    snapshot.pods.push(third);
    assert_eq!(preferred(&snapshot), "ChaCha20Poly1305");
    assert!(recommended(&snapshot).unwrap().reason.contains("to pool three, the slowest of 2 pairs"));
    // A pod that leaves is connected to no more.
    snapshot.pods[2].leaving = true;
    assert_eq!(preferred(&snapshot), "Aes256Gcm");
}

#[test]
fn a_recommendation_stays_until_another_is_better_by_enough() {
    let mut snapshot = both(&[(AES256, 1000), (AES128, 1500)]);
    let status = run(snapshot.clone()).2.sessions.into_iter().next().unwrap().1;
    snapshot.sessions[0].status = Some(status);
    let with =
        |aes256| Snapshot { advice: both(&[(AES256, aes256), (AES128, 1500)]).advice, ..snapshot.clone() };
    assert_eq!(preferred(&with(1649)), "Aes128Gcm");
    assert!(recommended(&with(1649)).unwrap().reason.contains("it stays, because none is better by 10 %"));
    assert_eq!(preferred(&with(1650)), "Aes256Gcm");
}

#[test]
fn stale_figures_are_ignored_and_told_when_their_time_has_come() {
    let mut snapshot = both(&[(AES256, 1000), (AES128, 1500)]);
    let (_, _, statuses) = run(snapshot.clone());
    // They count for 100 seconds, and 10 have passed.
    assert_eq!(statuses.again_in.unwrap().as_secs(), 91);
    snapshot.now = snapshot.now.plus(90);
    assert_eq!(preferred(&snapshot), "Aes128Gcm");
    snapshot.now = snapshot.now.plus(1);
    assert!(refused(&snapshot).contains("what is known of node `one` is stale: Benchmark bench/nightly"));
}

#[test]
fn without_figures_of_every_node_nothing_is_recommended_and_nobody_is_degraded() {
    let figures = [(AES256, 1000), (AES128, 1500)];
    let snapshot = measured(&[pool("one", &figures)]);
    assert!(refused(&snapshot).contains("no Benchmark has measured the transports of node `two`"));
    let (_, _, statuses) = run(snapshot);
    assert_eq!(condition(&statuses.sessions[0].1.conditions, "Degraded"), "False AsDeclared");
    assert_eq!(condition(&statuses.sessions[0].1.conditions, "Ready"), "True Connected");

    let mut unscheduled = both(&figures);
    unscheduled.pods[1].node = None;
    assert!(refused(&unscheduled).contains("no replica of Peer `ranker` has a node yet"));
    let missing = measured(&[pool("one", &figures), pool("two", &[(AES128, 1500)])]);
    assert!(refused(&missing).contains("Tcp+Aes256Gcm has no figure that counts in pool two"));
    let mut off = both(&figures);
    off.advice = Arc::default();
    assert!(refused(&off).contains("this installation runs no Benchmarks"));
}

#[test]
fn nobody_measures_outside_of_the_cluster() {
    let mut snapshot = both(&[(AES256, 1000), (AES128, 1500)]);
    let mut outsider = peer("ranker");
    outsider.spec.selector = None;
    let external = json!({"addresses": ["203.0.113.7:14710"], "publicKey": "0a".repeat(32)});
    outsider.spec.external = Some(serde_json::from_value(external).unwrap());
    snapshot.peers[1] = outsider;
    snapshot.pods.truncate(1);
    snapshot.sidecars.truncate(1);
    assert!(recommended(&snapshot).unwrap().reason.contains("replicas of Peer `ranker` are outside"));
}

#[test]
fn who_names_both_carrier_and_cipher_gets_no_advice() {
    let mut snapshot = both(&[(AES256, 1000), (AES128, 1500)]);
    snapshot.sessions[0].spec.carrier = CarrierChoice::Tcp;
    snapshot.sessions[0].spec.cipher = CipherChoice::Aes256Gcm;
    assert_eq!((recommended(&snapshot), told(&snapshot)), (None, (String::new(), String::new())));
}

fn words(carrier: &str, cipher: &str) -> (String, String) {
    (carrier.to_owned(), cipher.to_owned())
}

#[test]
fn what_the_session_leaves_open_is_chosen_and_nothing_else_is_told() {
    let fast = Transport { cipher: Cipher::Aes128Gcm, ..UDP };
    let mut snapshot = across(&[(AES256, 1000), (AES128, 1200), (UDP, 1500), (fast, 1900)]);
    assert_eq!(told(&snapshot), words("Udp", "Aes128Gcm"));
    snapshot.sessions[0].spec.cipher = CipherChoice::Aes256Gcm;
    assert_eq!(told(&snapshot), words("Udp", ""), "its cipher is named");
    let status = recommended(&snapshot).unwrap();
    assert_eq!((status.carrier.as_deref(), status.cipher.as_deref()), (Some("Udp"), Some("Aes256Gcm")));
    snapshot.sessions[0].spec.cipher = CipherChoice::Auto;
    snapshot.sessions[0].spec.carrier = CarrierChoice::Tcp;
    assert_eq!(told(&snapshot), words("", "Aes128Gcm"), "its carrier is named");
    assert_eq!(recommended(&snapshot).unwrap().carrier.as_deref(), Some("Tcp"));
}

#[test]
fn of_a_session_of_which_one_is_named_the_reason_says_what_happens_to_the_other() {
    let mut snapshot = both(&[]);
    for (carrier, cipher, otherwise) in [
        (CarrierChoice::Auto, CipherChoice::Aes256Gcm, "; each sidecar takes Tcp if the policy lists it"),
        (CarrierChoice::Udp, CipherChoice::Auto, "; each sidecar chooses the cipher by its CPU"),
    ] {
        (snapshot.sessions[0].spec.carrier, snapshot.sessions[0].spec.cipher) = (carrier, cipher);
        let reason = recommended(&snapshot).unwrap().reason;
        assert!(reason.ends_with(otherwise), "{reason}");
    }
}

#[test]
fn a_carrier_that_the_policy_does_not_list_is_never_recommended() {
    let mut snapshot = across(&[(AES256, 1000), (UDP, 9000)]);
    let floors = |carriers: &[&str]| json!({"ciphers": ["Aes256Gcm"], "carriers": carriers});
    flooring(&mut snapshot, &floors(&["Tcp", "AfXdp"]));
    assert_eq!(told(&snapshot), words("Tcp", "Aes256Gcm"));
    flooring(&mut snapshot, &floors(&["Udp"]));
    assert_eq!(told(&snapshot), words("Udp", "Aes256Gcm"));
    flooring(&mut snapshot, &floors(&["AfXdp"]));
    assert!(refused(&snapshot).contains("nothing is permitted"));
}

#[test]
fn af_xdp_is_recommended_to_nobody_who_does_not_name_it() {
    let past_kernel = Transport { carrier: Carrier::AfXdp, ..UDP };
    let mut snapshot = across(&[(AES256, 1000), (UDP, 500), (past_kernel, 9000)]);
    listing(&mut snapshot, &["Aes256Gcm"]);
    assert_eq!(told(&snapshot), words("Tcp", "Aes256Gcm"));
    assert!(!recommended(&snapshot).unwrap().reason.contains("AfXdp"));
}

#[test]
fn a_carrier_stays_until_the_other_is_better_by_enough() {
    let mut snapshot = across(&[(AES256, 1000), (UDP, 1099)]);
    listing(&mut snapshot, &["Aes256Gcm"]);
    assert_eq!(told(&snapshot), words("Tcp", "Aes256Gcm"));
    let with = |snapshot: &Snapshot, tcp, udp| Snapshot {
        advice: across(&[(AES256, tcp), (UDP, udp)]).advice,
        ..snapshot.clone()
    };
    assert_eq!(told(&with(&snapshot, 1000, 1100)), words("Udp", "Aes256Gcm"));
    snapshot = with(&snapshot, 1000, 1100);
    snapshot.sessions[0].status =
        run(snapshot.clone()).2.sessions.into_iter().next().map(|(_, status)| status);
    assert_eq!(told(&with(&snapshot, 1209, 1100)), words("Udp", "Aes256Gcm"));
    assert_eq!(told(&with(&snapshot, 1210, 1100)), words("Tcp", "Aes256Gcm"));
}

#[test]
fn a_carrier_is_recommended_only_where_it_was_measured_over_the_network() {
    let within = [(AES256, 1000), (UDP, 5000)];
    let pools = ["one", "two"].map(|name| pool(name, &within));
    let mut snapshot = measured(&pools);
    listing(&mut snapshot, &["Aes256Gcm"]);
    assert_eq!(told(&snapshot), words("Tcp", "Aes256Gcm"), "what a node does within itself is no network");
    flooring(&mut snapshot, &json!({"ciphers": ["Aes256Gcm"], "carriers": ["Udp"]}));
    assert_eq!(told(&snapshot), words("Udp", "Aes256Gcm"), "there is nothing to compare");
    listing(&mut snapshot, &["Aes256Gcm"]);
    let between = figures("one → two", NOW - 5, &[(AES256, 300)]);
    snapshot.advice = advising(&pools, vec![("one".to_owned(), "two".to_owned(), between)]);
    assert_eq!(told(&snapshot), words("Tcp", "Aes256Gcm"));
    assert_eq!(recommended(&snapshot).unwrap().megabytes_per_second, Some(300));
    snapshot.advice = across(&within).advice;
    assert_eq!(told(&snapshot), words("Udp", "Aes256Gcm"));
}

#[test]
fn a_new_leader_takes_nothing_back_before_it_has_read() {
    let mut snapshot = both(&[(AES256, 1000), (AES128, 1500)]);
    let before = recommended(&snapshot);
    snapshot.sessions[0].status =
        run(snapshot.clone()).2.sessions.into_iter().next().map(|(_, status)| status);
    snapshot.advice = Arc::new(Advice::pending());
    assert_eq!((recommended(&snapshot), preferred(&snapshot).as_str()), (before, "Aes128Gcm"));
    listing(&mut snapshot, &["Aes256Gcm", "ChaCha20Poly1305"]);
    assert_eq!(
        (recommended(&snapshot), preferred(&snapshot).as_str()),
        (None, ""),
        "the policy counts at once"
    );
}

#[test]
fn reasons_are_bounded() {
    let many: Vec<Pool> = (0..40)
        .map(|number| {
            pool(&format!("{}-{number}", "long".repeat(50)), &[(AES256, 1000 + number), (AES128, 1)])
        })
        .collect();
    let mut snapshot = measured(&many);
    snapshot.pods[0].node = Some(many[0].1[0].clone());
    for (number, (_, nodes)) in (3..).zip(&many) {
        let mut pod = crate::reconcile::fixture::pod("ranker", number);
        pod.node = nodes.first().cloned();
        snapshot.pods.push(pod);
    }
    snapshot.pods.remove(1);
    let told = recommended(&snapshot).unwrap();
    assert_eq!((told.cipher.as_deref(), told.reason.chars().count()), (Some("Aes256Gcm"), 512));
}

#[test]
fn what_was_measured_between_two_pools_counts_more_than_what_each_does_by_itself() {
    let pools = [("one", [(AES256, 1000), (CHACHA, 400)]), ("two", [(AES256, 1000), (CHACHA, 400)])];
    let pools = pools.map(|(name, transports)| pool(name, &transports));
    let mut snapshot = measured(&pools);
    let between = figures("one → two", NOW - 5, &[(AES256, 300), (CHACHA, 350)]);
    snapshot.advice = advising(&pools, vec![("one".to_owned(), "two".to_owned(), between)]);
    assert_eq!(preferred(&snapshot), "ChaCha20Poly1305");
    let told = recommended(&snapshot).unwrap();
    assert_eq!(told.megabytes_per_second, Some(350));
    assert!(
        told.reason.contains("from pool one to pool two") && told.reason.contains("one → two-"),
        "{}",
        told.reason
    );
}

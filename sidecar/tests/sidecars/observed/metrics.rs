//! What `/metrics` says of two sidecars that exchange tensors.

use std::collections::BTreeMap;

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::support::{Plan, Sidecar, document, pair, signed, until, within};

/// Samples by name and labels.
fn samples(sidecar: &Sidecar) -> BTreeMap<String, f64> {
    let text = sidecar.node.render_metrics().unwrap();
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
}

/// The one sample whose name and labels begin so.
fn value(sidecar: &Sidecar, beginning: &str) -> Option<f64> {
    samples(sidecar).into_iter().find(|(name, _)| name.starts_with(beginning)).map(|(_, value)| value)
}

/// Names of metrics that the documentation lists, as an exposition's `TYPE` lines have them.
fn documented() -> Vec<String> {
    let page = include_str!("../../../../docs/metrics.md");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `sealane_"));
    let names = cells.filter_map(|rest| rest.split_once('`')).map(|(name, _)| name);
    names.map(|name| format!("sealane_{}", name.strip_suffix("_total").unwrap_or(name))).collect()
}

#[tokio::test]
async fn two_sidecars_count_what_they_exchange_and_expose_nothing_undocumented() {
    let (sending, receiving) = pair();
    let (lane, events) = sender(&sending.lanes).await;
    passing_on(events);
    let mut taking = Receiver::open(&receiving.lanes, 1 << 20).await;
    for sequence in 0..3 {
        lane.offer(parcel(sequence, 1000)).await.unwrap();
        assert_eq!(taking.next_taken().await, sequence);
    }
    within("the news", lane.flush()).await.unwrap();
    let (from, to) = (
        r#"{session="activations",direction="sending"}"#,
        r#"{session="activations",direction="receiving"}"#,
    );
    for (sidecar, labels, role) in [(&sending, from, "initiator"), (&receiving, to, "responder")] {
        let is = |name: &str, expected: f64| {
            assert_eq!(value(sidecar, &format!("{name}{labels}")), Some(expected), "{name}{labels}");
        };
        is("sealane_tensors_total", 3.0);
        is("sealane_payload_bytes_total", 3000.0);
        is("sealane_uncertain_tensors_total", 0.0);
        is("sealane_lanes", 1.0);
        is("sealane_lanes_opened_total", 1.0);
        is("sealane_connections", 1.0);
        is("sealane_connections_established_total", 1.0);
        let established = format!(r#"sealane_handshakes_total{{role="{role}",outcome="established""#);
        assert_eq!(value(sidecar, &established), Some(1.0));
        assert_eq!(value(sidecar, "sealane_policy_epoch"), Some(1.0));
        assert_eq!(value(sidecar, "sealane_policy_verified"), Some(1.0));
        until("evidence of its own", || value(sidecar, "sealane_evidence_verified") == Some(1.0)).await;
        let info = r#"sealane_evidence_info{platform="Simulated",assurance="Simulated""#;
        assert_eq!(value(sidecar, info), Some(1.0));
        let accepted = r#"sealane_verifications_total{outcome="accepted""#;
        assert_eq!(value(sidecar, accepted), Some(1.0));
        assert!(value(sidecar, "sealane_process_resident_memory_bytes").unwrap() > 0.0);
        let documented = documented();
        let text = sidecar.node.render_metrics().unwrap();
        let exposed = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        for name in exposed {
            assert!(documented.iter().any(|known| known == name), "{name} is not in docs/metrics.md");
        }
        assert!(!text.contains("layer0"), "a tensor's name is in the metrics");
    }
    assert_eq!(value(&sending, r#"sealane_dials_total{outcome="connected"}"#), Some(1.0));
}

#[tokio::test]
async fn refusals_and_ends_carry_their_reason() {
    let receiving = Plan::receiver().start();
    let imposter = Plan { proves: "ranker", ..Plan::sender(&[receiving.address]) }.start();
    let refused = r#"sealane_handshakes_total{role="responder",outcome="refused",reason="HostDataMismatch"}"#;
    until("a refusal", || value(&receiving, refused).is_some()).await;
    let verdict = r#"sealane_verifications_total{outcome="refused",reason="HostDataMismatch"}"#;
    assert!(value(&receiving, verdict).is_some());
    assert!(value(&imposter, "sealane_evidence_verified") == Some(0.0));
    assert_eq!(value(&imposter, "sealane_evidence_age_seconds"), None, "an age of nothing is no zero");
    drop(imposter);

    let sending = Plan { pod: "embedder-1", uid: "e1", ..Plan::sender(&[receiving.address]) }.start();
    let established = r#"sealane_connections_established_total{session="activations",direction="receiving"}"#;
    until("a connection", || value(&receiving, established) == Some(1.0)).await;
    sending.drain();
    let ended =
        r#"sealane_connections_ended_total{session="activations",direction="receiving",reason="Draining"}"#;
    until("its end", || value(&receiving, ended) == Some(1.0)).await;
}

#[tokio::test]
async fn a_policy_that_is_refused_is_told_while_the_one_before_stays() {
    let sidecar = Plan::receiver().start();
    sidecar.propose(signed(&document(2), &[1]));
    let refused = r#"sealane_policy_refused{reason="PolicyUnderSigned"}"#;
    until("the refusal", || value(&sidecar, refused) == Some(1.0)).await;
    assert_eq!(value(&sidecar, "sealane_policy_epoch"), Some(1.0));
    assert!(value(&sidecar, "sealane_policy_expires_timestamp_seconds").is_some());
    sidecar.propose(signed(&document(2), &[1, 2]));
    until("the next epoch", || value(&sidecar, "sealane_policy_epoch") == Some(2.0)).await;
    assert_eq!(value(&sidecar, refused), None);
}

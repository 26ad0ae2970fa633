use std::collections::BTreeSet;

use prometheus_client::metrics::counter::Counter;
use sealane_protocol::datagram::{PathCounts, PathFigures, RoundTrip};
use sealane_types::{CongestionControl, Reason};

use super::labels::{
    DoorLabel, EvidenceLabels, FateLabel, HandshakeLabels, KindLabel, LaneFailureLabels, ModeLabel,
    OutcomeLabel, SideLabel, SourceLabel, TurnedAwayLabels, VerdictLabels, Way,
};
use super::*;
use crate::desired::Direction;

fn session(name: &str) -> SessionLabels {
    SessionLabels::new(&name.parse().unwrap(), Direction::Sending)
}

/// One of everything. Taken apart without `..`, so that no metric can be forgotten: one that is not touched is in no
/// exposition, and so would be missing from the documentation.
fn touched() -> Metrics {
    let metrics = Metrics::new(UnixSeconds(1_800_000_000));
    let Metrics {
        registry: _,
        sessions: _,
        connections,
        handshakes,
        proofs,
        collateral,
        state,
        control,
        lanes,
        traffic,
        pipes,
        paths,
        door,
        spans,
    } = &metrics;
    touch_sessions(connections, lanes, traffic, pipes);
    touch_paths(paths);
    let Handshakes { ended, seconds, under_way, turned_away, dials, resumed, tickets } = handshakes;
    ended.get_or_create(&HandshakeLabels::refused("initiator", Reason::TcbTooLow)).inc();
    seconds.observe(0.01);
    resumed.get_or_create(&HandshakeLabels::established("initiator")).inc();
    tickets.get_or_create(&KindLabel { kind: "held" }).set(1);
    under_way.get_or_create(&SourceLabel { source: "known" }).set(1);
    turned_away.get_or_create(&TurnedAwayLabels::new(Reason::LimitExceeded, "Rate")).inc();
    dials.get_or_create(&OutcomeLabel { outcome: "connected" }).inc();
    let Proofs { quotes, quote_seconds, quote_handshakes, verdicts, verification_seconds } = proofs;
    quotes.get_or_create(&OutcomeLabel { outcome: "made" }).inc();
    quote_seconds.observe(Duration::from_millis(8).as_secs_f64());
    quote_handshakes.observe(3.0);
    verdicts.get_or_create(&VerdictLabels::of::<()>(&Err(Reason::TcbTooLow))).inc();
    verification_seconds.observe(0.001);
    let Collateral { bundles, fetches: _, pieces, expires, issued } = collateral;
    collateral.fetched(&sealane_attestation::PieceId::QeIdentity, true);
    bundles.get_or_create(&OutcomeLabel { outcome: "taken" }).inc();
    pieces.get_or_create(&KindLabel { kind: "snp_list" }).set(1);
    expires.get_or_create(&KindLabel { kind: "snp_list" }).set(1_800_000_000);
    tell(issued, Some(1_800_000_000.0));
    touch_state(state);
    let Control { connected, streams, generation, configurations } = control;
    connected.set(1);
    streams.get_or_create(&OutcomeLabel { outcome: "attached" }).inc();
    generation.set(4);
    configurations.get_or_create(&OutcomeLabel { outcome: "applied" }).inc();
    touch_door(door);
    let Spans { ended } = spans;
    ended.get_or_create(&OutcomeLabel { outcome: "dropped" }).inc();
    metrics
}

fn touch_sessions(connections: &Connections, lanes: &Lanes, traffic: &Traffic, pipes: &Pipes) {
    let labels = session("activations");
    let because = labels.clone().because(Reason::LinkLost);
    let Connections { open, desired, established, ended, reattested, rekeys } = connections;
    open.get_or_create(&labels).set(1);
    desired.get_or_create(&labels).set(1);
    established.get_or_create(&labels).inc();
    reattested.get_or_create(&labels).inc();
    ended.get_or_create(&because).inc();
    rekeys.get_or_create(&Way::Sent.into()).inc();
    let Lanes { open, opened, failed } = lanes;
    open.get_or_create(&labels).set(1);
    opened.get_or_create(&labels).inc();
    failed.get_or_create(&LaneFailureLabels::new(Direction::Sending, Reason::NoReplicas)).inc();
    let Traffic { tensors, bytes, striped, uncertain, interrupted } = traffic;
    for family in [tensors, bytes, striped, uncertain, interrupted] {
        family.get_or_create(&labels).inc();
    }
    let Pipes { open, opened, refused, reset, bytes } = pipes;
    open.get_or_create(&labels).set(1);
    opened.get_or_create(&labels).inc();
    refused.get_or_create(&because).inc();
    reset.get_or_create(&because).inc();
    bytes.get_or_create(&labels.way(Way::Sent)).inc();
}

/// As measured, of a path that lost two of so many datagrams.
fn figures(sent: u64, smoothed_micros: u64, datagram_bytes: u16) -> PathFigures {
    PathFigures {
        counts: PathCounts { sent, lost: 2, late: 1, moves: 1 },
        round_trip: Some(RoundTrip { smoothed_micros, min_micros: smoothed_micros / 2 }),
        datagram_bytes,
        window_bytes: 12_000,
        congestion: CongestionControl::Bbr,
    }
}

fn touch_paths(paths: &Paths) {
    let watched = paths.watch(session("activations"), figures(90, 4_000, 1_472));
    paths.look();
    drop(watched);
}

fn touch_state(state: &State) {
    let State {
        degraded,
        evidence_verified,
        evidence_age,
        evidence_expires,
        evidence,
        policy_verified,
        policy_epoch,
        policy_expires,
        policy_refused,
        device,
        device_packets,
    } = state;
    device.get_or_create(&ModeLabel { mode: "Generic" }).set(1);
    device_packets.get_or_create(&FateLabel { fate: "sent" }).set(1);
    degraded.get_or_create(&Reason::ClockSuspect.into()).set(1);
    policy_refused.get_or_create(&Reason::PolicyConflict.into()).set(1);
    evidence
        .get_or_create(&EvidenceLabels { platform: "SevSnp", assurance: "Pod", tcb_status: "UpToDate" })
        .set(1);
    for gauge in [evidence_verified, policy_verified, policy_epoch] {
        gauge.set(1);
    }
    for value in [evidence_age, evidence_expires, policy_expires] {
        tell(value, Some(12.0));
    }
}

fn touch_door(door: &Door) {
    let Door { clients, turned_away, faults, segments, arena, arena_limit, arena_full, waits, wait_seconds } =
        door;
    clients.get_or_create(&DoorLabel { door: "socket" }).set(1);
    turned_away.get_or_create(&DoorLabel { door: "socket" }).inc();
    faults.get_or_create(&KindLabel { kind: "Window" }).inc();
    let put = SideLabel { side: "put" };
    segments.get_or_create(&put).set(1);
    arena.get_or_create(&put).set(65_536);
    arena_limit.set(1 << 29);
    arena_full.get_or_create(&put).inc();
    waits.inc();
    wait_seconds.inc_by(0.5);
}

#[test]
fn series_carry_the_prefix_and_their_labels() {
    let text = touched().render().unwrap();
    for line in [
        r#"sealane_handshakes_total{role="initiator",outcome="refused",reason="TcbTooLow"} 1"#,
        r#"sealane_pipe_bytes_total{session="activations",direction="sending",way="sent"} 1"#,
        r#"sealane_connections{session="activations",direction="sending"} 1"#,
        "sealane_process_start_time_seconds 1800000000.0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_documentation_lists_every_metric_and_no_other() {
    let page = include_str!("../../../docs/metrics.md");
    let ours = |line: &&str| line.starts_with("| `sealane_") && !line.starts_with("| `sealane_operator_");
    let documented: BTreeSet<_> = page.lines().filter(ours).map(str::to_owned).collect();
    let exposed: BTreeSet<_> = rows(&touched().render().unwrap()).into_iter().collect();
    let missing: Vec<_> = exposed.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&exposed).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "add to docs/metrics.md {missing:#?}\nand remove {stale:#?}"
    );
}

/// The rows of the documentation that an exposition makes: name, type, labels and help text.
fn rows(exposition: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut help = "";
    for line in exposition.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').unwrap().1;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let suffix = if kind == "counter" { "_total" } else { "" };
            let labels = label_names(exposition, name);
            rows.push(format!("| `{name}{suffix}` | {kind} | {labels} | {help} |"));
        }
    }
    rows
}

fn label_names(exposition: &str, name: &str) -> String {
    // A gauge has no suffix, a counter one, and a histogram several.
    let ends = ["", "_total", "_sum"];
    let of_it = |line: &&str| {
        let rest = line.strip_prefix(name).unwrap_or("?");
        ends.iter().any(|end| rest.strip_prefix(end).is_some_and(|rest| rest.starts_with([' ', '{'])))
    };
    let sample = exposition.lines().find(of_it).unwrap();
    let inside =
        sample.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(inside, _)| inside);
    let names = inside.split(',').filter_map(|pair| pair.split_once('=')).map(|(label, _)| label);
    let shown: Vec<_> = names.filter(|label| *label != "le").map(|label| format!("`{label}`")).collect();
    shown.join(" ")
}

#[test]
fn series_of_sessions_that_are_gone_are_dropped_after_one_more_look() {
    let metrics = Metrics::new(UnixSeconds(0));
    let (kept, gone) = (session("kept"), session("gone"));
    let count = |labels: &SessionLabels| {
        let opened: &Family<SessionLabels, Counter> = &metrics.lanes.opened;
        opened.get_or_create(labels).inc();
        metrics.connections.ended.get_or_create(&labels.clone().because(Reason::Finished)).inc();
    };
    count(&kept);
    count(&gone);
    let shown = |name: &str| metrics.render().unwrap().contains(&format!("session=\"{name}\""));
    let began = Instant::now();
    metrics.keep_sessions(&[kept.clone(), gone.clone()], began);
    let look = |now: Instant| metrics.keep_sessions(std::slice::from_ref(&kept), now);
    look(began);
    assert!(shown("gone"), "its connections and lanes may still have something to count");
    count(&gone);
    look(began);
    assert!(shown("kept") && !shown("gone"));
    // A connection that took seconds to end.
    count(&gone);
    look(began + Duration::from_secs(5));
    assert!(!shown("gone"));
    look(began + LATE_COUNTS);
    assert!(!metrics.sessions.lock().unwrap().contains_key(&gone), "names do not pile up");
    metrics.keep_sessions(&[kept.clone(), gone.clone()], began);
    count(&gone);
    look(began);
    assert!(shown("gone"), "a session of that name that came back is another one");
}

#[test]
fn paths_of_a_session_are_told_by_their_sum_and_by_the_worst() {
    let metrics = Metrics::new(UnixSeconds(0));
    let at = session("activations");
    let value = |name: &str| {
        metrics.paths.look();
        let text = metrics.render().unwrap();
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.rsplit_once(' ')?.1.parse::<f64>().ok())
    };
    let near = metrics.paths.watch(at.clone(), figures(10, 200, 1_452));
    let far = metrics.paths.watch(at.clone(), figures(20, 30_000, 8_952));
    assert_eq!(value("sealane_path_round_trip_seconds"), Some(0.03));
    assert_eq!(value("sealane_path_round_trip_min_seconds"), Some(0.015));
    assert_eq!(value("sealane_path_datagram_bytes"), Some(1_452.0));
    assert_eq!(value("sealane_path_window_bytes"), Some(24_000.0));
    let stream = metrics.paths.watch_stream(at.clone(), "reno".to_owned());
    let under = |congestion: &str| {
        let labels = "session=\"activations\",direction=\"sending\"";
        value(&format!("sealane_path_congestion_control{{{labels},congestion=\"{congestion}\"}}"))
    };
    assert_eq!((under("Bbr"), under("reno"), under("Cubic")), (Some(2.0), Some(1.0), None));
    drop(stream);
    assert_eq!((under("Bbr"), under("reno")), (Some(2.0), None));
    near.tell(figures(15, 200, 1_452));
    drop(far);
    let fate = |fate: &str| {
        value(&format!(
            "sealane_path_datagrams_total{{session=\"activations\",direction=\"sending\",fate=\"{fate}\"}}"
        ))
    };
    assert_eq!((fate("sent"), fate("lost"), fate("late")), (Some(35.0), Some(4.0), Some(2.0)));
    assert_eq!(value("sealane_path_moves_total"), Some(2.0));
    assert_eq!(value("sealane_path_round_trip_seconds"), Some(0.000_2), "the other one is gone");
    drop(near);
    assert_eq!((value("sealane_path_window_bytes"), fate("sent")), (None, Some(35.0)));
    metrics.keep_sessions(std::slice::from_ref(&at), Instant::now());
    metrics.keep_sessions(&[], Instant::now());
    metrics.keep_sessions(&[], Instant::now());
    assert_eq!((fate("sent"), value("sealane_path_moves_total")), (None, None));
}

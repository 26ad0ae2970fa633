//! Sessions over UDP. What every session does is tried over it with `SEALANE_TEST_CARRIER=Udp` for all of these tests; here
//! is what is different.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use sealane_protocol::Moment;
use sealane_protocol::datagram::{Greeter, Greeting, ResetKey};
use sealane_protocol::keys::Secret;
use sealane_sidecar::desired::Desired;
use sealane_sidecar::handoff::LaneFailure;
use sealane_types::{Carrier, CongestionChoice, Reason};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Receiver, cross, parcel, passing_on, sender};
use crate::device::metric;
use crate::strangers::Os;
use crate::support::{Plan, Sidecar, document, loopback, signed, tell, until, within};
use crate::trust::refused_for;

const UDP: Option<Carrier> = Some(Carrier::Udp);

/// Whose policy lists no other carrier: whatever crosses, crosses UDP.
fn pair() -> (Sidecar, Sidecar) {
    let chain = signed(&listing(1, &["Udp"]), &[1, 2]);
    let receiver = Plan { carrier: UDP, chain: chain.clone(), ..Plan::receiver() }.start();
    let sender = Plan { carrier: UDP, chain, ..Plan::sender(&[receiver.address]) }.start();
    (sender, receiver)
}

/// A policy whose owners permit only these carriers.
pub(crate) fn listing(epoch: u64, carriers: &[&str]) -> Value {
    let mut document = document(epoch);
    document["floors"] = json!({"carriers": carriers});
    document
}

#[tokio::test]
async fn tensors_of_every_size_cross_udp() {
    let (from, to) = pair();
    let sizes = [0_u64, 1, 1536, 65_536, 65_537, (1 << 20) + 1, 24 << 20, 3];
    cross(&from, &to, &sizes).await;
}

/// Samples of paths that are told, with their values.
fn paths(sidecar: &Sidecar) -> BTreeMap<String, f64> {
    let text = sidecar.node.render_metrics().unwrap();
    let sample = |line: &str| {
        let (name, value) = line.strip_prefix("sealane_path_")?.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(sample).collect()
}

#[tokio::test]
async fn what_a_path_does_is_told_until_its_session_is_over() {
    let (from, to) = pair();
    cross(&from, &to, &[24 << 20, 3]).await;
    for (sidecar, direction, sent_min) in [(&from, "sending", 300.0), (&to, "receiving", 0.0)] {
        let labels = format!(r#"session="activations",direction="{direction}""#);
        let told = |name: &str| paths(sidecar).get(&format!("{name}{{{labels}}}")).copied();
        let fate = |fate: &str| {
            paths(sidecar).get(&format!(r#"datagrams_total{{{labels},fate="{fate}"}}"#)).copied().unwrap()
        };
        // What is told is of a second ago at most.
        until("datagrams", || fate("sent") > sent_min).await;
        assert!(fate("lost") < fate("sent") && fate("late") <= fate("lost"));
        until("a larger datagram", || told("datagram_bytes") > Some(1_200.0)).await;
        let (trip, least) = (told("round_trip_seconds").unwrap(), told("round_trip_min_seconds").unwrap());
        assert!(0.0 < least && least <= trip && trip < 60.0, "{trip} s, at least {least} s");
        assert!(told("window_bytes") > Some(1_200.0));
        let under = format!(r#"congestion_control{{{labels},congestion="Cubic"}}"#);
        assert_eq!(paths(sidecar).get(&under), Some(&1.0), "loopback loses nothing by chance");
        assert_eq!(told("moves_total"), Some(0.0));
    }
    for sidecar in [&from, &to] {
        sidecar.apply(Desired { generation: 2, sessions: vec![], ..sidecar.plan.desired() });
        until("nothing of it", || paths(sidecar).is_empty()).await;
    }
}

#[tokio::test]
async fn of_a_path_that_the_kernel_looks_after_its_congestion_control_is_told() {
    let tcp = Some(Carrier::Tcp);
    let to = Plan { carrier: tcp, ..Plan::receiver() }.start();
    let from = Plan { carrier: tcp, ..Plan::sender(&[to.address]) }.start();
    cross(&from, &to, &[1536]).await;
    let kernels = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    for (sidecar, direction) in [(&from, "sending"), (&to, "receiving")] {
        let labels =
            format!(r#"session="activations",direction="{direction}",congestion="{}""#, kernels.trim());
        let told = BTreeMap::from([(format!("congestion_control{{{labels}}}"), 1.0)]);
        until("the kernel's word", || paths(sidecar) == told).await;
    }
}

/// The congestion control that both sides tell of.
async fn both_under(from: &Sidecar, to: &Sidecar, word: &str) {
    for (sidecar, direction) in [(from, "sending"), (to, "receiving")] {
        let name = format!(
            r#"congestion_control{{session="activations",direction="{direction}",congestion="{word}"}}"#
        );
        until(word, || paths(sidecar).get(&name) == Some(&1.0)).await;
    }
}

/// Both sides send, so both take what the session asks for, and who is dialled learns of the session only when it is there.
#[tokio::test]
async fn both_sides_of_a_session_take_the_congestion_control_that_it_asks_for() {
    let chain = signed(&listing(1, &["Udp"]), &[1, 2]);
    let bbr = CongestionChoice::Bbr;
    let to = Plan { carrier: UDP, congestion: bbr, chain: chain.clone(), ..Plan::receiver() }.start();
    let from = Plan { carrier: UDP, congestion: bbr, chain, ..Plan::sender(&[to.address]) }.start();
    cross(&from, &to, &[0, 1536, 8 << 20]).await;
    both_under(&from, &to, "Bbr").await;
}

#[tokio::test]
async fn an_open_connection_keeps_to_the_congestion_controls_that_are_listed_by_now() {
    let listed = |epoch, words: &[&str]| {
        let mut document = document(epoch);
        document["floors"] = json!({"carriers": ["Udp"], "congestion": words});
        signed(&document, &[1, 2])
    };
    let (chain, auto) = (listed(1, &["Cubic", "Bbr"]), CongestionChoice::Auto);
    let to = Plan { carrier: UDP, congestion: auto, chain: chain.clone(), ..Plan::receiver() }.start();
    let from = Plan { carrier: UDP, congestion: auto, chain, ..Plan::sender(&[to.address]) }.start();
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    both_under(&from, &to, "Cubic").await;
    to.propose(listed(2, &["Bbr"]));
    for sequence in 1..100 {
        lane.offer(parcel(sequence, 1000)).await.unwrap();
        assert_eq!(receiver.next_taken().await, sequence);
    }
    both_under(&from, &to, "Bbr").await;
    assert_eq!(metric(&from, DIALS), Some(1), "nothing was cut");
}

#[tokio::test]
async fn a_congestion_control_that_the_policy_does_not_list_is_refused_by_either_side() {
    let listed = |epoch, word: &str| {
        let mut document = document(epoch);
        document["floors"] = json!({"carriers": ["Udp"], "congestion": [word]});
        signed(&document, &[1, 2])
    };
    let bbr = CongestionChoice::Bbr;
    let to = Plan { carrier: UDP, chain: listed(1, "Cubic"), ..Plan::receiver() }.start();
    let from =
        Plan { carrier: UDP, congestion: bbr, chain: listed(1, "Cubic"), ..Plan::sender(&[to.address]) }
            .start();
    let error = refused_for(&from, Reason::CongestionRefused).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
    // Who is dialled looks for itself.
    let to = Plan { carrier: UDP, congestion: bbr, chain: listed(2, "Cubic"), ..Plan::receiver() }.start();
    let from = Plan { carrier: UDP, chain: listed(2, "Cubic"), ..Plan::sender(&[to.address]) }.start();
    refused_for(&from, Reason::CongestionRefused).await;
}

/// Whose policy lists no other carrier, and whose receiver remembers, in `state`, how it ends connections.
fn remembering(state: &TempDir) -> (Sidecar, Sidecar) {
    let chain = signed(&listing(1, &["Udp"]), &[1, 2]);
    let state = Some(state.path().to_owned());
    let receiver = Plan { carrier: UDP, chain: chain.clone(), state, ..Plan::receiver() }.start();
    let sender = Plan { carrier: UDP, chain, ..Plan::sender(&[receiver.address]) }.start();
    (sender, receiver)
}

/// What a sidecar's data port answers to a packet that is for no connection of its own.
async fn answer_to_a_stranger(sidecar: &Sidecar) -> Vec<u8> {
    let stranger = UdpSocket::bind(loopback()).await.unwrap();
    let mut answer = [0; 64];
    let length = within("an answer", async {
        stranger.send_to(&[&[0x40][..], &[7; 8], &[0; 40]].concat(), sidecar.address).await.unwrap();
        stranger.recv(&mut answer).await.unwrap()
    });
    let length = length.await;
    answer[..length].to_vec()
}

/// A sidecar that comes back ends the connections of old packets. How long it took is told: nobody waits for the 20 s of
/// silence that end any connection.
#[tokio::test]
async fn a_restarted_receiver_is_found_again() {
    let state = tempfile::tempdir().unwrap();
    let (from, to) = remembering(&state);
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    within("taken", lane.flush()).await.unwrap();
    drop(receiver);
    let answer = answer_to_a_stranger(&to).await;
    let began = std::time::Instant::now();
    let to = to.kill().start();
    assert_eq!(answer_to_a_stranger(&to).await, answer, "it ends what its predecessor began");
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(1, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 1);
    tell(&format!("from the end of a receiver to a tensor at the next one: {:?}", began.elapsed()));
}

/// Carries datagrams of one connection from whoever dials `near` to `far` and back, and keeps the last packet each way.
struct Tap {
    near: Arc<UdpSocket>,
    far: Arc<UdpSocket>,
    dialler: watch::Receiver<Option<SocketAddr>>,
    there: watch::Receiver<Vec<u8>>,
    back: watch::Receiver<Vec<u8>>,
    _tasks: JoinSet<()>,
}

impl Tap {
    /// A tap, and where it is dialled.
    async fn before(to: SocketAddr) -> (Self, SocketAddr) {
        let near = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
        let far = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
        far.connect(to).await.unwrap();
        let (dialled, dialler) = watch::channel(None);
        let ((kept_there, there), (kept_back, back)) =
            (watch::channel(Vec::new()), watch::channel(Vec::new()));
        let mut tasks = JoinSet::new();
        let (from, to) = (Arc::clone(&near), Arc::clone(&far));
        tasks.spawn(async move {
            let mut datagram = vec![0; 65_536];
            while let Ok((length, source)) = from.recv_from(&mut datagram).await {
                dialled.send_replace(Some(source));
                keep(&kept_there, &datagram[..length]);
                // What is lost is sent again.
                let _ = to.send(&datagram[..length]).await;
            }
        });
        let (from, to, source) = (Arc::clone(&far), Arc::clone(&near), dialler.clone());
        tasks.spawn(async move {
            let mut datagram = vec![0; 65_536];
            while let Ok(length) = from.recv(&mut datagram).await {
                keep(&kept_back, &datagram[..length]);
                let source = *source.borrow();
                let _ = to.send_to(&datagram[..length], source.unwrap()).await;
            }
        });
        let address = near.local_addr().unwrap();
        (Self { near, far, dialler, there, back, _tasks: tasks }, address)
    }

    /// A packet of the connection that goes there, or comes back.
    async fn packet(packets: &watch::Receiver<Vec<u8>>) -> Vec<u8> {
        let mut packets = packets.clone();
        within("a packet", packets.wait_for(|packet| packet.len() > 40)).await.unwrap().clone()
    }
}

fn keep(kept: &watch::Sender<Vec<u8>>, datagram: &[u8]) {
    let is_packet = datagram[0] & 0x80 == 0;
    if is_packet {
        kept.send_replace(datagram.to_vec());
    }
}

const DIALS: &str = r#"sealane_dials_total{outcome="connected"} "#;

/// The token that a receiver told is the one that its data port makes after a restart: it ends a connection over which both
/// sides go on talking.
#[tokio::test]
async fn a_receiver_tells_how_it_ends_a_connection() {
    let chain = signed(&listing(1, &["Udp"]), &[1, 2]);
    let state = tempfile::tempdir().unwrap();
    let own = Some(state.path().to_owned());
    let to = Plan { carrier: UDP, chain: chain.clone(), state: own, ..Plan::receiver() }.start();
    let (tap, address) = Tap::before(to.address).await;
    let from = Plan { carrier: UDP, chain, ..Plan::sender(&[address]) }.start();
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    let mut secret = std::fs::read(state.path().join("reset.key")).unwrap().try_into().unwrap();
    let key = ResetKey::new(&Secret::take(&mut secret), to.address.port());
    let successor = Greeter::new(&mut Os).unwrap().with_resets(key);
    let packet = Tap::packet(&tap.there).await;
    let (now, mut reset) = (Moment::from_micros(0), [0; 64]);
    let Greeting::Answer(length) = successor.greet(now, to.address, &packet, &mut reset) else {
        panic!("it has no such connection")
    };
    let dialler = tap.dialler.borrow().unwrap();
    tap.near.send_to(&reset[..length], dialler).await.unwrap();
    until("another connection", || metric(&from, DIALS) == Some(2)).await;
}

/// Who is on the path sees how a dialler calls its connection, and that sidecar's data port answers whoever names to it a
/// connection which it does not have. What it answers must not end the connection, which was dialled from another port.
#[tokio::test]
async fn a_data_port_tells_nobody_how_to_end_what_was_dialled_from_another() {
    let chain = signed(&listing(1, &["Udp"]), &[1, 2]);
    let to = Plan { carrier: UDP, chain: chain.clone(), ..Plan::receiver() }.start();
    let (tap, address) = Tap::before(to.address).await;
    let from = Plan { carrier: UDP, chain, ..Plan::sender(&[address]) }.start();
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    let packet = Tap::packet(&tap.back).await;
    let attacker = UdpSocket::bind(loopback()).await.unwrap();
    attacker.send_to(&packet, from.address).await.unwrap();
    let mut answer = [0; 64];
    let length = within("an answer", attacker.recv(&mut answer)).await.unwrap();
    assert_eq!((&answer[..2], &answer[2..10]), (&[0x83, 1][..], &packet[1..9]), "it ends that connection");
    tap.far.send(&answer[..length]).await.unwrap();
    lane.offer(parcel(1, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 1);
    assert_eq!(metric(&from, DIALS), Some(1), "nothing was cut");
}

#[tokio::test]
async fn a_carrier_that_the_policy_does_not_list_is_refused_and_no_other_takes_its_place() {
    let chain = signed(&listing(1, &["Tcp"]), &[1, 2]);
    let receiver = Plan { chain: chain.clone(), carrier: UDP, ..Plan::receiver() }.start();
    let from = Plan { chain, carrier: UDP, ..Plan::sender(&[receiver.address]) }.start();
    let error = refused_for(&from, Reason::CarrierRefused).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
}

/// The side that is dialled looks for itself: who dials may hold an older policy, or be configured as he likes.
#[tokio::test]
async fn who_is_dialled_refuses_a_carrier_that_its_policy_does_not_list() {
    let chain = signed(&listing(2, &["Tcp"]), &[1, 2]);
    let receiver = Plan { chain, carrier: UDP, ..Plan::receiver() }.start();
    let from = Plan { carrier: UDP, ..Plan::sender(&[receiver.address]) }.start();
    refused_for(&from, Reason::CarrierRefused).await;
    let only_udp = signed(&listing(2, &["Udp"]), &[1, 2]);
    let receiver = Plan { chain: only_udp, carrier: UDP, ..Plan::receiver() }.start();
    let from = Plan { carrier: Some(Carrier::Tcp), ..Plan::sender(&[receiver.address]) }.start();
    refused_for(&from, Reason::CarrierRefused).await;
}

#[tokio::test]
async fn a_policy_that_no_longer_lists_the_carrier_ends_its_connections() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    to.propose(signed(&listing(2, &["Tcp"]), &[1, 2]));
    refused_for(&from, Reason::CarrierRefused).await;
}

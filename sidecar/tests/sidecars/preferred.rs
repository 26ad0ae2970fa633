//! Sessions that leave their carrier open, and what the operator prefers for them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use sealane_sidecar_api::control as wire;
use sealane_types::Reason;
use tempfile::TempDir;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::client::cross;
use crate::control::{Cluster, configuration};
use crate::datagrams::listing;
use crate::device::metric;
use crate::path::Path;
use crate::support::{Plan, Sidecar, loopback, signed, tell, until};
use crate::trust::refused_for;

/// Of every kind for packets: none, one, many, and more than a record holds.
const SIZES: [u64; 6] = [0, 1, 1536, 65_537, (1 << 20) + 1, 3];
const BOTH: [&str; 2] = ["Tcp", "Udp"];

/// A sender with an operator of its own, and what that knows.
struct Told {
    cluster: Cluster,
    from: Sidecar,
    _directory: TempDir,
}

/// A session to `to` that names no carrier, under a policy that lists `carriers`.
fn preferring(to: SocketAddr, generation: u64, carriers: &[&str], preferred: &str) -> wire::Configuration {
    let mut told = configuration(to);
    told.generation = generation;
    let chain = signed(&listing(1, carriers), &[1, 2]);
    told.policy.as_mut().unwrap().chain = serde_json::to_string(&chain).unwrap();
    preferred.clone_into(&mut told.sessions[0].preferred_carrier);
    told
}

impl Told {
    async fn start(configuration: wire::Configuration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(configuration).await;
        let control = Some(cluster.channel(directory.path()));
        let door = directory.path().join("door.sock");
        let from = Plan { control, door, ..Plan::sender(&[]) }.start();
        Self { cluster, from, _directory: directory }
    }

    /// The session as it is reported, once it is connected.
    async fn connected(&self, generation: u64) -> wire::SessionReport {
        let find = || {
            let report = self.cluster.report();
            let is_there = report.generation == generation;
            report.sessions.into_iter().next().filter(|session| is_there && session.connections == 1)
        };
        until("a connection", || find().is_some()).await;
        find().unwrap()
    }
}

/// A receiver whose sessions name no carrier, under a policy that lists these.
fn receiver(carriers: &[&str]) -> Sidecar {
    Plan { carrier: None, chain: signed(&listing(1, carriers), &[1, 2]), ..Plan::receiver() }.start()
}

/// Carries datagrams of one sidecar, that dials `near`, to `far` and back: of each of its connections so many.
async fn relay(near: UdpSocket, far: SocketAddr, of_each: usize) -> JoinSet<()> {
    let (near, beyond) = (Arc::new(near), Arc::new(UdpSocket::bind(loopback()).await.unwrap()));
    beyond.connect(far).await.unwrap();
    let (sender, dialled) = tokio::sync::watch::channel(None);
    let mut tasks = JoinSet::new();
    let (from, to) = (Arc::clone(&near), Arc::clone(&beyond));
    tasks.spawn(async move {
        let (mut datagram, mut count) = (vec![0; 65_536], 0);
        while let Ok((length, source)) = from.recv_from(&mut datagram).await {
            // Each has a socket of its own.
            count = if sender.send_replace(Some(source)) == Some(source) { count + 1 } else { 1 };
            if count <= of_each {
                // What is lost is sent again.
                let _ = to.send(&datagram[..length]).await;
            }
        }
    });
    tasks.spawn(async move {
        let mut datagram = vec![0; 65_536];
        while let Ok(length) = beyond.recv(&mut datagram).await {
            let source = *dialled.borrow();
            let _ = near.send_to(&datagram[..length], source.unwrap()).await;
        }
    });
    tasks
}

#[tokio::test]
async fn a_preferred_carrier_counts_from_the_next_connection_on() {
    let to = receiver(&BOTH);
    let told = Told::start(preferring(to.address, 1, &BOTH, "Udp")).await;
    let session = told.connected(1).await;
    assert_eq!((session.carrier.as_str(), session.degraded.as_slice()), ("Udp", &[][..]));
    cross(&told.from, &to, &SIZES).await;
    // What is open stays open, as it is.
    told.cluster.configuration.send_replace(preferring(to.address, 2, &BOTH, "Tcp"));
    assert_eq!(told.connected(2).await.carrier, "Udp");
    // Kept for a start without the operator, too.
    let from = told.from.kill().start();
    until("a connection over TCP", || {
        let report = told.cluster.report();
        report.sessions.first().is_some_and(|one| one.connections == 1 && one.carrier == "Tcp")
    })
    .await;
    drop(from);
}

#[tokio::test]
async fn what_the_policy_does_not_list_is_not_dialled_whoever_prefers_it() {
    let to = receiver(&["Tcp"]);
    let told = Told::start(preferring(to.address, 1, &["Tcp"], "Udp")).await;
    let session = told.connected(1).await;
    assert_eq!((session.carrier.as_str(), session.degraded.as_slice()), ("Tcp", &[][..]));
    cross(&told.from, &to, &SIZES).await;
}

#[tokio::test]
async fn a_session_that_names_no_carrier_takes_the_one_that_the_policy_lists() {
    let to = receiver(&["Udp"]);
    let told = Told::start(preferring(to.address, 1, &["Udp"], "")).await;
    assert_eq!(told.connected(1).await.carrier, "Udp");
    cross(&told.from, &to, &SIZES).await;
}

#[tokio::test]
async fn af_xdp_is_taken_by_nobody_who_does_not_name_it() {
    let all = ["Tcp", "Udp", "AfXdp"];
    let to = receiver(&all);
    let told = Told::start(preferring(to.address, 1, &all, "AfXdp")).await;
    let session = told.connected(1).await;
    assert_eq!((session.carrier.as_str(), session.degraded.as_slice()), ("Tcp", &[][..]));
    cross(&told.from, &to, &SIZES).await;
}

/// A network that drops datagrams, and one that says that nobody is there for them.
#[tokio::test]
async fn a_preferred_udp_that_nobody_answers_over_gives_way_to_tcp() {
    for drops in [true, false] {
        let to = receiver(&BOTH);
        let (path, hole) = Path::beside_udp(to.address).await;
        let hole = drops.then_some(hole);
        let began = Instant::now();
        let told = Told::start(preferring(path.address, 1, &BOTH, "Udp")).await;
        let session = told.connected(1).await;
        let waited = began.elapsed();
        tell(&format!("a session over TCP after {waited:?} without an answer over UDP (drops: {drops})"));
        assert_eq!(
            (session.carrier.as_str(), session.degraded.as_slice()),
            ("Tcp", &["CarrierFallback".to_owned()][..])
        );
        assert!(
            session.carrier_message.contains("open the data port for UDP"),
            "{}",
            session.carrier_message
        );
        cross(&told.from, &to, &SIZES).await;
        // Nobody misses what nobody prefers any more.
        told.cluster.configuration.send_replace(preferring(path.address, 2, &BOTH, ""));
        let session = told.connected(2).await;
        assert_eq!((session.carrier.as_str(), session.degraded.as_slice()), ("Tcp", &[][..]));
        drop(hole);
    }
}

/// A network that lets the first words of a connection pass, which are answered, and no handshake.
#[tokio::test]
async fn a_preferred_udp_over_which_no_handshake_passes_gives_way_to_tcp() {
    let to = receiver(&BOTH);
    let (path, near) = Path::beside_udp(to.address).await;
    let _relay = relay(near, to.address, 1).await;
    let told = Told::start(preferring(path.address, 1, &BOTH, "Udp")).await;
    let session = told.connected(1).await;
    assert_eq!(
        (session.carrier.as_str(), session.degraded.as_slice()),
        ("Tcp", &["CarrierFallback".to_owned()][..])
    );
    cross(&told.from, &to, &SIZES).await;
}

/// Nothing answers over UDP while it is away, and nothing over TCP either.
#[tokio::test]
async fn a_remote_that_starts_again_stays_on_the_preferred_udp() {
    let to = receiver(&BOTH);
    let told = Told::start(preferring(to.address, 1, &BOTH, "Udp")).await;
    assert_eq!(told.connected(1).await.carrier, "Udp");
    let to = to.kill();
    let failed = || metric(&told.from, "sealane_dials_total{outcome=\"failed\"}");
    until("attempts to reach it", || failed().is_some_and(|attempts| attempts >= 3)).await;
    let to = to.start();
    let session = told.connected(1).await;
    assert_eq!((session.carrier.as_str(), session.degraded.as_slice()), ("Udp", &[][..]));
    cross(&told.from, &to, &SIZES).await;
}

#[tokio::test]
async fn a_preferred_udp_that_nobody_answers_over_gives_way_to_nothing_that_the_policy_does_not_list() {
    let carriers = ["Udp", "AfXdp"];
    let to = receiver(&carriers);
    let (path, _hole) = Path::beside_udp(to.address).await;
    let told = Told::start(preferring(path.address, 1, &carriers, "Udp")).await;
    // It takes no notice of TCP, which would answer.
    let missing =
        || told.cluster.report().sessions.first().is_some_and(|one| one.reason == "HandshakeTimeout");
    until("a connection that did not come about", missing).await;
    assert_eq!(told.cluster.report().sessions[0].carrier, "Udp");
}

/// Only who is not reached is tried over another carrier: whoever is refused over one is refused.
#[tokio::test]
async fn who_answers_and_is_refused_is_not_tried_over_another_carrier() {
    let honest = receiver(&BOTH);
    let rogue = Plan { proves: "embedder", listen: loopback(), ..honest.plan.clone() }.start();
    let (path, near) = Path::beside_udp(honest.address).await;
    let _relay = relay(near, rogue.address, usize::MAX).await;
    let told = Told::start(preferring(path.address, 1, &BOTH, "Udp")).await;
    refused_for(&told.from, Reason::HostDataMismatch).await;
    let session = || told.cluster.report().sessions.into_iter().next();
    let told_of = || session().is_some_and(|one| one.reason == Reason::HostDataMismatch.as_str());
    until("the operator hears of it", told_of).await;
    let session = session().unwrap();
    assert_eq!((session.connections, session.degraded.len()), (0, 0), "{session:?}");
}

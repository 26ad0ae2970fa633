//! Sessions over AF_XDP, between two network namespaces with a veth pair. These tests need root, as those of the device do.

use std::fs::File;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns};
use sealane_sidecar::handoff::LaneFailure;
use sealane_sidecar::link::xdp::Device;
use sealane_types::{Carrier, Reason};

use crate::client::{Receiver, cross, parcel, passing_on, sender};
use crate::datagrams::listing;
use crate::support::{Plan, Sidecar, signed, until};
use crate::trust::refused_for;

const XDP: Option<Carrier> = Some(Carrier::AfXdp);
const DEVICE: &str = "eth0";

/// Runs `ip` of iproute2.
fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "these tests need root and veth: ip {}: {problem}", arguments.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A network namespace with a device, which goes when it is dropped.
struct Place {
    name: String,
    address: SocketAddr,
}

impl Place {
    /// Starts a sidecar there. Its threads come from the one that starts it, and are there too.
    fn start(&self, plan: Plan) -> Sidecar {
        let start = || {
            let namespace = File::open(format!("/run/netns/{}", self.name)).unwrap();
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            Plan { listen: self.address, ..plan }.start()
        };
        std::thread::scope(|scope| scope.spawn(start).join().unwrap())
    }

    fn has_program(&self) -> bool {
        ip(&["-n", &self.name, "link", "show", "dev", DEVICE]).contains("prog/xdp")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nobody could do anything about a failure.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// Two places that reach each other and nobody else.
fn places() -> (Place, Place) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let place = |side: char, host: u8| {
        let name = format!("sealane-sidecar-{}-{number}{side}", std::process::id());
        ip(&["netns", "add", &name]);
        Place { name, address: ([10, 79, 0, host], 0).into() }
    };
    let (one, two) = (place('a', 1), place('b', 2));
    let first = ["link", "add", DEVICE, "netns", &one.name, "type", "veth"];
    ip(&[&first[..], &["peer", "name", DEVICE, "netns", &two.name]].concat());
    for Place { name, address } in [&one, &two] {
        let address = format!("{}/24", address.ip());
        ip(&["-n", name, "addr", "add", &address, "dev", DEVICE]);
        ip(&["-n", name, "link", "set", "lo", "up"]);
        ip(&["-n", name, "link", "set", DEVICE, "up"]);
    }
    (one, two)
}

/// Carried by AF_XDP where there is a device, under a policy that lists these carriers.
fn plan(carriers: &[&str], device: Option<&str>, plan: Plan) -> Plan {
    let device = device.map(|name| Device::Named(name.to_owned()));
    Plan { carrier: XDP, device, chain: signed(&listing(1, carriers), &[1, 2]), ..plan }
}

/// A sender and a receiver whose policy lists no other carrier: whatever crosses, crosses past the kernel.
fn past_kernel(here: &Place, there: &Place) -> (Sidecar, Sidecar) {
    let only = ["AfXdp"];
    let to = there.start(plan(&only, Some(DEVICE), Plan::receiver()));
    let from = here.start(plan(&only, Some(DEVICE), Plan::sender(&[to.address])));
    (from, to)
}

/// The value of a line of the metrics.
pub(crate) fn metric(sidecar: &Sidecar, line: &str) -> Option<u64> {
    let text = sidecar.node.render_metrics().unwrap();
    text.lines().find_map(|one| one.strip_prefix(line)?.trim().parse().ok())
}

/// Of every kind for packets: none, one, many, and more than a record holds.
const SIZES: [u64; 7] = [0, 1, 1536, 65_537, (1 << 20) + 1, 24 << 20, 3];

#[tokio::test]
async fn tensors_pass_by_the_kernel_both_ways_and_the_program_goes_with_its_sidecar() {
    let (here, there) = places();
    let (from, to) = past_kernel(&here, &there);
    cross(&from, &to, &SIZES).await;
    for sidecar in [&from, &to] {
        assert_eq!(metric(sidecar, r#"sealane_device_info{mode="Generic"}"#), Some(1));
        assert_eq!(metric(sidecar, r#"sealane_degraded{reason="CarrierFallback"}"#), None);
    }
    // 24 MiB in packets of 1,472 bytes; what acknowledges them comes back.
    let sent = metric(&from, r#"sealane_device_packets{fate="sent"}"#).unwrap();
    let received = metric(&to, r#"sealane_device_packets{fate="received"}"#).unwrap();
    assert!(sent > 17_000 && received > 17_000, "{sent} sent, {received} received");
    assert!(metric(&to, r#"sealane_device_packets{fate="sent"}"#) > Some(100));
    assert!(here.has_program() && there.has_program());
    drop((from.kill(), to.kill()));
    until("no program", || !here.has_program() && !there.has_program()).await;
}

#[tokio::test]
async fn one_side_alone_passes_by_the_kernel_and_the_other_one_says_so() {
    let (here, there) = places();
    let both = ["Udp", "AfXdp"];
    let to = there.start(plan(&both, None, Plan::receiver()));
    let from = here.start(plan(&both, Some(DEVICE), Plan::sender(&[to.address])));
    cross(&from, &to, &SIZES).await;
    assert_eq!(metric(&from, r#"sealane_degraded{reason="CarrierFallback"}"#), None);
    assert_eq!(metric(&to, r#"sealane_degraded{reason="CarrierFallback"}"#), Some(1));
}

/// A second pair of devices comes, and the routes between two sidecars that send past the kernel lead there.
#[tokio::test]
async fn who_is_led_to_another_device_takes_the_kernels_socket_and_is_counted() {
    let (here, there) = places();
    let (from, to) = past_kernel(&here, &there);
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1 << 20)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    let detoured = || metric(&from, r#"sealane_device_packets{fate="detoured"}"#).unwrap();
    let before = detoured();
    let another = "eth1";
    let first = ["link", "add", another, "netns", &here.name, "type", "veth"];
    ip(&[&first[..], &["peer", "name", another, "netns", &there.name]].concat());
    for (place, remote) in [(&here, &there), (&there, &here)] {
        ip(&["-n", &place.name, "link", "set", another, "up"]);
        let remote = format!("{}/32", remote.address.ip());
        ip(&["-n", &place.name, "route", "add", &remote, "dev", another]);
    }
    // A route is asked for again every few seconds.
    let mut sequence = 0;
    while detoured() < before + 100 {
        sequence += 1;
        lane.offer(parcel(sequence, 64 << 10)).await.unwrap();
        assert_eq!(receiver.next_taken().await, sequence);
    }
}

/// A second sidecar finds the device taken: it goes on by UDP, if the owners permit that.
#[tokio::test]
async fn a_device_belongs_to_one_and_the_next_one_falls_back() {
    let (here, there) = places();
    let both = ["Udp", "AfXdp"];
    let _first = there.start(plan(&both, Some(DEVICE), Plan::receiver()));
    let to = there.start(plan(&both, Some(DEVICE), Plan::receiver()));
    let from = here.start(plan(&both, Some(DEVICE), Plan::sender(&[to.address])));
    cross(&from, &to, &SIZES).await;
    assert_eq!(metric(&to, r#"sealane_degraded{reason="CarrierFallback"}"#), Some(1));
    assert_eq!(metric(&to, r#"sealane_device_info{mode="Generic"}"#), None);
}

#[tokio::test]
async fn nothing_takes_the_place_of_a_device_that_the_policy_does_not_list() {
    let (here, there) = places();
    let only = ["AfXdp"];
    let to = there.start(plan(&only, Some(DEVICE), Plan::receiver()));
    let from = here.start(plan(&only, None, Plan::sender(&[to.address])));
    let error = refused_for(&from, Reason::CarrierRefused).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
    assert!(error.to_string().contains("does not list Udp"), "{error}");
}

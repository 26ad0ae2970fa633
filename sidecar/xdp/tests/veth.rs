//! Links over a real veth pair between two network namespaces. These tests need root, `ip` of iproute2 and a kernel with
//! AF_XDP, and fail without.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test fails by panicking"
)]

#[path = "veth/process.rs"]
mod process;
#[path = "veth/traffic.rs"]
mod traffic;
#[path = "veth/wire.rs"]
mod wire;

use std::net::{IpAddr, SocketAddr};

use sealane_xdp::{
    Capabilities, Interface, Mode, NextHopError, OpenError, Options, QueueId, Reason, Resolution,
    ResolveError, Resolver, Route, SendError, drop_capabilities, open,
};

use crate::process::{Other, Role};
use crate::traffic::{
    kernel_receive, kernel_socket, link, opened, options, receive, resolved, send, there_and_back, until,
};
use crate::wire::{PORT, Wire};

#[test]
fn ipv4_goes_there_and_back() {
    let wire = Wire::new(1500, 1);
    there_and_back(&wire, wire.here.four, &[0, 1, 64, 1472]);
}

#[test]
fn ipv6_goes_there_and_back() {
    let wire = Wire::new(1500, 1);
    there_and_back(&wire, wire.here.six, &[0, 1, 64, 1452]);
}

#[test]
fn jumbo_packets_span_frames() {
    let wire = Wire::new(9000, 1);
    there_and_back(&wire, wire.here.four, &[64, 4000, 4096, 8000, 8972]);
    there_and_back(&wire, wire.here.six, &[8952]);
}

#[test]
fn what_the_interface_does_not_send_is_refused() {
    let wire = Wire::new(1500, 1);
    let (mut here, interface) = link(&wire.here);
    let route = resolved(&wire.here, &interface, wire.there.end(wire.there.four));
    assert_eq!(here.payload_bytes_max(&route), 1472);
    assert_eq!(here.send(&route, 1473, |_| panic!("not written")), Err(SendError::TooLong));
}

#[test]
fn the_kernels_sockets_understand_links_and_links_them() {
    for mtu in [1500, 9000] {
        let wire = Wire::new(mtu, 1);
        for family in [wire.here.four, wire.here.six] {
            let (from, to) = (wire.here.end(family), wire.there.end(family));
            let length = mtu as usize - if family.is_ipv4() { 28 } else { 48 };
            let (mut here, interface) = link(&wire.here);
            let there = kernel_socket(&wire.there, to);
            let route = resolved(&wire.here, &interface, to);
            send(&mut here, &route, &vec![7; length]);
            assert_eq!(kernel_receive(&there), (vec![7; length], from));
            there.send_to(&vec![8; length], from).unwrap();
            let came = receive(&mut here);
            assert_eq!((came.from, came.payload), (to, vec![8; length]));
        }
    }
}

#[test]
fn what_is_not_the_links_passes_to_the_kernel() {
    let wire = Wire::new(1500, 1);
    wire.there.ip(&["addr", "add", "10.77.0.201/24", "dev", "vb"]);
    wire.there.ip(&["addr", "add", "fd77::ff:c9/64", "dev", "vb", "nodad"]);
    let (mut there, _) = link(&wire.there);
    let others = [
        SocketAddr::new(wire.there.four, PORT + 1),
        SocketAddr::new(wire.there.six, PORT + 1),
        "10.77.0.201:4789".parse().unwrap(),
        "[fd77::ff:c9]:4789".parse().unwrap(),
    ];
    for other in others {
        let socket = kernel_socket(&wire.there, other);
        let any: SocketAddr = if other.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
        kernel_socket(&wire.here, any).send_to(b"pass", other).unwrap();
        assert_eq!(kernel_receive(&socket).0, b"pass");
    }
    assert_eq!(there.receive(64, |_| panic!("not the link's")), 0);
    let counters = there.counters().unwrap();
    assert_eq!((counters.received, counters.malformed_packets), (0, 0));
}

#[test]
fn what_comes_to_a_queue_without_a_link_passes_to_the_kernel() {
    let wire = Wire::new(1500, 2);
    let mut on_second = options(&wire.there);
    on_second.queues = Some(vec![QueueId::new(1)]);
    on_second.modes = Some(vec![Mode::Native]);
    let opened_there = opened(&wire.there, &on_second);
    assert_eq!(opened_there.links.len(), 1);
    let to = wire.there.end(wire.there.four);
    let there = kernel_socket(&wire.there, to);
    let mut on_first = options(&wire.here);
    on_first.queues = Some(vec![QueueId::new(0)]);
    let mut opened_here = opened(&wire.here, &on_first);
    let route = resolved(&wire.here, &opened_here.interface, to);
    send(&mut opened_here.links[0], &route, b"first");
    assert_eq!(kernel_receive(&there).0, b"first");
}

#[test]
fn every_queue_has_its_own_link() {
    let wire = Wire::new(1500, 2);
    let native = |end: &wire::End| {
        let options = Options { modes: Some(vec![Mode::Native]), ..options(end) };
        opened(end, &options)
    };
    let (mut here, mut there) = (native(&wire.here), native(&wire.there));
    assert_eq!((here.mode, here.interface.queues, here.links.len()), (Mode::Native, 2, 2));
    let route = resolved(&wire.here, &here.interface, wire.there.end(wire.there.four));
    for number in 0..2 {
        let payload = [number as u8; 64];
        send(&mut here.links[number], &route, &payload);
        assert_eq!(receive(&mut there.links[number]).payload, payload);
    }
    // Each may go to a thread of its own, and the program stays until the last is gone.
    let last = there.links.pop().unwrap();
    drop(there);
    assert!(wire.there.has_program());
    std::thread::spawn(move || drop(last)).join().unwrap();
    until("the program is gone", || (!wire.there.has_program()).then_some(()));
}

#[test]
fn bursts_longer_than_a_ring_arrive_whole_and_in_order() {
    const COUNT: u32 = 20_000;
    let wire = Wire::new(1500, 1);
    let (mut here, interface) = link(&wire.here);
    let (mut there, _) = link(&wire.there);
    let route = resolved(&wire.here, &interface, wire.there.end(wire.there.four));
    let (mut written, mut expected) = (0_u32, 0_u32);
    until("all packets", || {
        // Fewer on their way than the receiver has frames, because nobody waits for anybody here.
        while written < COUNT && written - expected < 1024 {
            let bytes = written.to_be_bytes();
            if here.send(&route, 1000, |payload| payload[..4].copy_from_slice(&bytes)).is_err() {
                break;
            }
            written += 1;
        }
        here.flush().unwrap();
        there.receive(64, |arrival| {
            assert_eq!(arrival.payload[..4], expected.to_be_bytes());
            expected += 1;
        });
        (expected == COUNT).then_some(())
    });
    let counters = there.counters().unwrap();
    assert_eq!((counters.kernel_dropped, counters.kernel_fill_ring_empty), (0, 0));
}

#[test]
fn waiting_ends_when_something_comes() {
    let wire = Wire::new(1500, 1);
    let (mut here, interface) = link(&wire.here);
    let (mut there, _) = link(&wire.there);
    let route = resolved(&wire.here, &interface, wire.there.end(wire.there.four));
    assert!(!there.wait(std::time::Duration::from_millis(1)).unwrap());
    let waiting = std::thread::spawn(move || {
        assert!(there.wait(traffic::DEADLINE).unwrap());
        receive(&mut there).payload
    });
    send(&mut here, &route, b"wake");
    assert_eq!(waiting.join().unwrap(), b"wake");
}

#[test]
fn an_interface_that_is_down_or_gone_is_told() {
    let wire = Wire::new(1500, 1);
    let (mut here, interface) = link(&wire.here);
    let (mut there, _) = link(&wire.there);
    let route = resolved(&wire.here, &interface, wire.there.end(wire.there.four));
    wire.here.ip(&["link", "set", "va", "down"]);
    here.send(&route, 4, |payload| payload.copy_from_slice(b"wait")).unwrap();
    assert_eq!(here.flush().unwrap_err().0.raw_os_error(), Some(libc::ENETDOWN));
    assert!(here.is_sending());
    wire.here.ip(&["link", "set", "va", "up"]);
    until("the interface is up", || {
        // What is sent before both ends have a carrier is lost.
        let up = wire.there.ip(&["link", "show", "dev", "vb"]).contains("LOWER_UP");
        (up && here.flush().is_ok() && !here.is_sending()).then_some(())
    });
    send(&mut here, &route, b"again");
    let came = receive(&mut there).payload;
    assert!(came == b"wait" || came == b"again", "{came:?}");
    wire.here.ip(&["link", "del", "va"]);
    here.send(&route, 4, |payload| payload.copy_from_slice(b"gone")).unwrap();
    here.flush().unwrap_err();
    assert!(!matches!(here.wait(std::time::Duration::from_millis(1)), Ok(true)));
}

#[test]
fn a_veth_gets_no_native_program_and_the_reason_is_told() {
    let wire = Wire::new(1500, 1);
    let opened = opened(&wire.here, &options(&wire.here));
    assert_eq!((opened.mode, opened.interface.driver.as_str()), (Mode::Generic, "veth"));
    let refused: Vec<Mode> = opened.refused.iter().map(|refused| refused.mode).collect();
    assert_eq!(refused, [Mode::ZeroCopy, Mode::Native]);
    for refused in &opened.refused {
        assert!(matches!(refused.reason, Reason::HarmsTcp), "{refused:?}");
    }
    assert!(wire.here.ip(&["link", "show", "dev", "va"]).contains("xdpgeneric"));
}

#[test]
fn a_mode_that_the_driver_refuses_gives_way_to_the_next() {
    let wire = Wire::new(1500, 1);
    let modes = Some(vec![Mode::ZeroCopy, Mode::Generic]);
    let opened = opened(&wire.here, &Options { modes, ..options(&wire.here) });
    assert_eq!(opened.mode, Mode::Generic);
    let [refused] = &opened.refused[..] else { panic!("{:?}", opened.refused) };
    assert_eq!(refused.mode, Mode::ZeroCopy);
    assert!(matches!(refused.reason, Reason::Socket(sealane_xdp::SocketError::Bind(_))), "{refused:?}");
    let only = Options { modes: Some(vec![Mode::ZeroCopy]), ..options(&wire.there) };
    match wire.there.within(|| open(&only)) {
        Err(OpenError::Refused(refused)) => assert_eq!(refused.len(), 1),
        other => panic!("{other:?}"),
    }
    assert!(!wire.there.has_program(), "what did not work leaves nothing behind");
}

#[test]
fn an_interface_that_another_program_holds_is_left_alone() {
    let wire = Wire::new(1500, 1);
    let first = opened(&wire.here, &options(&wire.here));
    for modes in [None, Some(vec![Mode::Native]), Some(vec![Mode::Generic])] {
        let second = Options { modes, port: PORT + 1, ..options(&wire.here) };
        let result = wire.here.within(|| open(&second));
        assert!(matches!(result, Err(OpenError::Occupied)), "{result:?}");
    }
    drop(first);
    // The kernel lets go of the queue late, and opening waits some seconds for it; on a busy machine it takes longer.
    drop(until("the queue", || wire.here.within(|| open(&options(&wire.here))).ok()));
}

#[test]
fn a_process_that_is_killed_leaves_no_program_behind() {
    let wire = Wire::new(1500, 1);
    let mut other = Other::start(&wire.there, Role::Hold);
    assert!(wire.there.has_program());
    other.kill();
    until("the program is gone", || (!wire.there.has_program()).then_some(()));
    let socket = kernel_socket(&wire.there, wire.there.end(wire.there.four));
    let from = kernel_socket(&wire.here, SocketAddr::new(wire.here.four, 0));
    from.send_to(b"alive", wire.there.end(wire.there.four)).unwrap();
    assert_eq!(kernel_receive(&socket).0, b"alive");
}

#[test]
fn a_link_works_without_any_capability() {
    let wire = Wire::new(1500, 1);
    let mut other = Other::start(&wire.there, Role::DropAndAnswer);
    let (mut here, interface) = link(&wire.here);
    let route = resolved(&wire.here, &interface, wire.there.end(wire.there.four));
    send(&mut here, &route, b"anybody there?");
    assert_eq!(receive(&mut here).payload, b"anybody there?");
    other.expect("answered");
    assert!(other.succeeded());
}

#[test]
#[ignore = "the other process of the tests above"]
fn other_process() {
    process::act();
}

#[test]
fn a_missing_capability_is_named() {
    let wire = Wire::new(1500, 1);
    let error = wire.here.within(|| {
        drop_capabilities(Capabilities::NET_RAW).unwrap();
        open(&options(&wire.here)).unwrap_err()
    });
    assert_eq!(error.to_string(), "missing: CAP_NET_RAW");
}

#[test]
fn with_nothing_but_the_needed_capabilities_a_link_is_smaller_and_works() {
    let wire = Wire::new(1500, 2);
    let mut first = wire.here.within(|| {
        drop_capabilities(Capabilities::ALL.without(Capabilities::NEEDED)).unwrap();
        open(&options(&wire.here)).unwrap()
    });
    assert_eq!((first.frames, first.links.len()), (512, 2));
    let (to, payload) = (wire.there.end(wire.there.four), b"few frames are enough");
    let socket = kernel_socket(&wire.there, to);
    let route = resolved(&wire.here, &first.interface, to);
    send(&mut first.links[0], &route, payload);
    assert_eq!(kernel_receive(&socket).0, payload);
}

/// A veth passes what the kernel would segment late. AF_XDP would not tell where; the kernel's socket does.
#[test]
fn what_a_kernel_segments_late_comes_to_the_kernels_socket() {
    let wire = Wire::new(1500, 1);
    let (mut here, _) = link(&wire.here);
    for (own, other) in [(wire.here.four, wire.there.four), (wire.here.six, wire.there.six)] {
        let beside = kernel_socket(&wire.here, wire.here.end(own));
        let socket = kernel_socket(&wire.there, wire.there.end(other));
        traffic::segment(&socket, 1000);
        socket.send_to(&[5; 2500], wire.here.end(own)).unwrap();
        for bytes in [1000, 1000, 500] {
            assert_eq!(kernel_receive(&beside).0, vec![5; bytes]);
        }
        // One that is as long as the interface carries is no such packet.
        socket.send_to(&[6; 900], wire.here.end(own)).unwrap();
        assert_eq!(receive(&mut here).payload, [6; 900]);
    }
}

#[test]
fn the_resolver_follows_the_kernels_routes() {
    let wire = Wire::new(1500, 1);
    wire.here.ip(&["route", "add", "10.99.0.0/16", "via", "10.77.0.200"]);
    wire.here.ip(&["link", "add", "other", "type", "veth", "peer", "name", "another"]);
    wire.here.ip(&["addr", "add", "10.88.0.1/24", "dev", "other"]);
    wire.here.ip(&["link", "set", "other", "up"]);
    wire.here.ip(&["link", "set", "another", "up"]);
    wire.here.within(|| {
        let interface = Interface::named("va").unwrap();
        assert_eq!((interface.mtu, interface.queues), (1500, 1));
        let mut resolver = Resolver::open().unwrap();
        let hop = resolver.next_hop([10, 99, 1, 1].into()).unwrap();
        assert_eq!(
            (hop.interface, hop.address, hop.source),
            (interface.index, wire.there.four, wire.here.four)
        );
        let six = resolver.next_hop(wire.there.six).unwrap();
        assert_eq!((six.address, six.source), (wire.there.six, wire.here.six));
        for address in [wire.here.four, IpAddr::from([10, 77, 0, 255]), wire.here.six] {
            assert!(matches!(resolver.next_hop(address), Err(NextHopError::NotUnicast)), "{address}");
        }
        let nowhere = resolver.next_hop([192, 0, 2, 1].into());
        assert!(matches!(nowhere, Err(NextHopError::Unreachable(_))), "{nowhere:?}");
        let elsewhere = resolver.resolve(&interface, PORT, "10.88.0.2:1".parse().unwrap());
        assert!(matches!(elsewhere, Err(ResolveError::OtherInterface(_))), "{elsewhere:?}");
        let absent = "10.77.0.77:1".parse().unwrap();
        for _ in 0..3 {
            assert_eq!(resolver.resolve(&interface, PORT, absent).unwrap(), Resolution::Unresolved);
        }
    });
}

#[test]
fn a_router_passes_packets_on_to_whom_they_are_for() {
    let wire = Wire::new(1500, 1);
    let (mut here, interface) = link(&wire.here);
    // An address behind the other end, which is its own on loopback: the packet goes to the router's MAC address.
    wire.there.ip(&["addr", "add", "10.99.0.1/32", "dev", "lo"]);
    wire.here.ip(&["route", "add", "10.99.0.0/16", "via", "10.77.0.200"]);
    let behind: SocketAddr = "10.99.0.1:7000".parse().unwrap();
    let socket = kernel_socket(&wire.there, behind);
    let route: Route = resolved(&wire.here, &interface, behind);
    send(&mut here, &route, b"beyond");
    assert_eq!(kernel_receive(&socket), (b"beyond".to_vec(), wire.here.end(wire.here.four)));
}

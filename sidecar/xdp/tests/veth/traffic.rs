//! Packets over a wire, and waiting for them until a deadline.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use sealane_xdp::{Interface, Link, Opened, Options, Resolution, Resolver, Route, SendError, open};

use crate::wire::{End, PORT, Wire};

/// Longest wait for anything; generous, because machines that run tests are busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// Between two questions: the processor belongs to whoever is waited for.
const PAUSE: Duration = Duration::from_millis(1);

/// Asks again and again, until there is an answer.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(PAUSE);
    }
}

/// Options for both addresses of an end.
pub(crate) fn options(end: &End) -> Options {
    Options::new(end.interface, vec![end.four, end.six], PORT)
}

/// Opens the links of an end; that it works is what these tests are about.
pub(crate) fn opened(end: &End, options: &Options) -> Opened {
    end.within(|| open(options)).unwrap_or_else(|error| panic!("these tests need root and AF_XDP: {error:?}"))
}

/// The only link of an end, in the mode that fits a veth.
pub(crate) fn link(end: &End) -> (Link, Interface) {
    let opened = opened(end, &options(end));
    let [link] = <[Link; 1]>::try_from(opened.links).expect("one queue");
    (link, opened.interface)
}

/// The route to `to`, however long the kernel takes to find it.
pub(crate) fn resolved(end: &End, interface: &Interface, to: SocketAddr) -> Route {
    end.within(|| resolved_in_place(&mut Resolver::open().expect("netlink"), interface, to))
}

/// The same in the namespace of this thread.
pub(crate) fn resolved_in_place(resolver: &mut Resolver, interface: &Interface, to: SocketAddr) -> Route {
    until("a route", || match resolver.resolve(interface, PORT, to).expect("a way there") {
        Resolution::Route(route) => Some(route),
        Resolution::Unresolved => None,
    })
}

/// Sends one payload for sure.
pub(crate) fn send(link: &mut Link, route: &Route, payload: &[u8]) {
    until("room to send", || match link.send(route, payload.len(), |place| place.copy_from_slice(payload)) {
        Ok(()) => Some(()),
        Err(SendError::Full) => {
            link.flush().expect("the interface is up");
            None
        }
        Err(error) => panic!("{error}"),
    });
    link.flush().expect("the interface is up");
}

/// A packet as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) mac: sealane_xdp::MacAddress,
    pub(crate) payload: Vec<u8>,
}

/// The next packet.
pub(crate) fn receive(link: &mut Link) -> Came {
    until("a packet", || {
        let mut came = None;
        link.receive(1, |arrival| {
            let payload = arrival.payload.to_vec();
            came = Some(Came { from: arrival.from, to: arrival.to, mac: arrival.source_mac, payload });
        });
        came
    })
}

/// A socket of the kernel.
pub(crate) fn kernel_socket(end: &End, address: SocketAddr) -> UdpSocket {
    let socket = end.within(|| UdpSocket::bind(address)).expect("a socket");
    socket.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    socket
}

/// Has a socket send datagrams of so many bytes out of each longer one: `UDP_SEGMENT` (linux/udp.h).
pub(crate) fn segment(socket: &UdpSocket, bytes: i32) {
    const UDP_SEGMENT: i32 = 103;
    let (pointer, length) = ((&raw const bytes).cast(), size_of::<i32>() as libc::socklen_t);
    // SAFETY: the pointer and the length are those of `bytes`, which outlives the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, UDP_SEGMENT, pointer, length) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// What a socket of the kernel receives next.
pub(crate) fn kernel_receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 1 << 16];
    let (length, from) = socket.recv_from(&mut buffer).expect("a packet within the deadline");
    buffer.truncate(length);
    (buffer, from)
}

/// Payloads of these lengths there, and back along the way that they came.
pub(crate) fn there_and_back(wire: &Wire, family: IpAddr, lengths: &[usize]) {
    let (mut here, interface) = link(&wire.here);
    let (mut there, interface_there) = link(&wire.there);
    let (from, to) = (wire.here.end(family), wire.there.end(family));
    let route = resolved(&wire.here, &interface, to);
    assert_eq!((route.from(), route.peer(), route.mac()), (from, to, interface_there.mac));
    for length in lengths.iter().copied() {
        let payload: Vec<u8> = (0..length).map(|byte| (byte % 251) as u8).collect();
        send(&mut here, &route, &payload);
        let came = receive(&mut there);
        assert_eq!(came, Came { from, to, mac: interface.mac, payload: payload.clone() });
        let back = Route::to(&interface_there, came.to, came.from, came.mac).expect("a route");
        send(&mut there, &back, &payload);
        let came = receive(&mut here);
        assert_eq!(came, Came { from: to, to: from, mac: interface_there.mac, payload });
    }
    for link in [&here, &there] {
        let counters = link.counters().expect("counters");
        let count = lengths.len() as u64;
        assert_eq!((counters.received, counters.sent), (count, count), "{counters:?}");
        assert_eq!(
            (counters.rejected_descriptors, counters.malformed_packets, counters.cut_packets),
            (0, 0, 0)
        );
        assert_eq!((counters.kernel_invalid_fill, counters.kernel_invalid_transmit), (0, 0), "{counters:?}");
    }
}

//! A link with a rate, a queue, a delay and losses at random, between UDP sockets of this machine: a thread that passes datagrams
//! on when they are due. The kernels of our machines have no netem.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

use crate::carrier::Plug;
use crate::random::SplitMix;

/// UDP payload of the largest datagram that passes, as on Ethernet.
const DATAGRAM_BYTES_MAX: usize = 1_472;
const SOCKET_BYTES: usize = 16 << 20;
/// Datagrams that are read from a socket before others have their turn.
const READ_AT_ONCE: usize = 64;
/// How long the thread waits where nothing is due, and so how long it takes to notice that it is not wanted any more.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The way there; the way back has the delay alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// UDP payload a second.
    pub(crate) bytes_per_second: f64,
    /// What waits at most.
    pub(crate) queue: Duration,
    /// One way, beside the queue.
    pub(crate) delay: Duration,
    pub(crate) loss_permille: u64,
    pub(crate) seed: u64,
}

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Whose ends do not see each other.
#[derive(Debug)]
struct Flow {
    /// Towards who dials, and towards who accepts.
    sockets: [UdpSocket; 2],
}

#[derive(Debug)]
struct QueuedDatagram {
    due: Instant,
    flow: usize,
    bytes: Vec<u8>,
}

impl Bottleneck {
    /// Two ends for each of `flows`, who dials first: all that they send to those who accept shares the link.
    pub(crate) fn between(flows: usize, link: Link) -> Result<(Self, Vec<(Plug, Plug)>)> {
        let connected = (0..flows).map(|_| Flow::connect()).collect::<Result<Vec<_>>>();
        let (flows, plugs) = connected.context("sockets of a link")?.into_iter().unzip();
        let stop = Arc::new(AtomicBool::new(false));
        let relay = Relay::new(flows, link);
        let thread = std::thread::Builder::new().name("link".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || relay.run(&stop)
        })?;
        Ok((Self { stop, thread: Some(thread) }, plugs))
    }
}

impl Drop for Bottleneck {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of its own was printed, and showed in the figures.
            let _ = thread.join();
        }
    }
}

impl Flow {
    fn connect() -> Result<(Self, (Plug, Plug))> {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let (dialler, near, far, accepter) = (bind()?, bind()?, bind()?, bind()?);
        near.connect(dialler.local_addr()?)?;
        far.connect(accepter.local_addr()?)?;
        for socket in [&near, &far] {
            socket.set_nonblocking(true)?;
            // The thread may stand still for some milliseconds, which shall lose nothing.
            let forced = sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BYTES);
            forced.or_else(|_| sockopt::set_socket_recv_buffer_size(socket, SOCKET_BYTES))?;
        }
        let plugs = (
            Plug::Udp { socket: dialler, remote: near.local_addr()? },
            Plug::Udp { socket: accepter, remote: far.local_addr()? },
        );
        Ok((Self { sockets: [near, far] }, plugs))
    }
}

#[derive(Debug)]
struct Relay {
    flows: Vec<Flow>,
    link: Link,
    random: SplitMix,
    /// There and back, the next one first.
    waiting: [VecDeque<QueuedDatagram>; 2],
    /// When what was put on the link last has left it.
    busy_until: Instant,
}

impl Relay {
    fn new(flows: Vec<Flow>, link: Link) -> Self {
        let (random, waiting) = (SplitMix::new(link.seed), [VecDeque::new(), VecDeque::new()]);
        Self { flows, link, random, waiting, busy_until: Instant::now() }
    }

    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.pass_on(Instant::now());
            self.wait();
            self.receive();
        }
    }

    fn wait(&self) {
        let due = self.waiting.iter().filter_map(VecDeque::front).map(|one| one.due).min();
        let timeout =
            due.map_or(LOOK_EVERY, |due| due.saturating_duration_since(Instant::now()).min(LOOK_EVERY));
        let sockets = self.flows.iter().flat_map(|flow| &flow.sockets);
        let mut polled: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
        // Interrupted, it looks again.
        let _ = poll(&mut polled, Some(&timeout));
    }

    fn receive(&mut self) {
        let mut space = [0; 1 << 16];
        for flow in 0..self.flows.len() {
            for way in [0, 1] {
                for _ in 0..READ_AT_ONCE {
                    match self.flows[flow].sockets[way].recv(&mut space) {
                        Ok(length) => self.arrive(way, flow, &space[..length], Instant::now()),
                        // Who is gone or does not listen yet takes nothing, as on any network.
                        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                        Err(_) => break,
                    }
                }
            }
        }
    }

    fn arrive(&mut self, way: usize, flow: usize, datagram: &[u8], now: Instant) {
        let Link { bytes_per_second, queue, delay, loss_permille, .. } = self.link;
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return;
        }
        let mut due = now + delay;
        if way == 0 {
            let begins = self.busy_until.max(now);
            if begins.duration_since(now) > queue || self.random.next() % 1_000 < loss_permille {
                return;
            }
            self.busy_until = begins + Duration::from_secs_f64(datagram.len() as f64 / bytes_per_second);
            due = self.busy_until + delay;
        }
        self.waiting[way].push_back(QueuedDatagram { due, flow, bytes: datagram.to_owned() });
    }

    fn pass_on(&mut self, now: Instant) {
        for (way, waiting) in self.waiting.iter_mut().enumerate() {
            while waiting.front().is_some_and(|one| one.due <= now) {
                let Some(QueuedDatagram { flow, bytes, .. }) = waiting.pop_front() else { return };
                // What the other end has no room for is lost.
                let _ = self.flows[flow].sockets[1 - way].send(&bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Link = Link {
        bytes_per_second: 100_000.0,
        queue: Duration::from_millis(100),
        delay: Duration::from_millis(20),
        loss_permille: 0,
        seed: 1,
    };

    fn relay(link: Link) -> Relay {
        Relay::new(vec![Flow::connect().unwrap().0, Flow::connect().unwrap().0], link)
    }

    #[test]
    fn datagrams_leave_one_after_the_other_and_a_full_queue_takes_no_more() {
        let mut relay = relay(SLOW);
        let now = relay.busy_until;
        // Ten milliseconds each, whoever sends them.
        for number in 0..20 {
            relay.arrive(0, number % 2, &[0; 1_000], now);
        }
        let due: Vec<_> =
            relay.waiting[0].iter().map(|one| one.due.duration_since(now).as_millis()).collect();
        assert_eq!(due, [30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130]);
        relay.arrive(1, 0, &[0; 1_000], now);
        assert_eq!(relay.waiting[1][0].due.duration_since(now), SLOW.delay, "the way back has no queue");
    }

    #[test]
    fn losses_come_at_random_and_what_ethernet_does_not_carry_is_dropped() {
        let mut relay =
            relay(Link { bytes_per_second: 1e9, queue: Duration::MAX, loss_permille: 10, ..SLOW });
        let now = relay.busy_until;
        for _ in 0..10_000 {
            relay.arrive(0, 0, &[0; DATAGRAM_BYTES_MAX], now);
        }
        let lost = 10_000 - relay.waiting[0].len();
        assert!((50..200).contains(&lost), "{lost}");
        relay.waiting[0].clear();
        relay.arrive(0, 0, &[0; DATAGRAM_BYTES_MAX + 1], now);
        assert!(relay.waiting[0].is_empty());
    }

    #[test]
    fn what_one_end_sends_reaches_its_other_end_alone() {
        let link = Link { bytes_per_second: 1e9, delay: Duration::ZERO, ..SLOW };
        let (_bottleneck, plugs) = Bottleneck::between(2, link).unwrap();
        let sockets = plugs.iter().flat_map(|(dialling, accepting)| [dialling, accepting]);
        let sockets: Vec<_> = sockets
            .map(|plug| match plug {
                Plug::Udp { socket, remote } => (socket, *remote),
                _ => panic!("no socket"),
            })
            .collect();
        for (number, (socket, remote)) in (0_u8..).zip(&sockets) {
            socket.send_to(&[number], remote).unwrap();
        }
        let mut byte = [0; 1];
        for (number, (socket, remote)) in [1, 0, 3, 2].into_iter().zip(&sockets) {
            socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
            assert_eq!(socket.recv_from(&mut byte).unwrap(), (1, *remote));
            assert_eq!(byte, [number]);
        }
    }
}

//! UDP sockets of the kernel, as fast as they get without segmentation: connected, with large buffers, and many datagrams
//! for each system call.

use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use anyhow::Result;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recv, recvmmsg, send, sendmmsg};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sealane_sidecar::link::udp::widen;

use super::flow::BATCH;
use super::{End, STRIDE_BYTES};
use crate::programs::Route;

const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

thread_local! {
    /// What system calls with many datagrams of this thread fill.
    static HEADERS: RefCell<MultiHeaders<()>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
}

#[derive(Debug)]
pub(crate) struct Udp {
    socket: UdpSocket,
    memory: Vec<u8>,
}

impl Udp {
    /// A socket on each host.
    pub(crate) fn pair(route: &Route) -> Result<[Self; 2]> {
        let [one, other] =
            route.hosts.each_ref().map(|host| host.visit(|| Ok(UdpSocket::bind((host.address, 0))?)));
        let (one, other) = (one?, other?);
        one.connect(other.local_addr()?)?;
        other.connect(one.local_addr()?)?;
        Ok([Self::new(one), Self::new(other)])
    }

    fn new(socket: UdpSocket) -> Self {
        widen(&socket);
        Self { socket, memory: vec![0; BATCH * STRIDE_BYTES] }
    }
}

impl End for Udp {
    fn send(&mut self, packets: &[u8], bytes: usize) -> Result<usize> {
        let socket = self.socket.as_raw_fd();
        if packets.len() <= bytes {
            return moved(send(socket, packets, MsgFlags::MSG_DONTWAIT).map(|_| 1));
        }
        let slices: [_; BATCH] = std::array::from_fn(|place| {
            let packet = packets.get(place * bytes..(place + 1) * bytes);
            [IoSlice::new(packet.unwrap_or_default())]
        });
        let count = (packets.len() / bytes).min(BATCH);
        HEADERS.with_borrow_mut(|headers| {
            let (nowhere, flags) = ([None; BATCH], MsgFlags::MSG_DONTWAIT);
            moved(sendmmsg(socket, headers, &slices[..count], nowhere, [], flags).map(Iterator::count))
        })
    }

    fn receive(&mut self, most: usize, mut take: impl FnMut(&[u8])) -> Result<usize> {
        let Self { socket, memory } = self;
        let socket = socket.as_raw_fd();
        if most == 1 {
            let received = recv(socket, memory, MsgFlags::MSG_DONTWAIT);
            return moved(received.map(|bytes| {
                take(&memory[..bytes]);
                1
            }));
        }
        let mut lengths = [0; BATCH];
        let count =
            HEADERS.with_borrow_mut(|headers| {
                let mut buffers = memory.chunks_exact_mut(STRIDE_BYTES);
                let mut slices: [_; BATCH] =
                    std::array::from_fn(|_| [IoSliceMut::new(buffers.next().unwrap_or_default())]);
                let (slices, flags) = (slices.iter_mut().take(most), MsgFlags::MSG_DONTWAIT);
                let received = recvmmsg(socket, headers, slices, flags, None);
                moved(received.map(|all| {
                    all.zip(&mut lengths).map(|(received, length)| *length = received.bytes).count()
                }))
            })?;
        for (buffer, length) in memory.chunks_exact(STRIDE_BYTES).zip(lengths).take(count) {
            take(&buffer[..length]);
        }
        Ok(count)
    }

    fn wait(&mut self) -> Result<()> {
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&NAP))?;
        Ok(())
    }
}

/// None where the kernel has nothing, or no room.
fn moved(result: nix::Result<usize>) -> Result<usize> {
    match result {
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => Ok(0),
        result => Ok(result?),
    }
}

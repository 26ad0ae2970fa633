//! A queue of AF_XDP. What is sent is sealed in memory of our own and copied into frames, and what came is copied out of
//! them before it is opened: plaintext is never where the kernel could read it.

use std::hint::spin_loop;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use sealane_protocol::datagram::Transmit;
use sealane_xdp::{FlushError, SendError};

use super::{Line, Room};
use crate::queue::Queue;

/// Datagrams that are sealed before the kernel is told, and that are taken at once: what one call sends in copy mode.
const BATCH: usize = 32;
const SPACE_BYTES: usize = 64 << 10;
/// How long to look before sleeping in the kernel.
const SPIN: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(crate) struct Queued {
    queue: Box<Queue>,
    space: Vec<u8>,
    arrived: Vec<u8>,
    /// What of `space` has not left yet, and how long its datagrams are.
    unsent: std::ops::Range<usize>,
    segment: usize,
    last: Instant,
    failed: Option<FlushError>,
}

impl Queued {
    pub(crate) fn new(queue: Box<Queue>) -> Self {
        let (space, arrived) = (vec![0; SPACE_BYTES], vec![0; SPACE_BYTES]);
        Self { queue, space, arrived, unsent: 0..0, segment: 1, last: Instant::now(), failed: None }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.queue.route.peer()
    }

    pub(crate) fn datagram_bytes_max(&self) -> u16 {
        u16::try_from(self.queue.link.payload_bytes_max(&self.queue.route)).unwrap_or(u16::MAX)
    }

    /// Copies what has not left into frames, and has the kernel send them.
    fn push(&mut self) -> Room {
        let Self { queue, space, unsent, segment, failed, .. } = self;
        while unsent.start < unsent.end {
            let end = unsent.end.min(unsent.start + *segment);
            let datagram = space.get(unsent.start..end).unwrap_or_default();
            match queue.link.send(&queue.route, datagram.len(), |place| place.copy_from_slice(datagram)) {
                Err(SendError::Full) => break,
                // One that is too long is one that was lost.
                Ok(()) | Err(SendError::TooLong) => unsent.start = end,
            }
        }
        *failed = queue.link.flush().err();
        if self.unsent.is_empty() { Room::Left } else { Room::None }
    }
}

impl Line for Queued {
    fn put(&mut self, fill: impl FnOnce(&mut [u8], usize) -> Option<Transmit>) -> Option<Room> {
        if self.unsent.is_empty() {
            let Transmit { to: _, bytes, segment } = fill(&mut self.space, BATCH)?;
            (self.unsent, self.segment) = (0..bytes, segment.max(1));
        }
        Some(self.push())
    }

    fn answer(&mut self, _: SocketAddr, datagram: &[u8]) {
        let Queue { link, route } = &mut *self.queue;
        let _ = link.send(route, datagram.len(), |place| place.copy_from_slice(datagram));
        self.failed = link.flush().err();
    }

    fn take(&mut self, mut each: impl FnMut(SocketAddr, &mut [u8])) -> bool {
        let Self { queue, arrived, .. } = self;
        let count = queue.link.receive(BATCH, |arrival| {
            if let Some(datagram) = arrived.get_mut(..arrival.payload.len()) {
                datagram.copy_from_slice(arrival.payload);
                each(arrival.from, datagram);
            }
        });
        if count > 0 {
            self.last = Instant::now();
        }
        count > 0
    }

    async fn ready(&mut self, room: Room, most: Duration) -> Result<bool> {
        if let Some(failed) = self.failed.take() {
            bail!(failed);
        }
        if most.is_zero() {
            return Ok(false);
        }
        if room == Room::None || self.last.elapsed() < SPIN {
            spin_loop();
            return Ok(true);
        }
        let came = self.queue.link.wait(most)?;
        Ok(came)
    }
}

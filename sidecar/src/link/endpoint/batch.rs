//! Datagrams that arrived together, in the buffer that the kernel filled, and the buffers that the next ones come in.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::link::udp::JOINED_BYTES_MAX;

/// A buffer that is filled to less than this share is given back at once, and what is in it moves.
const FILLED_SHARE: usize = 4;
/// How many buffers are kept.
const SPARE_MAX: usize = 64;

/// Datagrams of one source for one connection.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(super) from: SocketAddr,
    /// This machine's address that they were sent to.
    pub(super) to: Option<IpAddr>,
    pub(super) buffer: Vec<u8>,
    pub(super) length: usize,
    pub(super) stride: usize,
    pub(super) spare: Arc<Spare>,
}

/// Buffers for datagrams to come.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Vec<Vec<u8>>>);

impl Batch {
    /// The first datagram.
    pub(super) fn first(&self) -> &[u8] {
        self.buffer.get(..self.length.min(self.stride)).unwrap_or_default()
    }

    /// Each datagram, with where it came from.
    pub(crate) fn each(&mut self, mut take: impl FnMut(SocketAddr, &mut [u8])) {
        let datagrams = self.buffer.get_mut(..self.length).unwrap_or_default();
        for datagram in datagrams.chunks_mut(self.stride.max(1)) {
            take(self.from, datagram);
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.spare.put(std::mem::take(&mut self.buffer));
    }
}

impl Spare {
    pub(super) fn get(&self) -> Vec<u8> {
        self.lock().pop().unwrap_or_default()
    }

    pub(super) fn put(&self, buffer: Vec<u8>) {
        let mut spare = self.lock();
        if spare.len() < SPARE_MAX && buffer.len() == JOINED_BYTES_MAX {
            spare.push(buffer);
        }
    }

    /// Lets a few bytes not hold a whole buffer while they wait.
    pub(super) fn compact(&self, buffer: Vec<u8>, length: usize) -> Vec<u8> {
        if length.saturating_mul(FILLED_SHARE) > buffer.len() {
            return buffer;
        }
        let few = buffer.get(..length).unwrap_or_default().to_vec();
        self.put(buffer);
        few
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

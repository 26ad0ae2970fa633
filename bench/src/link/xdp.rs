//! Queues of AF_XDP, as the product opens them.

use std::time::Duration;

use anyhow::Result;
use sealane_xdp::{Mode, SendError};

use super::flow::BATCH;
use super::{End, STRIDE_BYTES};
use crate::programs::Route;
use crate::queue::{Queue, queues};

const NAP: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Xdp {
    queue: Queue,
    /// A frame is the kernel's again when it was read: what came is copied here.
    memory: Vec<u8>,
}

impl Xdp {
    /// A queue of each host.
    pub(crate) fn pair(route: &Route, mode: Mode) -> Result<[Self; 2]> {
        Ok(queues(route, mode)?.map(|queue| Self { queue, memory: vec![0; BATCH * STRIDE_BYTES] }))
    }
}

impl End for Xdp {
    fn send(&mut self, packets: &[u8], bytes: usize) -> Result<usize> {
        let Queue { link, route } = &mut self.queue;
        let mut sent = 0;
        for packet in packets.chunks(bytes) {
            match link.send(route, packet.len(), |place| place.copy_from_slice(packet)) {
                Ok(()) => sent += 1,
                Err(SendError::Full) => break,
                Err(error) => return Err(error.into()),
            }
        }
        link.flush()?;
        Ok(sent)
    }

    fn receive(&mut self, most: usize, mut take: impl FnMut(&[u8])) -> Result<usize> {
        let Self { queue, memory } = self;
        let mut places = memory.chunks_exact_mut(STRIDE_BYTES);
        Ok(queue.link.receive(most, |arrival| {
            let payload = arrival.payload;
            if let Some(place) = places.next().and_then(|place| place.get_mut(..payload.len())) {
                place.copy_from_slice(payload);
                take(place);
            }
        }))
    }

    fn wait(&mut self) -> Result<()> {
        self.queue.link.wait(NAP)?;
        Ok(())
    }
}

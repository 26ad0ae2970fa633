//! Memory for tensors that were announced and not delivered yet, their bytes aside: a few hundred bytes each, which a sender may
//! ask for without sending anything more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::handoff::TensorHeader;

/// Of one session.
const BYTES_MAX: usize = 192 << 20;
/// What an announcement takes beside its name and shape: entries of maps and queues, and what holds its parts.
const FIXED_BYTES: usize = 256;

/// What all senders of a session have announced.
#[derive(Debug, Default)]
pub(super) struct AnnouncedMemory {
    used: Arc<AtomicUsize>,
}

/// What one of them has announced.
#[derive(Debug, Clone, Default)]
pub(super) struct SenderAnnounced(Arc<AtomicUsize>);

/// Room for one announcement; dropping it gives it back.
#[derive(Debug)]
pub(super) struct AnnouncedRoom {
    bytes: usize,
    used: Arc<AtomicUsize>,
    own: SenderAnnounced,
}

impl AnnouncedMemory {
    /// Room for `header`, unless its sender would have more than is left to all: n senders that take what they can get have
    /// 1/(n+1) each, and as much is left to one that has nothing yet (Choudhury and Hahne, Dynamic queue length thresholds
    /// for shared-memory packet switches, 1998).
    pub(super) fn admit(&self, sender: &SenderAnnounced, header: &TensorHeader) -> Option<AnnouncedRoom> {
        let parts = header.name.len().saturating_add(header.shape.len().saturating_mul(8));
        let bytes = FIXED_BYTES.saturating_add(parts);
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let own = sender.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        // Given back at once if it was too much.
        let room = AnnouncedRoom { bytes, used: Arc::clone(&self.used), own: sender.clone() };
        (own <= BYTES_MAX.saturating_sub(used)).then_some(room)
    }
}

impl Drop for AnnouncedRoom {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.own.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl AnnouncedMemory {
    /// All that there is, as other senders may have it.
    pub(super) fn hoarded(&self) -> AnnouncedRoom {
        let own = SenderAnnounced(Arc::new(AtomicUsize::new(BYTES_MAX)));
        self.used.fetch_add(BYTES_MAX, Ordering::Relaxed);
        AnnouncedRoom { bytes: BYTES_MAX, used: Arc::clone(&self.used), own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_types::Dtype;

    fn header(name: &str) -> TensorHeader {
        TensorHeader { dtype: Dtype::Float32, shape: vec![1, 4096], run: false, name: name.to_owned() }
    }

    /// Announces as much as `sender` can.
    fn fill(memory: &AnnouncedMemory, sender: &SenderAnnounced) -> Vec<AnnouncedRoom> {
        let header = header(&"n".repeat(255));
        std::iter::from_fn(|| memory.admit(sender, &header)).collect()
    }

    #[test]
    fn whoever_comes_later_has_as_much_as_those_that_hoard() {
        let memory = AnnouncedMemory::default();
        let senders: Vec<_> = (0..3).map(|_| SenderAnnounced::default()).collect();
        let held: Vec<_> = senders.iter().map(|sender| fill(&memory, sender)).collect();
        let total: usize = senders.iter().map(|sender| sender.0.load(Ordering::Relaxed)).sum();
        assert_eq!(memory.used.load(Ordering::Relaxed), total);
        assert!(total < BYTES_MAX && held[0].len() > held[1].len() && held[1].len() > held[2].len());
        let late = SenderAnnounced::default();
        let room = fill(&memory, &late);
        assert!(room.len() > held[2].len() / 3, "{} beside {}", room.len(), held[2].len());
        drop((held, room));
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_window_of_each_of_a_client_s_lanes_has_room() {
        use sealane_protocol::limits::WINDOW_TENSORS;
        let (memory, sender) = (AnnouncedMemory::default(), SenderAnnounced::default());
        let header = header("model.layers.31.mlp.down_proj");
        let held: Vec<_> = (0..64 * WINDOW_TENSORS).map_while(|_| memory.admit(&sender, &header)).collect();
        assert_eq!(held.len() as u64, 64 * WINDOW_TENSORS);
    }
}

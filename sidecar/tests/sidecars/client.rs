//! Clients in place of the door.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sealane_arena::{Plaintext, SharedMemory, VolatileSlice};
use sealane_sidecar::handoff::{
    Deliveries, Delivery, LaneError, LaneIncarnation, Lanes, NoSlot, Parcel, ReceiverLane, ReplicaId,
    SenderEvent, SenderEvents, SenderLane, Sequence, SlotId, Span, TakeArena, TensorHeader, TensorSource,
    Turn,
};
use sealane_types::Dtype;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::support::{LIMIT, Sidecar, within};

/// A client's put segment.
#[derive(Debug)]
pub(crate) struct Memory(SharedMemory);

impl Memory {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let memory = SharedMemory::create((bytes.len() as u64).max(1).next_multiple_of(4096)).unwrap();
        memory.write_at(0, bytes).unwrap();
        Self(memory)
    }
}

impl TensorSource for Memory {
    fn bytes(&self, offset: u64, length: usize) -> io::Result<Plaintext<'_>> {
        self.0.slice(offset, length).map(Plaintext::from)
    }
}

/// A client's take segment with a bound.
#[derive(Debug)]
pub(crate) struct Arena {
    bytes_max: u64,
    slots: Mutex<HashMap<SlotId, Vec<u8>>>,
    next: AtomicU64,
    /// Most bytes that were ever reserved at once.
    pub(crate) peak: AtomicU64,
    freed: Arc<Notify>,
}

impl Arena {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            slots: Mutex::default(),
            next: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            freed: Arc::default(),
        })
    }

    /// Whether these are the bytes in `slot`.
    pub(crate) fn holds(&self, slot: SlotId, bytes: &[u8]) -> bool {
        self.slots.lock().unwrap()[&slot] == bytes
    }

    pub(crate) fn used(&self) -> u64 {
        self.slots.lock().unwrap().values().map(|slot| slot.len() as u64).sum()
    }
}

impl TakeArena for Arena {
    fn reserve(&self, bytes: u64) -> Result<SlotId, NoSlot> {
        if bytes > self.bytes_max {
            return Err(NoSlot::TooLarge);
        }
        let mut slots = self.slots.lock().unwrap();
        let used = slots.values().map(|slot| slot.len() as u64).sum::<u64>() + bytes;
        if used > self.bytes_max {
            return Err(NoSlot::Full);
        }
        self.peak.fetch_max(used, Ordering::Relaxed);
        let slot = SlotId(self.next.fetch_add(1, Ordering::Relaxed));
        slots.insert(slot, vec![0; bytes as usize]);
        Ok(slot)
    }

    fn with_bytes(
        &self,
        slot: SlotId,
        offset: u64,
        length: usize,
        write: &mut dyn FnMut(VolatileSlice<'_>),
    ) -> io::Result<()> {
        let mut slots = self.slots.lock().unwrap();
        let start = offset as usize;
        let place = slots.get_mut(&slot).and_then(|slot| slot.get_mut(start..start + length));
        write(VolatileSlice::from(place.ok_or(io::ErrorKind::UnexpectedEof)?));
        Ok(())
    }

    fn release(&self, slot: SlotId) {
        self.slots.lock().unwrap().remove(&slot).unwrap();
        self.freed.notify_waiters();
    }

    fn freed(&self) -> Arc<Notify> {
        Arc::clone(&self.freed)
    }
}

/// Bytes that tell their tensor and their place.
pub(crate) fn bytes(sequence: u64, length: u64) -> Vec<u8> {
    (0..length).map(|index| (index.wrapping_mul(31) ^ index >> 8 ^ sequence.wrapping_mul(97)) as u8).collect()
}

pub(crate) fn parcel(sequence: u64, length: u64) -> Parcel {
    Parcel {
        sequence: Sequence(sequence),
        header: TensorHeader {
            dtype: Dtype::Uint8,
            shape: vec![length],
            run: false,
            name: format!("layer{sequence}"),
        },
        source: Arc::new(Memory::of(&bytes(sequence, length))),
        offset: 0,
        length,
        assigned: vec![],
    }
}

pub(crate) const INCARNATION: LaneIncarnation = LaneIncarnation([9; 16]);

pub(crate) async fn sender(lanes: &Lanes) -> (SenderLane, SenderEvents) {
    try_sender(lanes, 0, Instant::now() + LIMIT).await.unwrap()
}

pub(crate) async fn try_sender(
    lanes: &Lanes,
    base: u64,
    deadline: Instant,
) -> Result<(SenderLane, SenderEvents), LaneError> {
    let session = "activations".parse().unwrap();
    within("a sending lane", lanes.open_sender(session, INCARNATION, Sequence(base), deadline)).await
}

/// A lane that receives, and the memory that it receives into.
pub(crate) struct Receiver {
    pub(crate) lane: ReceiverLane,
    pub(crate) deliveries: Deliveries,
    pub(crate) arena: Arc<Arena>,
}

impl Receiver {
    pub(crate) async fn open(lanes: &Lanes, bytes_max: u64) -> Self {
        let arena = Arena::new(bytes_max);
        let session = "activations".parse().unwrap();
        let opened = lanes.open_receiver(session, Arc::clone(&arena) as Arc<_>, Instant::now() + LIMIT);
        let (lane, deliveries) = within("a receiving lane", opened).await.unwrap();
        Self { lane, deliveries, arena }
    }

    pub(crate) async fn turn(&mut self) -> Turn {
        within("a turn", self.deliveries.next()).await.unwrap()
    }

    /// The next tensor, checked and not taken.
    pub(crate) async fn tensor(&mut self) -> Delivery {
        match self.turn().await {
            Turn::Tensor(delivery) => {
                let slots = self.arena.slots.lock().unwrap();
                assert!(slots[&delivery.slot] == bytes(delivery.sequence.0, delivery.length), "{delivery:?}");
                assert_eq!(delivery.header.name, format!("layer{}", delivery.sequence.0));
                drop(slots);
                delivery
            }
            other => panic!("{other:?} in place of a tensor"),
        }
    }

    /// The application takes it, and lets its last view go.
    pub(crate) fn take(&self, delivery: &Delivery) {
        self.lane.taken(&[delivery.id]);
        self.arena.release(delivery.slot);
    }

    pub(crate) async fn next_taken(&mut self) -> u64 {
        let delivery = self.tensor().await;
        self.take(&delivery);
        delivery.sequence.0
    }
}

/// Passes events on in the background, as the door does, and keeps them.
pub(crate) fn passing_on(mut events: SenderEvents) -> Arc<Mutex<Vec<SenderEvent>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&kept);
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            told.lock().unwrap().push(event);
        }
    });
    kept
}

/// What was assigned to whom, oldest first.
pub(crate) fn assignments(events: &[SenderEvent]) -> impl DoubleEndedIterator<Item = (Span, &[ReplicaId])> {
    events.iter().filter_map(|event| match event {
        SenderEvent::Assigned { span, replicas } => Some((*span, replicas.as_slice())),
        _ => None,
    })
}

/// As a client that knows of these events offers a tensor of 1,000 bytes again.
pub(crate) fn assigned(events: &[SenderEvent], sequence: u64) -> Parcel {
    let known = assignments(events).rev().find(|(span, _)| span.first == Sequence(sequence));
    let replicas = known.map(|(_, replicas)| replicas.to_vec());
    Parcel { assigned: replicas.unwrap_or_default(), ..parcel(sequence, 1000) }
}

/// Puts one tensor of each size at `from`, which are taken at `to`, whole and in order, until the end of the lane. What the
/// sender was told.
pub(crate) async fn cross(from: &Sidecar, to: &Sidecar, sizes: &[u64]) -> Arc<Mutex<Vec<SenderEvent>>> {
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 64 << 20).await;
    let put = async {
        for (sequence, length) in sizes.iter().enumerate() {
            lane.offer(parcel(sequence as u64, *length)).await.unwrap();
        }
        lane.close().await.unwrap();
    };
    let take = async {
        for (sequence, length) in sizes.iter().enumerate() {
            let delivery = receiver.tensor().await;
            assert_eq!((delivery.sequence.0, delivery.length), (sequence as u64, *length));
            assert_eq!(delivery.sender, "embedder/embedder-0");
            receiver.take(&delivery);
        }
        assert_eq!(receiver.turn().await, Turn::End);
    };
    within("put and take", async { tokio::join!(put, take) }).await;
    events
}

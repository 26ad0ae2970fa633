//! Every interleaving of the two sides, by loom.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::consumer::Consumer;
use super::producer::Producer;
use super::shared::{Index, Shared};

impl Index for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }
}

/// A ring whose slots loom watches: touching one from both sides at once fails the test.
#[derive(Debug)]
struct Watched {
    produced: AtomicU32,
    consumed: AtomicU32,
    items: Vec<UnsafeCell<u32>>,
}

// SAFETY: the count never changes and is a power of two; slots are elements of a vector.
unsafe impl Shared for Arc<Watched> {
    type Index = AtomicU32;
    type Item = u32;

    fn slots(&self) -> u32 {
        self.items.len() as u32
    }

    fn produced(&self) -> &AtomicU32 {
        &self.produced
    }

    fn consumed(&self) -> &AtomicU32 {
        &self.consumed
    }

    fn needs_wakeup(&self) -> bool {
        false
    }

    unsafe fn put(&self, slot: u32, item: u32) {
        // SAFETY: loom checks what the caller promises, that nobody touches the slot meanwhile.
        self.items[slot as usize].with_mut(|place| unsafe { *place = item });
    }

    unsafe fn take(&self, slot: u32) -> u32 {
        // SAFETY: loom checks what the caller promises, that nobody writes the slot meanwhile.
        self.items[slot as usize].with(|place| unsafe { *place })
    }
}

/// Lets a producer try to push `items`, and a consumer try to take as many, `batch` of them between two publications and
/// releases, from an index on. Nobody waits, so that the interleavings end; what is left is taken in the end.
fn pass(slots: usize, items: u32, batch: u32, begin: u32) {
    loom::model(move || {
        let ring = Arc::new(Watched {
            produced: AtomicU32::new(begin),
            consumed: AtomicU32::new(begin),
            items: (0..slots).map(|_| UnsafeCell::new(u32::MAX)).collect(),
        });
        let mut producer = Producer::new(Arc::clone(&ring)).beginning_at(begin);
        let mut consumer = Consumer::new(ring).beginning_at(begin);
        let filling = thread::spawn(move || {
            let mut pushed = 0;
            for attempt in 1..=items {
                if producer.push(pushed) {
                    pushed += 1;
                }
                if attempt % batch == 0 {
                    producer.publish();
                }
            }
            producer.publish();
            pushed
        });
        let mut taken = 0;
        for attempt in 1..=items {
            if let Some(item) = consumer.pop() {
                assert_eq!(item, taken, "items pass in order and whole");
                taken += 1;
            }
            if attempt % batch == 0 {
                consumer.release();
            }
        }
        let pushed = filling.join().unwrap();
        while let Some(item) = consumer.pop() {
            assert_eq!(item, taken, "items pass in order and whole");
            taken += 1;
        }
        assert_eq!(taken, pushed, "nothing is lost and nothing made up");
    });
}

#[test]
fn every_item_passes_once_and_in_order() {
    pass(1, 3, 1, 0);
    pass(2, 3, 1, 0);
}

#[test]
fn batches_pass_whole() {
    pass(2, 4, 2, 0);
}

#[test]
fn indices_wrap_around_under_both_sides() {
    pass(2, 3, 1, u32::MAX - 1);
}

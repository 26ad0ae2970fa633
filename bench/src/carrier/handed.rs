//! Buffers that change hands: a batch is copied once, into a buffer that the other end then opens records in. No system call
//! moves bytes.

use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Buffers under way in one direction: as much memory as a duplex has, with batches of 256 KiB.
const UNDER_WAY: usize = 8;

/// One end.
#[derive(Debug)]
pub(crate) struct Handed {
    outgoing: Sender<Vec<u8>>,
    incoming: Receiver<Vec<u8>>,
    /// Buffers that were read, on their way back.
    spent: Sender<Vec<u8>>,
    reusable: Receiver<Vec<u8>>,
}

impl Handed {
    pub(super) fn pair() -> (Self, Self) {
        let [(to_other, of_one), (to_one, of_other)] = [channel(UNDER_WAY), channel(UNDER_WAY)];
        // At most `UNDER_WAY` buffers wait, one is being read and one is being filled.
        let [(back_to_one, of_one_again), (back_to_other, of_other_again)] =
            [channel(UNDER_WAY + 2), channel(UNDER_WAY + 2)];
        let one =
            Self { outgoing: to_other, incoming: of_other, spent: back_to_other, reusable: of_one_again };
        let other = Self { outgoing: to_one, incoming: of_one, spent: back_to_one, reusable: of_other_again };
        (one, other)
    }

    /// Hands over a copy of `bytes`. False: the other end is gone.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        let mut buffer = self.reusable.try_recv().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.outgoing.send(buffer).await.is_ok()
    }

    /// What the other end handed over; none when it is gone.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        self.incoming.recv().await
    }

    /// Gives a buffer that was read back.
    pub(crate) fn give_back(&mut self, buffer: Vec<u8>) {
        // Without room, or when the other end is gone, it is freed.
        let _ = self.spent.try_send(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn buffers_go_there_and_come_back() {
        let (mut one, mut other) = Handed::pair();
        assert!(one.send(b"first").await);
        let first = other.receive().await.unwrap();
        assert_eq!(first, b"first");
        let place = first.as_ptr();
        other.give_back(first);
        assert!(one.send(b"2nd").await);
        let second = other.receive().await.unwrap();
        assert_eq!((second.as_slice(), second.as_ptr()), (&b"2nd"[..], place), "it is the same memory");
        assert!(other.send(b"answer").await);
        assert_eq!(one.receive().await.unwrap(), b"answer");
        drop(one);
        assert!(!other.send(b"nobody").await && other.receive().await.is_none());
    }
}

//! The right of a link's task to read the bytes of a tensor: it ends with the parcel, whose memory is its client's again then.

use std::sync::{Arc, Mutex, PoisonError};

/// Kept with the parcel. When it is dropped nothing reads the bytes any more.
#[derive(Debug)]
pub(super) struct Lease(Arc<Mutex<Standing>>);

/// Kept by whoever reads.
#[derive(Debug)]
pub(super) struct Reader(Arc<Mutex<Standing>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Granted,
    Over,
}

pub(super) fn lease() -> (Lease, Reader) {
    let standing = Arc::new(Mutex::new(Standing::Granted));
    (Lease(Arc::clone(&standing)), Reader(standing))
}

impl Reader {
    /// Lets `read` look at the bytes, unless the lease is over. That does not end meanwhile.
    pub(super) fn read<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (*standing == Standing::Granted).then(read)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Waits for a read that is under way: a batch of records at most.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Standing::Over;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn nothing_is_read_once_the_lease_is_over() {
        let (lease, reader) = lease();
        assert_eq!(reader.read(|| 7), Some(7));
        drop(lease);
        assert_eq!(reader.read(|| 7), None);
    }

    #[test]
    fn a_lease_ends_when_a_read_that_is_under_way_has_ended() {
        let (lease, reader) = lease();
        let (began, waits) = mpsc::channel();
        let reads = Arc::new(Mutex::new(false));
        let over = Arc::clone(&reads);
        let reading = std::thread::spawn(move || {
            reader.read(|| {
                began.send(()).unwrap();
                // Whoever did not wait would most likely look before this.
                (0..100).for_each(|_| std::thread::yield_now());
                *over.lock().unwrap() = true;
            })
        });
        waits.recv().unwrap();
        drop(lease);
        assert!(*reads.lock().unwrap());
        assert!(reading.join().unwrap().is_some());
    }
}

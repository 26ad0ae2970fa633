//! What clients of resumable lanes have noted: where their tensors go.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::fault::Fault;
use crate::handoff::LaneIncarnation;

type Entries = HashMap<LaneIncarnation, Arc<watch::Sender<u64>>>;

/// The resumable lanes of the pod.
#[derive(Debug, Default)]
pub(super) struct Notes {
    entries: Mutex<Entries>,
    /// Batches are numbered together. A note about a lane's batch that comes late, when its client has opened the lane
    /// again, thus never speaks of a batch of the new lane.
    batches: AtomicU64,
}

/// One lane's entry; dropping it takes it out.
#[derive(Debug)]
pub(super) struct Noted {
    notes: Arc<Notes>,
    incarnation: LaneIncarnation,
    entry: Arc<watch::Sender<u64>>,
}

impl Notes {
    /// Enters a lane. One that was opened before under the same incarnation hears nothing any more: its client has come
    /// back on another connection.
    pub(super) fn enter(self: &Arc<Self>, incarnation: LaneIncarnation) -> Noted {
        let entry = Arc::new(watch::Sender::new(0));
        self.entries().insert(incarnation, Arc::clone(&entry));
        Noted { notes: Arc::clone(self), incarnation, entry }
    }

    /// A client has noted everything up to `batch`.
    pub(super) fn note(&self, incarnation: LaneIncarnation, batch: u64) -> Result<(), Fault> {
        let entries = self.entries();
        let entry = entries.get(&incarnation).ok_or(Fault::UnknownLane)?;
        entry.send_if_modified(|noted| {
            let grows = batch > *noted;
            *noted = batch.max(*noted);
            grows
        });
        Ok(())
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Noted {
    /// The number of the lane's next batch.
    pub(super) fn next_batch(&self) -> u64 {
        self.notes.batches.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Resolves when the client has noted everything up to `batch`.
    pub(super) async fn reaches(&self, batch: u64) {
        // The sender lies in this very value, so the channel cannot close.
        let _ = self.entry.subscribe().wait_for(|noted| *noted >= batch).await;
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut entries = self.notes.entries();
        if entries.get(&self.incarnation).is_some_and(|entry| Arc::ptr_eq(entry, &self.entry)) {
            entries.remove(&self.incarnation);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_late_note_says_nothing_about_the_lane_that_was_opened_again() {
        let notes = Arc::new(Notes::default());
        let name = LaneIncarnation([1; 16]);
        let replaced = notes.enter(name);
        let first = replaced.next_batch();
        let replacing = notes.enter(name);
        let second = replaced.next_batch();
        let batch = replacing.next_batch();
        notes.note(name, first).unwrap();
        notes.note(name, second).unwrap();
        assert!(replacing.reaches(batch).now_or_never().is_none());
        drop((replaced, replacing));
        // As well when the old lane was gone before.
        let reopened = notes.enter(name);
        let again = reopened.next_batch();
        notes.note(name, batch).unwrap();
        assert!(reopened.reaches(again).now_or_never().is_none());
        notes.note(name, again).unwrap();
        assert!(reopened.reaches(again).now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_newest_lane_of_an_incarnation_hears() {
        let notes = Arc::new(Notes::default());
        let name = LaneIncarnation([1; 16]);
        let old = notes.enter(name);
        let new = notes.enter(name);
        notes.note(name, 2).unwrap();
        notes.note(name, 1).unwrap();
        new.reaches(2).await;
        assert!(old.reaches(1).now_or_never().is_none());
        drop(old);
        notes.note(name, 3).unwrap();
        new.reaches(3).await;
        drop(new);
        assert!(matches!(notes.note(name, 4), Err(Fault::UnknownLane)));
    }
}

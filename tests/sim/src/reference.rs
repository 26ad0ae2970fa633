//! The model: what was pushed, what may be gone, and why.

use std::collections::{BTreeMap, BTreeSet};

use sealane_protocol::frame::{Sequence, StreamId};

/// One lane of an application, by the stream that carries it.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) pushed: BTreeMap<Sequence, Vec<u8>>,
    /// Taken by an application, of a receiver that lives or of one that died.
    pub(crate) taken: BTreeSet<Sequence>,
    /// Their bytes had left when the receiver died: nobody can know whether its application took them.
    pub(crate) uncertain: BTreeSet<Sequence>,
    pub(crate) finished: bool,
    pub(crate) aborted: bool,
    pub(crate) next: u64,
}

impl Lane {
    /// What must still arrive.
    pub(crate) fn owed(&self) -> impl Iterator<Item = &Sequence> {
        let gone =
            move |sequence: &&Sequence| !self.taken.contains(sequence) && !self.uncertain.contains(sequence);
        self.pushed.keys().filter(gone)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Reference {
    pub(crate) lanes: BTreeMap<StreamId, Lane>,
    /// The stream of each of the application's places.
    places: BTreeMap<u8, StreamId>,
    next: u32,
}

impl Reference {
    /// The stream in `place`; a new one if there is none, or if the one there took its end.
    pub(crate) fn open(&mut self, place: u8) -> StreamId {
        let over = |id: &StreamId| self.lanes.get(id).is_none_or(|lane: &Lane| lane.finished || lane.aborted);
        match self.places.get(&place).filter(|id| !over(id)) {
            Some(id) => *id,
            None => self.begin(place),
        }
    }

    pub(crate) fn at(&self, place: u8) -> Option<StreamId> {
        self.places.get(&place).copied()
    }

    fn begin(&mut self, place: u8) -> StreamId {
        let id = StreamId(self.next);
        self.next += 1;
        self.places.insert(place, id);
        self.lanes.insert(id, Lane::default());
        id
    }

    /// An application took these bytes: they are what was pushed, for the first time.
    pub(crate) fn took(&mut self, id: StreamId, sequence: Sequence, bytes: &[u8]) {
        let lane = self.lanes.get_mut(&id).expect("nobody opened this stream");
        let pushed = lane.pushed.get(&sequence).expect("nobody pushed this tensor");
        assert!(pushed == bytes, "{id:?} {sequence:?}: other bytes than were pushed");
        assert!(lane.taken.insert(sequence), "{id:?} {sequence:?} was delivered twice");
    }
}

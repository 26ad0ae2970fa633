//! What senders were told, tensor by tensor.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    entry::{Entry, Run},
    finding::{Finding, Tensor},
};

/// What a sender knows of a tensor that it put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Numbered, nothing else.
    Open,
    Confirmed,
    Uncertain,
}

/// One sending process.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) pod: String,
    pub(super) run: String,
    /// As receivers name it.
    pub(super) name: String,
    /// By index: sequence and fate.
    pub(super) tensors: BTreeMap<u64, (u64, Fate)>,
    /// About to be put when the process ended.
    pub(super) pending: BTreeSet<u64>,
    by_sequence: BTreeMap<u64, u64>,
}

impl Account {
    pub(super) fn tensor(&self, index: u64) -> Tensor {
        Tensor { pod: self.pod.clone(), run: self.run.clone(), index }
    }

    pub(super) fn of(name: String, pod: &str, run: &Run, findings: &mut Vec<Finding>) -> Self {
        let mut account = Self { pod: pod.to_owned(), run: run.id.clone(), name, ..Self::default() };
        for (_, entry) in &run.entries {
            account.enter(entry, findings);
        }
        account
    }

    fn enter(&mut self, entry: &Entry, findings: &mut Vec<Finding>) {
        match entry {
            Entry::Putting { indexes } => self.pending = indexes.iter().copied().collect(),
            Entry::Put { indexes, sequences, .. } => {
                for (index, sequence) in indexes.iter().zip(sequences) {
                    self.pending.remove(index);
                    if *sequence != self.by_sequence.len() as u64 {
                        let tensor = self.tensor(*index);
                        findings.push(Finding::Misnumbered { tensor, sequence: *sequence });
                    }
                    self.tensors.insert(*index, (*sequence, Fate::Open));
                    self.by_sequence.insert(*sequence, *index);
                }
            }
            Entry::Refused { indexes, .. } => self.pending.retain(|index| !indexes.contains(index)),
            Entry::Uncertain { first, last } => {
                for sequence in *first..=*last {
                    self.doubt(sequence, findings);
                }
            }
            Entry::Flushed { through } | Entry::Closed { through } => {
                for (_, fate) in self.tensors.range_mut(..*through).map(|(_, known)| known) {
                    if *fate == Fate::Open {
                        *fate = Fate::Confirmed;
                    }
                }
            }
            _ => {}
        }
    }

    fn doubt(&mut self, sequence: u64, findings: &mut Vec<Finding>) {
        let known = self.by_sequence.get(&sequence).copied();
        let wrong = match known.and_then(|index| self.tensors.get_mut(&index)) {
            None => Some("it was not numbered"),
            Some((_, Fate::Confirmed)) => Some("it was confirmed before"),
            Some((_, Fate::Uncertain)) => Some("that was said before"),
            Some((_, fate @ Fate::Open)) => {
                *fate = Fate::Uncertain;
                None
            }
        };
        if let Some(why) = wrong {
            let tensor = known.map(|index| self.tensor(index));
            findings.push(Finding::WronglyUncertain { tensor, pod: self.pod.clone(), sequence, why });
        }
    }
}

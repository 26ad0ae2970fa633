//! What was counted over the life of a session, by whichever process and under whichever leader. The status is what
//! outlives a leader: it has the counts of processes one by one, so that one which comes back is not counted twice, and one
//! that does not is not forgotten. Reports and what the registry keeps of processes that are gone bring it up to date.

use std::collections::{BTreeMap, BTreeSet};

use sealane_operator_api::{Counted, ProcessCount, TransferSessionStatus};

use crate::control::registry::{Process, Totals};
use crate::limits::STATUS_PROCESSES_MAX;

/// The counts of one session.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Of processes that never come back.
    gone: Totals,
    processes: BTreeMap<Process, Totals>,
    /// Those that the status has already.
    recorded: BTreeSet<Process>,
}

impl Ledger {
    /// As the status has it. A status of an earlier release has totals alone: what nobody who is here counted, somebody did
    /// who is gone.
    pub(super) fn read(status: &TransferSessionStatus, heard: &BTreeMap<Process, Totals>) -> Self {
        let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
        let Some(counted) = &status.counted else {
            let stated = |number: Option<i64>, of: fn(&Totals) -> u64| {
                let here = heard.values().fold(0_u64, |sum, totals| sum.saturating_add(of(totals)));
                unsigned(number.unwrap_or(0)).saturating_sub(here)
            };
            let gone = Totals {
                tensors: stated(status.tensors_transferred, |totals| totals.tensors),
                bytes: stated(status.bytes_transferred, |totals| totals.bytes),
                forwarded: stated(status.forwarded, |totals| totals.forwarded),
            };
            return Self { gone, ..Self::default() };
        };
        let totals = |tensors: i64, bytes: i64, forwarded: i64| Totals {
            tensors: unsigned(tensors),
            bytes: unsigned(bytes),
            forwarded: unsigned(forwarded),
        };
        let process = |count: &ProcessCount| {
            let mut incarnation = [0; 16];
            hex::decode_to_slice(&count.incarnation, &mut incarnation).ok()?;
            let process = Process { pod: count.pod.clone(), incarnation };
            Some((process, totals(count.tensors, count.bytes, count.forwarded)))
        };
        let processes: BTreeMap<_, _> = counted.processes.iter().filter_map(process).collect();
        Self {
            gone: totals(counted.tensors, counted.bytes, counted.forwarded),
            recorded: processes.keys().cloned().collect(),
            processes,
        }
    }

    /// Takes over what is reported, and lets go of processes that nothing is heard of any more and that `may_return` says
    /// never come back.
    pub(super) fn hear(&mut self, heard: &BTreeMap<Process, Totals>, may_return: impl Fn(&Process) -> bool) {
        for (process, totals) in heard {
            let held = self.processes.entry(process.clone()).or_default();
            *held = held.max(*totals);
        }
        let gone =
            self.processes.extract_if(.., |process, _| !heard.contains_key(process) && !may_return(process));
        self.gone = gone.fold(self.gone, |sum, (_, totals)| sum.plus(totals));
    }

    /// Of all of them together.
    pub(super) fn total(&self) -> Totals {
        self.processes.values().fold(self.gone, |sum, totals| sum.plus(*totals))
    }

    /// Whether the status has at least these counts of a process, so that nobody else needs to remember them.
    pub(super) fn has(&self, process: &Process, totals: &Totals) -> bool {
        self.processes.get(process).is_some_and(|held| held.max(*totals) == *held)
    }

    /// As a status has it. Of more processes than it lists those are listed that it had before.
    pub(super) fn told(&self) -> Counted {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut listed: Vec<_> = self.processes.iter().collect();
        listed.sort_by_key(|(process, _)| !self.recorded.contains(*process));
        listed.truncate(STATUS_PROCESSES_MAX);
        listed.sort_by_key(|(process, _)| *process);
        let count = |(process, totals): (&Process, &Totals)| ProcessCount {
            pod: process.pod.clone(),
            incarnation: hex::encode(process.incarnation),
            tensors: signed(totals.tensors),
            bytes: signed(totals.bytes),
            forwarded: signed(totals.forwarded),
        };
        Counted {
            tensors: signed(self.gone.tensors),
            bytes: signed(self.gone.bytes),
            forwarded: signed(self.gone.forwarded),
            processes: listed.into_iter().map(count).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pod: &str, incarnation: u8) -> Process {
        Process { pod: pod.to_owned(), incarnation: [incarnation; 16] }
    }

    fn tensors(tensors: u64) -> Totals {
        Totals { tensors, bytes: 10 * tensors, forwarded: 0 }
    }

    fn heard(counts: &[(&str, u8, u64)]) -> BTreeMap<Process, Totals> {
        counts.iter().map(|(pod, number, count)| (process(pod, *number), tensors(*count))).collect()
    }

    /// The status after another look at `counts`; pods of `there` are there.
    fn next(
        status: &TransferSessionStatus,
        counts: &[(&str, u8, u64)],
        there: &[&str],
    ) -> TransferSessionStatus {
        let heard = heard(counts);
        let mut ledger = Ledger::read(status, &heard);
        ledger.hear(&heard, |process| there.contains(&process.pod.as_str()));
        TransferSessionStatus {
            tensors_transferred: i64::try_from(ledger.total().tensors).ok(),
            bytes_transferred: i64::try_from(ledger.total().bytes).ok(),
            counted: Some(ledger.told()),
            ..TransferSessionStatus::default()
        }
    }

    fn total(status: &TransferSessionStatus) -> i64 {
        status.tensors_transferred.unwrap()
    }

    #[test]
    fn another_leader_goes_on_where_the_first_one_was() {
        let both = ["a", "b"];
        let status = next(&TransferSessionStatus::default(), &[("a", 1, 100), ("b", 1, 50)], &both);
        assert_eq!(total(&status), 150);
        // It knows nobody yet, then one, which has counted on, then a new process of the other.
        let status = next(&status, &[], &both);
        assert_eq!(total(&status), 150);
        let status = next(&status, &[("a", 1, 130)], &both);
        assert_eq!(total(&status), 180);
        let status = next(&status, &[("a", 1, 130), ("b", 2, 5)], &both);
        assert_eq!(total(&status), 185);
        // A pod that is gone for good is one number, and its tensors stay.
        let status = next(&status, &[("a", 1, 140)], &["a"]);
        assert_eq!(total(&status), 195);
        let counted = status.counted.clone().unwrap();
        assert_eq!((counted.tensors, counted.bytes, counted.processes.len()), (55, 550, 1));
    }

    #[test]
    fn the_same_look_at_the_same_status_is_the_same() {
        let first = next(&TransferSessionStatus::default(), &[("a", 1, 100), ("b", 1, 50)], &["a", "b"]);
        let look = || next(&first, &[("a", 1, 100)], &["a"]);
        assert_eq!(look(), look());
        assert_eq!(total(&look()), 150);
    }

    #[test]
    fn totals_of_an_earlier_release_are_counted_once() {
        let stated = TransferSessionStatus {
            tensors_transferred: Some(500),
            bytes_transferred: Some(5000),
            ..TransferSessionStatus::default()
        };
        let status = next(&stated, &[("a", 1, 100)], &["a"]);
        assert_eq!(total(&status), 500);
        assert_eq!(total(&next(&status, &[("a", 1, 101)], &["a"])), 501);
    }

    #[test]
    fn what_a_status_has_nobody_else_remembers() {
        let status = next(&TransferSessionStatus::default(), &[("a", 1, 100)], &["a"]);
        let ledger = Ledger::read(&status, &BTreeMap::new());
        assert!(ledger.has(&process("a", 1), &tensors(100)));
        assert!(!ledger.has(&process("a", 1), &tensors(101)) && !ledger.has(&process("a", 2), &tensors(1)));
    }

    #[test]
    fn of_more_processes_than_it_lists_those_stay_that_it_had() {
        let names: Vec<String> = (0..STATUS_PROCESSES_MAX + 9).map(|number| format!("{number:04}")).collect();
        let count = |names: &[String]| names.iter().map(|name| (process(name, 1), tensors(1))).collect();
        let there: BTreeMap<Process, Totals> = count(&names[9..]);
        let all: BTreeMap<Process, Totals> = count(&names);
        let mut ledger = Ledger::default();
        ledger.hear(&there, |_| true);
        let status = TransferSessionStatus { counted: Some(ledger.told()), ..Default::default() };
        let mut ledger = Ledger::read(&status, &all);
        ledger.hear(&all, |_| true);
        assert_eq!(ledger.told().processes, status.counted.unwrap().processes);
        assert_eq!(ledger.total().tensors, all.len() as u64);
    }
}

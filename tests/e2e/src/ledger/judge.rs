//! Joins what senders were told with what receivers took.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    accounts::{Account, Fate},
    entry::{Book, Entry, Role, Run},
    finding::{Figures, Finding, Tensor, Verdict},
    rules::{Delivery, Rules},
};

/// A tensor by the process that put it and its index there.
type Key = (String, u64);

/// One taking.
struct Taking {
    peer: String,
    pod: String,
}

/// Everything that the ledgers of one load say.
struct Case<'a> {
    books: &'a [Book],
    rules: &'a Rules,
    accounts: BTreeMap<String, Account>,
    taken: BTreeMap<Key, Vec<Taking>>,
    /// Receiving pods whose tensors may be uncertain.
    lost: BTreeSet<String>,
    findings: Vec<Finding>,
    figures: Figures,
}

/// Decides whether the promises were kept.
#[must_use]
pub fn judge(books: &[Book], rules: &Rules) -> Verdict {
    let mut case = Case {
        books,
        rules,
        accounts: BTreeMap::new(),
        taken: BTreeMap::new(),
        lost: rules.lost.clone(),
        findings: Vec::new(),
        figures: Figures::default(),
    };
    case.open_accounts();
    case.read_takings();
    case.check_repeats();
    case.check_fates();
    case.check_interruptions();
    case.check_ends();
    Verdict { figures: case.figures, findings: case.findings }
}

impl<'a> Case<'a> {
    fn of_role(&self, role: Role) -> impl Iterator<Item = (&'a Book, &'a Run)> + use<'a> {
        self.books
            .iter()
            .flat_map(|book| book.runs.iter().map(move |run| (book, run)))
            .filter(move |(_, run)| run.role == role)
    }

    fn receiving_books(&self) -> impl Iterator<Item = &'a Book> + use<'a> {
        self.books.iter().filter(|book| book.runs.iter().any(|run| run.role == Role::Receiver))
    }

    fn open_accounts(&mut self) {
        for (book, run) in self.of_role(Role::Sender) {
            let account = Account::of(book.name(), &book.pod, run, &mut self.findings);
            self.accounts.insert(run.id.clone(), account);
        }
        for book in self.books {
            let dead = book.dead(self.rules).count();
            self.figures.dead += dead;
            if dead > 0 && book.runs.iter().any(|run| run.role == Role::Receiver) {
                self.lost.insert(book.pod.clone());
            }
        }
    }

    fn read_takings(&mut self) {
        for (book, run) in self.of_role(Role::Receiver) {
            let mut last: BTreeMap<&str, u64> = BTreeMap::new();
            for (_, entry) in &run.entries {
                let Entry::Took { of, index, sequence, sender, whole } = entry else { continue };
                self.figures.taken += 1;
                let tensor = self.check_taking(book, of, *index, *sequence, sender, *whole);
                self.taken
                    .entry((of.clone(), *index))
                    .or_default()
                    .push(Taking { peer: book.peer.clone(), pod: book.pod.clone() });
                let after = last.insert(of, *sequence);
                if let Some(after) = after.filter(|after| after >= sequence && !self.rules.redirected) {
                    let (taker, sequence) = (book.name(), *sequence);
                    self.findings.push(Finding::Disordered { tensor, taker, after, sequence });
                }
            }
        }
    }

    fn check_taking(
        &mut self,
        book: &Book,
        of: &str,
        index: u64,
        sequence: u64,
        sender: &str,
        whole: bool,
    ) -> Tensor {
        let taker = book.name();
        let Some(account) = self.accounts.get(of) else {
            let tensor = Tensor { pod: sender.to_owned(), run: of.to_owned(), index };
            self.findings.push(Finding::Ghost { tensor: tensor.clone(), taker });
            return tensor;
        };
        let tensor = account.tensor(index);
        let numbered = account.tensors.get(&index).map(|(sequence, _)| *sequence);
        let what = if !whole {
            Some("bytes")
        } else if numbered.is_some_and(|numbered| numbered != sequence) {
            Some("sequence")
        } else {
            (account.name != sender).then_some("sender")
        };
        if let Some(what) = what {
            let taker = taker.clone();
            self.findings.push(Finding::Corrupted { tensor: tensor.clone(), taker, what });
        }
        if numbered.is_none() && !account.pending.contains(&index) {
            self.findings.push(Finding::Ghost { tensor: tensor.clone(), taker });
        }
        tensor
    }

    /// Nothing twice: per Peer, or per replica of a broadcast.
    fn check_repeats(&mut self) {
        for ((run, index), takings) in &self.taken {
            let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for taking in takings {
                let place = match self.rules.delivery {
                    Delivery::RoundRobin => &taking.peer,
                    Delivery::Broadcast => &taking.pod,
                };
                places.entry(place).or_default().push(taking.pod.clone());
            }
            for takers in places.into_values().filter(|takers| takers.len() > 1) {
                let pod = self.accounts.get(run).map(|account| account.pod.clone()).unwrap_or_default();
                let tensor = Tensor { pod, run: run.clone(), index: *index };
                self.findings.push(Finding::Twice { tensor, takers });
            }
        }
    }

    /// Nothing lost without a word, and no doubt without a cause.
    fn check_fates(&mut self) {
        // A process that died between taking and noting it: one tensor each.
        let mut unnoted: BTreeMap<String, usize> = BTreeMap::new();
        for book in self.receiving_books() {
            let dying = book.dead(self.rules).filter(|run| run.was_taking()).count();
            *unnoted.entry(book.peer.clone()).or_default() += dying;
        }
        let over: BTreeSet<&str> = self
            .of_role(Role::Sender)
            .filter(|(_, run)| run.is_closed())
            .map(|(_, run)| run.id.as_str())
            .collect();
        let accounts = std::mem::take(&mut self.accounts);
        for account in accounts.values() {
            for (index, (sequence, fate)) in &account.tensors {
                let takings = self.taken.get(&(account.run.clone(), *index)).map_or(&[][..], Vec::as_slice);
                let missing = self.missing(takings);
                let (tensor, sequence) = (account.tensor(*index), *sequence);
                self.figures.numbered += 1;
                match fate {
                    Fate::Confirmed => {
                        self.figures.confirmed += 1;
                        for peer in missing {
                            let spare = unnoted.get_mut(&peer).filter(|spare| **spare > 0);
                            if let Some(spare) = spare {
                                *spare -= 1;
                                continue;
                            }
                            let tensor = tensor.clone();
                            self.findings.push(Finding::Lost { tensor, sequence, peer });
                        }
                    }
                    Fate::Uncertain => {
                        self.figures.uncertain += 1;
                        self.figures.uncertain_taken += usize::from(!takings.is_empty());
                        if let Some(why) = self.groundless(takings, &missing) {
                            let (tensor, pod) = (Some(tensor), account.pod.clone());
                            self.findings.push(Finding::WronglyUncertain { tensor, pod, sequence, why });
                        }
                    }
                    Fate::Open if over.contains(account.run.as_str()) => {
                        self.findings.push(Finding::Unsettled { tensor, sequence });
                    }
                    Fate::Open => self.figures.untold += 1,
                }
            }
        }
        self.accounts = accounts;
    }

    /// Peers (replicas of a broadcast) that should have taken a tensor and did not. Replicas of a broadcast that were
    /// lost are not waited for.
    fn missing(&self, takings: &[Taking]) -> Vec<String> {
        let mut places: BTreeSet<&str> = BTreeSet::new();
        for book in self.receiving_books() {
            match self.rules.delivery {
                Delivery::RoundRobin => places.insert(&book.peer),
                Delivery::Broadcast if self.lost.contains(&book.pod) => false,
                Delivery::Broadcast => places.insert(&book.pod),
            };
        }
        for taking in takings {
            match self.rules.delivery {
                Delivery::RoundRobin => places.remove(taking.peer.as_str()),
                Delivery::Broadcast => places.remove(taking.pod.as_str()),
            };
        }
        places.into_iter().map(str::to_owned).collect()
    }

    /// Why a tensor cannot be uncertain, if so: receivers that were never lost would have told.
    fn groundless(&self, takings: &[Taking], missing: &[String]) -> Option<&'static str> {
        if self.lost.is_empty() {
            return Some("no receiver was lost");
        }
        if self.rules.delivery == Delivery::Broadcast {
            return None;
        }
        let living = |taking: &Taking| !self.lost.contains(&taking.pod);
        (missing.is_empty() && takings.iter().all(living)).then_some("receivers that were never lost took it")
    }

    /// Once for every sending process that died, at every receiving pod that lived through it all.
    fn check_interruptions(&mut self) {
        let senders: Vec<&Book> =
            self.books.iter().filter(|book| book.runs.iter().any(|run| run.role == Role::Sender)).collect();
        for receiver in self.receiving_books() {
            let mut told: BTreeMap<&str, usize> = BTreeMap::new();
            for (_, entry) in receiver.runs.iter().flat_map(|run| &run.entries) {
                if let Entry::Interrupted { sender } = entry {
                    *told.entry(sender).or_default() += 1;
                    self.figures.interruptions += 1;
                }
            }
            let unharmed = !self.lost.contains(&receiver.pod) && !self.rules.gone.contains(&receiver.pod);
            for sender in &senders {
                let dead = sender.dead(self.rules).filter(|run| run.has_opened()).count();
                let failed = sender.runs.iter().filter(|run| run.is_over() && !run.is_closed()).count();
                let away = self.rules.away.get(&sender.pod).copied().unwrap_or(0);
                // A lane that failed is over for its receivers too, though not every failure reaches them.
                let (least, most) = (if unharmed { dead } else { 0 }, dead + failed + away);
                let name = sender.name();
                let told = told.remove(name.as_str()).unwrap_or(0);
                if told < least || told > most {
                    let receiver = receiver.name();
                    self.findings.push(Finding::Interruptions { receiver, sender: name, told, least, most });
                }
            }
            for (sender, told) in told {
                let (receiver, sender) = (receiver.name(), sender.to_owned());
                self.findings.push(Finding::Interruptions { receiver, sender, told, least: 0, most: 0 });
            }
        }
    }

    /// Every process that the test did not end came to its end without an error.
    fn check_ends(&mut self) {
        for book in self.books {
            let dead: BTreeSet<&str> = book.dead(self.rules).map(|run| run.id.as_str()).collect();
            for run in &book.runs {
                let (pod, id) = (book.pod.clone(), run.id.clone());
                if !run.is_over() && !dead.contains(run.id.as_str()) {
                    self.findings.push(Finding::Unfinished { pod, run: id });
                    continue;
                }
                for (_, entry) in &run.entries {
                    self.check_error(&book.pod, run, entry);
                }
            }
        }
    }

    fn check_error(&mut self, pod: &str, run: &Run, entry: &Entry) {
        match entry {
            Entry::Error { during, kind, reason, message } => {
                let expected = &self.rules.errors;
                if !expected.contains(kind) && !expected.contains(&format!("{kind}/{reason}")) {
                    let error = format!("{during}: {kind}/{reason}: {message}");
                    self.findings.push(Finding::Failed { pod: pod.to_owned(), run: run.id.clone(), error });
                }
            }
            Entry::Refused { indexes, kind, reason } if !self.rules.refusals => {
                for index in indexes {
                    let tensor = Tensor { pod: pod.to_owned(), run: run.id.clone(), index: *index };
                    self.findings.push(Finding::Refused { tensor, reason: format!("{kind}/{reason}") });
                }
            }
            _ => {}
        }
    }
}

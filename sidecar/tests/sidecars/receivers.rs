//! Every row of the second table in `docs/ends.md`: what becomes of a sender's tensors, played by real sidecars.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use sealane_sidecar::desired::{Desired, Listing, Remote, Replica};
use sealane_sidecar::handoff::{Delivery, Lanes, SenderEvent, Sequence};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::{Receiver, parcel, try_sender};
use crate::support::{LIMIT, Plan, Sidecar, at_rest, loopback, until, until_or, within};

const TABLE: &str = include_str!("../../../docs/ends.md");
/// Of every receiver.
const PORT: u16 = 9000;
/// Rows that are played at once: most of the time of each is spent waiting.
const AT_ONCE: usize = 6;

/// What the application that sends does next.
#[derive(Debug)]
enum Act {
    Put,
    Close,
}

/// A pod that receives, or did.
struct Receiving {
    /// Running, or how to start it again.
    sidecar: Result<Sidecar, Plan>,
    application: Option<Receiver>,
    /// What the application has and has not said to have taken.
    held: Vec<Delivery>,
}

/// What the sender's application knows.
#[derive(Debug, Default)]
struct Known {
    tensors: BTreeMap<u64, &'static str>,
    end: Option<&'static str>,
    /// How often it was told anything.
    news: u64,
}

impl Known {
    fn hears(&mut self, first: Sequence, last: Sequence, fate: &'static str) {
        for sequence in first.0..=last.0 {
            self.news += 1;
            self.tensors.entry(sequence).and_modify(|fate| *fate = "told twice").or_insert(fate);
        }
    }

    fn ends(&mut self, end: &'static str) {
        self.news += 1;
        self.end.get_or_insert(end);
    }
}

struct Stage {
    sender: Sidecar,
    acts: Option<mpsc::UnboundedSender<Act>>,
    known: Arc<Mutex<Known>>,
    addresses: BTreeMap<String, SocketAddr>,
    receivers: BTreeMap<String, Receiving>,
}

impl Stage {
    fn new() -> Self {
        Self {
            sender: Plan::sender(&[]).start(),
            acts: None,
            known: Arc::default(),
            addresses: BTreeMap::new(),
            receivers: BTreeMap::new(),
        }
    }

    /// Where a pod listens once it is there: its host is its own.
    fn address(&mut self, name: &str) -> SocketAddr {
        *self.addresses.entry(name.to_owned()).or_insert_with(|| SocketAddr::new(loopback().ip(), PORT))
    }

    fn desired(&mut self, names: &[&str]) -> Desired {
        let replicas = names.iter().map(|name| Replica {
            id: (*name).to_owned(),
            addresses: vec![self.address(name)],
            incarnation: None,
            ordinal: None,
        });
        let remote =
            Remote { peer: "ranker".parse().unwrap(), replicas: replicas.collect(), listing: Listing::Whole };
        let mut desired = self.sender.plan.desired();
        desired.sessions[0].remotes = vec![remote];
        desired
    }

    fn starts(&mut self, name: &'static str) {
        let listen = self.address(name);
        let (pod, uid) = name.split_once('/').unwrap();
        let chain = self.sender.plan.chain.clone();
        let fresh = || Plan { pod, uid, listen, chain, ..Plan::receiver() };
        let plan = match self.receivers.remove(name) {
            Some(Receiving { sidecar: Ok(_), .. }) => panic!("{name} runs"),
            Some(Receiving { sidecar: Err(plan), .. }) => plan,
            None => fresh(),
        };
        let receiving = Receiving { sidecar: Ok(plan.start()), application: None, held: Vec::new() };
        self.receivers.insert(name.to_owned(), receiving);
    }

    /// Its application opens its lane, which takes until the sender is connected.
    async fn receives(&mut self, name: &'static str) {
        if self.receivers.get(name).is_none_or(|receiving| receiving.sidecar.is_err()) {
            self.starts(name);
        }
        let receiving = self.receivers.get_mut(name).unwrap();
        let lanes = &receiving.sidecar.as_ref().ok().unwrap().lanes;
        receiving.application = Some(Receiver::open(lanes, 1 << 20).await);
    }

    fn sends(&mut self) {
        let (acts, doing) = mpsc::unbounded_channel();
        tokio::spawn(sending(self.sender.lanes.clone(), doing, Arc::clone(&self.known)));
        self.acts = Some(acts);
    }

    fn act(&self, act: Act) {
        self.acts.as_ref().unwrap().send(act).unwrap();
    }

    async fn gets(&mut self, name: &str) {
        let receiving = self.receivers.get_mut(name).unwrap();
        let delivery = receiving.application.as_mut().unwrap().tensor().await;
        receiving.held.push(delivery);
    }

    /// Says that everything it has was taken, of which there has to be something, and waits until the sender has heard.
    async fn takes(&mut self, name: &str) {
        if self.receivers[name].held.is_empty() {
            self.gets(name).await;
        }
        let receiving = self.receivers.get_mut(name).unwrap();
        let held = std::mem::take(&mut receiving.held);
        for delivery in &held {
            receiving.application.as_ref().unwrap().take(delivery);
        }
        until("the sender hears of it", || {
            let tensors = &self.known.lock().unwrap().tensors;
            held.iter().all(|delivery| tensors.contains_key(&delivery.sequence.0))
        })
        .await;
    }

    async fn step(&mut self, step: &'static str) {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        match verb {
            "lists" => {
                let names: Vec<&str> = rest.split_whitespace().collect();
                let desired = self.desired(&names);
                self.sender.apply(desired);
            }
            "starts" => self.starts(rest),
            "receives" | "returns" => self.receives(rest).await,
            "sends" => self.sends(),
            "puts" => self.act(Act::Put),
            "closes" => self.act(Act::Close),
            "gets" => self.gets(rest).await,
            "takes" => self.takes(rest).await,
            "leaves" => {
                let receiving = self.receivers.get_mut(rest).unwrap();
                receiving.held.clear();
                receiving.application = None;
            }
            "dies" => {
                let Receiving { sidecar, application, .. } = self.receivers.remove(rest).unwrap();
                let plan = sidecar.ok().unwrap().kill();
                // Dropped before, it would be an application that leaves a sidecar that runs.
                drop(application);
                let receiving = Receiving { sidecar: Err(plan), application: None, held: Vec::new() };
                self.receivers.insert(rest.to_owned(), receiving);
            }
            "deleted" => {
                let mut desired = self.sender.plan.desired();
                desired.sessions.clear();
                self.sender.apply(desired);
            }
            _ => panic!("`{step}` is no step"),
        }
    }

    fn seen(&self) -> String {
        let known = self.known.lock().unwrap();
        let tensors = known.tensors.iter().map(|(sequence, fate)| format!("{sequence} {fate}"));
        tensors.chain(known.end.map(str::to_owned)).collect::<Vec<_>>().join(", ")
    }
}

/// The application that sends.
async fn sending(lanes: Lanes, mut doing: mpsc::UnboundedReceiver<Act>, known: Arc<Mutex<Known>>) {
    // A row may end before anybody receives.
    let Ok((lane, mut events)) = try_sender(&lanes, 0, Instant::now() + LIMIT).await else { return };
    let told = Arc::clone(&known);
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let mut known = told.lock().unwrap();
            match event {
                SenderEvent::Taken { first, last } => known.hears(first, last, "taken"),
                SenderEvent::Uncertain { first, last } => known.hears(first, last, "uncertain"),
                SenderEvent::Failed(_) => known.ends("failed"),
                SenderEvent::Assigned { .. } => {}
            }
        }
    });
    let mut next = 0;
    while let Some(act) = doing.recv().await {
        match act {
            Act::Put => {
                // Refused on a lane that is over, which `failed` tells.
                let _ = lane.offer(parcel(next, 100)).await;
                next += 1;
            }
            Act::Close => {
                let end = if lane.close().await.is_ok() { "closed" } else { "closed with loss" };
                known.lock().unwrap().ends(end);
            }
        }
    }
}

/// What came of a row, if it is not what the table says.
async fn play(row: &'static str) -> Option<String> {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [what, steps, sees] = cells[..] else { panic!("{row}") };
    let expected = if sees == "waits" { "" } else { sees.trim_matches('`') };
    let mut stage = Stage::new();
    for step in steps.trim_matches('`').split(';').map(str::trim) {
        within(&format!("{what}: {step}"), stage.step(step)).await;
    }
    until_or(
        || !expected.starts_with(&stage.seen()) || stage.seen() == expected,
        || format!("{what}: saw `{}`, expected `{expected}`", stage.seen()),
    )
    .await;
    // Nothing comes after it, as far as a second tells.
    at_rest("what was seen", || stage.known.lock().unwrap().news).await;
    let seen = stage.seen();
    (seen != expected).then(|| format!("{what}: saw `{seen}`, expected `{expected}`"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_of_the_table_of_tensors_is_so_among_sidecars() {
    let (_, table) = TABLE.split_once("\n## ").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let wrong: Vec<Option<String>> =
        futures::stream::iter(rows).map(play).buffer_unordered(AT_ONCE).collect().await;
    assert_eq!(wrong.len(), 17, "rows of docs/ends.md");
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

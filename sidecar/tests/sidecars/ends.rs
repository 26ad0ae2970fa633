//! The rows of the first table in `docs/ends.md`, played by real sidecars.
//!
//! Each sender that opens puts a tensor of its own first, and the step is over when the receiver has taken it: only then does
//! the receiver know of the stream. These tensors are left out of what the receiver saw.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use sealane_sidecar::desired::{Desired, Listing, Remote, Replica};
use sealane_sidecar::handoff::{
    Deliveries, LaneError, LaneIncarnation, Parcel, ReceiverLane, SenderEvent, SenderLane, Sequence,
    TakeArena, TensorHeader, Turn,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::client::{Arena, assignments, parcel, passing_on};
use crate::support::{LIMIT, Plan, Sidecar, at_rest, document, entry, signed, until, until_or, within};

const TABLE: &str = include_str!("../../../docs/ends.md");
/// The name of the tensor that says that its stream is open.
const HELLO: &str = "hello";
/// Whether a receiver without an application knows of a stream shows nowhere, so nobody can die right after; and a sidecar whose
/// pod is said to be gone runs on here, and dials again.
const NOT_PLAYED: [&str; 2] = ["Lost before the receiver is there", "Replaced before its connection ends"];
/// More senders than any row has.
const EXTRA: u64 = 10;
/// Rows that are played at once: most of the time of each is spent waiting.
const AT_ONCE: usize = 6;

/// One who sends, or did.
struct Sending {
    /// Running, or how to start it again.
    sidecar: Result<Sidecar, Plan>,
    lane: Option<Arc<SenderLane>>,
    events: Arc<Mutex<Vec<SenderEvent>>>,
    incarnation: u8,
    /// Names of the tensors of this incarnation, by sequence.
    names: Vec<String>,
    closing: Option<JoinHandle<Result<(), LaneError>>>,
}

/// What the receiver's application saw: tensors by sender and name, and whatever else came.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Tensor { sender: String, name: String },
    Other(String),
}

type Log = Arc<Mutex<Vec<Seen>>>;

struct Stage {
    receiver: Sidecar,
    /// Whether there is an application that takes.
    is_received: bool,
    senders: BTreeMap<String, Sending>,
    log: Log,
}

/// Peer and `pod/uid`.
fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("embedder", name))
}

/// As the receiver is told who sent a tensor: Peer and pod.
fn shown(name: &str) -> String {
    let (peer, id) = split(name);
    format!("{peer}/{}", id.split_once('/').unwrap().0)
}

fn named(name: &str, sequence: u64) -> Parcel {
    let parcel = parcel(sequence, 6);
    Parcel { header: TensorHeader { name: name.to_owned(), ..parcel.header }, ..parcel }
}

impl Stage {
    fn new(steps: &[&str]) -> Self {
        let mut policy = document(1);
        policy["peers"]["other"] = entry("other");
        let needs = steps.iter().find_map(|step| step.strip_prefix("needs "));
        let mut rule = json!({"from": "embedder", "to": "ranker", "stream": {}});
        if let Some(needs) = needs {
            rule["senders"] = json!({"min": needs.parse::<u32>().unwrap()});
        }
        policy["sessions"] = json!([rule, {"from": "other", "to": "ranker", "stream": {}}]);
        let receiver = Plan { chain: signed(&policy, &[1, 2]), ..Plan::receiver() }.start();
        Self { receiver, is_received: false, senders: BTreeMap::new(), log: Log::default() }
    }

    fn desired(&self, names: &[&str], listing: Listing) -> Desired {
        let mut desired = self.receiver.plan.desired();
        let remote = |peer: &str| {
            let of_peer = names.iter().map(|name| split(name)).filter(|(of, _)| *of == peer);
            let replica = |(_, id): (&str, &str)| Replica {
                id: id.to_owned(),
                addresses: vec![],
                incarnation: None,
                ordinal: None,
            };
            Remote { peer: peer.parse().unwrap(), replicas: of_peer.map(replica).collect(), listing }
        };
        desired.sessions[0].remotes = vec![remote("embedder"), remote("other")];
        desired
    }

    /// Lists them, and waits until the session goes by it. What it shows is how many are expected or connected, so more are
    /// expected for a moment than can be connected.
    async fn lists(&self, names: &[&str], listing: Listing) {
        let extra: Vec<String> = (0..EXTRA).map(|number| format!("extra/{number}")).collect();
        let more: Vec<&str> = names.iter().copied().chain(extra.iter().map(String::as_str)).collect();
        self.receiver.apply(self.desired(&more, listing));
        until("more are expected", || self.expected() >= EXTRA).await;
        self.receiver.apply(self.desired(names, listing));
        until("no more are expected", || self.expected() < EXTRA).await;
    }

    /// How many senders are expected or connected.
    fn expected(&self) -> u64 {
        let series = r#"sealane_connections_desired{session="activations",direction="receiving"} "#;
        let text = self.receiver.node.render_metrics().unwrap();
        text.lines().find_map(|line| line.strip_prefix(series)?.parse().ok()).unwrap_or_default()
    }

    /// The application opens its lane, which takes until somebody is connected, and notes in the background what comes of it.
    fn receives(&mut self) {
        let (arena, lanes, log) = (Arena::new(1 << 20), self.receiver.lanes.clone(), Arc::clone(&self.log));
        self.is_received = true;
        tokio::spawn(async move {
            let session = "activations".parse().unwrap();
            let deadline = Instant::now() + LIMIT;
            let (lane, deliveries) =
                lanes.open_receiver(session, Arc::clone(&arena) as Arc<_>, deadline).await.unwrap();
            noting(deliveries, arena, lane, log).await;
        });
    }

    fn hellos(&self, sender: &str) -> usize {
        let hello = Seen::Tensor { sender: sender.to_owned(), name: HELLO.to_owned() };
        self.log.lock().unwrap().iter().filter(|seen| **seen == hello).count()
    }

    /// Starts the sidecar if it is not there, opens a lane of the application of `incarnation` and puts what it keeps.
    async fn opens(&mut self, name: &str, again: bool) {
        let (peer, id) = split(String::leak(name.to_owned()));
        let (pod, uid) = id.split_once('/').unwrap();
        let fresh = || Plan {
            peer,
            proves: peer,
            pod,
            uid,
            chain: self.receiver.plan.chain.clone(),
            ..Plan::sender(&[self.receiver.address])
        };
        let before = self.senders.remove(name);
        let (sidecar, incarnation, mut names) = match before {
            None => (fresh().start(), 1, Vec::new()),
            Some(Sending { sidecar, incarnation, names, .. }) => {
                let sidecar = sidecar.unwrap_or_else(Plan::start);
                if again { (sidecar, incarnation, names) } else { (sidecar, incarnation + 1, Vec::new()) }
            }
        };
        let number = LaneIncarnation([incarnation; 16]);
        let session = "activations".parse().unwrap();
        let opened = sidecar.lanes.open_sender(session, number, Sequence(0), Instant::now() + LIMIT);
        let (lane, events) = within(name, opened).await.unwrap();
        let (lane, events) = (Arc::new(lane), passing_on(events));
        for (sequence, name) in (0..).zip(&names) {
            lane.offer(named(name, sequence)).await.unwrap();
        }
        let sidecar = Ok(sidecar);
        if self.is_received {
            let (sender, hellos) = (shown(name), self.hellos(&shown(name)));
            lane.offer(named(HELLO, names.len() as u64)).await.unwrap();
            names.push(HELLO.to_owned());
            until(&format!("{name} says hello"), || self.hellos(&sender) > hellos).await;
        }
        let sending = Sending { sidecar, lane: Some(lane), events, incarnation, names, closing: None };
        self.senders.insert(name.to_owned(), sending);
    }

    /// Puts one more tensor, named by its number among those that are no greetings, and waits until it has gone to somebody.
    async fn puts(&mut self, name: &str) {
        let sending = self.senders.get_mut(name).unwrap();
        let sequence = sending.names.len() as u64;
        let number = sending.names.iter().filter(|name| *name != HELLO).count().to_string();
        sending.lane.as_ref().unwrap().offer(named(&number, sequence)).await.unwrap();
        sending.names.push(number);
        let events = &sending.events;
        until("it is assigned", || {
            let events = events.lock().unwrap();
            assignments(&events).any(|(span, _)| span.first == Sequence(sequence))
        })
        .await;
        self.nothing_untaken(name).await;
    }

    /// Waits until the receiver's application has taken all that this one put, if there is one.
    async fn nothing_untaken(&self, name: &str) {
        if self.is_received {
            let lane = self.senders[name].lane.as_ref().unwrap();
            within("a flush", lane.flush()).await.unwrap();
        }
    }

    /// Closes, and waits for the receiver's word where nothing has to be taken before.
    async fn closes(&mut self, name: &str) {
        let is_received = self.is_received;
        let sending = self.senders.get_mut(name).unwrap();
        let lane = Arc::clone(sending.lane.as_ref().unwrap());
        let closing = tokio::spawn(async move { lane.close().await });
        if is_received || sending.names.is_empty() {
            within("a close", closing).await.unwrap().unwrap();
        } else {
            sending.closing = Some(closing);
        }
    }

    /// Everything that was put before has been acknowledged by then.
    fn dies(&mut self, name: &str) {
        let sending = self.senders.get_mut(name).unwrap();
        let plan = match std::mem::replace(&mut sending.sidecar, Err(Plan::receiver())) {
            Ok(sidecar) => sidecar.kill(),
            Err(plan) => plan,
        };
        sending.sidecar = Err(plan);
        // Dropped before, it would be a client that leaves a sidecar that runs, which is told to the receiver.
        sending.lane = None;
    }

    async fn step(&mut self, step: &str) {
        let mut words = step.split_whitespace();
        let verb = words.next().unwrap();
        let names: Vec<&str> = words.collect();
        let name = names.first().copied().unwrap_or_default();
        match verb {
            "lists" => self.lists(&names, Listing::Whole).await,
            "anyone" => self.lists(&[], Listing::Open).await,
            // In the policy from the start.
            "needs" => {}
            "receives" => self.receives(),
            "opens" | "restarts" => self.opens(name, false).await,
            "returns" => self.opens(name, true).await,
            "dies" => self.dies(name),
            "puts" => self.puts(name).await,
            // An application that comes back puts again what it kept.
            "repeats" => self.nothing_untaken(name).await,
            "closes" => self.closes(name).await,
            "patience" => {
                let interruption = |seen: &Seen| matches!(seen, Seen::Other(words) if words != "end");
                until("an interruption", || self.log.lock().unwrap().iter().any(interruption)).await;
            }
            "deleted" => {
                let mut desired = self.receiver.plan.desired();
                desired.sessions.clear();
                self.receiver.apply(desired);
            }
            _ => panic!("`{step}` is no step"),
        }
    }

    /// What the receiver saw, greetings aside.
    fn seen(&self) -> String {
        let log = self.log.lock().unwrap();
        let words = log.iter().filter_map(|seen| match seen {
            Seen::Tensor { name, .. } if name == HELLO => None,
            Seen::Tensor { name, .. } => Some(name.clone()),
            Seen::Other(words) => Some(words.clone()),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Takes what comes.
async fn noting(mut deliveries: Deliveries, arena: Arc<Arena>, lane: ReceiverLane, log: Log) {
    while let Some(turn) = deliveries.next().await {
        let seen = match turn {
            Turn::Tensor(delivery) => {
                lane.taken(&[delivery.id]);
                arena.release(delivery.slot);
                Seen::Tensor { sender: delivery.sender, name: delivery.header.name }
            }
            Turn::Interrupted { sender } => Seen::Other(format!("interrupted {sender}")),
            Turn::End => Seen::Other("end".to_owned()),
            Turn::Failed(_) => Seen::Other("failed".to_owned()),
        };
        log.lock().unwrap().push(seen);
    }
}

/// What came of a row, if it is not what the table says.
async fn play(row: &str) -> Option<String> {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [what, steps, sees] = cells[..] else { panic!("{row}") };
    let steps: Vec<&str> = steps.trim_matches('`').split(';').map(str::trim).collect();
    let expected = if sees == "waits" { "" } else { sees.trim_matches('`') };
    let mut stage = Stage::new(&steps);
    for step in &steps {
        stage.step(step).await;
    }
    // Whoever closed has the receiver's word that it had everything: what comes of that is on its way to the application.
    for sending in stage.senders.values_mut() {
        if let Some(closing) = sending.closing.take() {
            within("a close", closing).await.unwrap().unwrap();
        }
    }
    until_or(
        || !expected.starts_with(&stage.seen()) || stage.seen() == expected,
        || format!("{what}: saw `{}`, expected `{expected}`", stage.seen()),
    )
    .await;
    // Nothing comes after it, as far as a second tells.
    at_rest("what was seen", || stage.log.lock().unwrap().len() as u64).await;
    let seen = stage.seen();
    (seen != expected).then(|| format!("{what}: saw `{seen}`, expected `{expected}`"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_of_the_table_of_ends_is_so_among_sidecars() {
    let (table, _) = TABLE.split_once("\n## ").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let rows = rows.filter(|row| !NOT_PLAYED.iter().any(|what| row.starts_with(&format!("| {what} |"))));
    let wrong: Vec<Option<String>> =
        futures::stream::iter(rows).map(play).buffer_unordered(AT_ONCE).collect().await;
    assert_eq!(wrong.len(), 32, "rows of docs/ends.md");
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

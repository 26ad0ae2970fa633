//! Every row of the first table in `docs/ends.md`, held against the receiving side.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealane_protocol::Moment;
use sealane_protocol::frame::{End, Frame, StreamId};
use sealane_types::{PodIdentity, Reason};
use serde_json::json;

use super::{Client, Wire, arrival, receiving, session};
use crate::context::tests::{context, permit};
use crate::desired::{Listing, Remote, Replica};
use crate::handoff::Turn;
use crate::session::arrival::Arrival;
use crate::session::incoming::Receiving;
use crate::session::incoming::traffic::Attached;

const TABLE: &str = include_str!("../../../../../docs/ends.md");

/// One who sends, or did.
#[derive(Default)]
struct Sending {
    wire: Option<Wire>,
    lane: u32,
    tensors: u64,
    bytes: u64,
}

struct Stage {
    receiving: Arc<Receiving>,
    client: Option<Client>,
    senders: BTreeMap<String, Sending>,
    seen: Vec<String>,
}

fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("embedder", name))
}

impl Stage {
    fn lists(&self, names: &[&str], listing: Listing) {
        let mut remotes: Vec<Remote> = Vec::new();
        for peer in ["embedder", "other"] {
            let of_peer = names.iter().map(|name| split(name)).filter(|(of, _)| *of == peer);
            let replicas = of_peer.map(|(_, id)| Replica {
                id: id.to_owned(),
                addresses: vec![],
                incarnation: None,
                ordinal: None,
            });
            remotes.push(Remote { peer: peer.parse().unwrap(), replicas: replicas.collect(), listing });
        }
        let mut session = session();
        session.remotes = remotes;
        self.receiving.update(session);
    }

    fn connects(&mut self, name: &str, lane: u32) {
        let (peer, id) = split(name);
        let (pod, uid) = id.split_once('/').unwrap();
        let pod = PodIdentity::new("demo", pod, uid).unwrap();
        let arrival = Arrival { peer: peer.parse().unwrap(), pod, ..arrival() };
        let attached = Attached::new(Arc::clone(&self.receiving), arrival, Arc::default()).unwrap();
        let mut wire = Wire { attached };
        wire.opens(1, lane).expect(name);
        let sending = self.senders.entry(name.to_owned()).or_default();
        sending.lane = lane;
        sending.wire = Some(wire);
    }

    async fn step(&mut self, step: &str) {
        let mut words = step.split_whitespace();
        let verb = words.next().unwrap();
        let names: Vec<&str> = words.collect();
        let name = names.first().copied().unwrap_or_default();
        let lane = self.senders.get(name).map_or(1, |sending| sending.lane);
        match verb {
            "lists" => self.lists(&names, Listing::Whole),
            "needs" => {
                let least = [("embedder".parse().unwrap(), name.parse().unwrap())];
                self.receiving.lock().hub.demand(least.into());
            }
            "anyone" => self.lists(&[], Listing::Open),
            "receives" => self.client = Some(Client::open(&self.receiving, 1 << 20).await),
            "opens" | "returns" => self.connects(name, lane),
            "restarts" => self.connects(name, lane + 1),
            "dies" => self.senders.get_mut(name).unwrap().wire = None,
            "puts" => {
                let sending = self.senders.get_mut(name).unwrap();
                sending.wire.as_mut().unwrap().puts(1, sending.tensors, b"tensor").expect(step);
                sending.tensors += 1;
                sending.bytes += 6;
            }
            "repeats" => {
                let wire = self.senders.get_mut(name).unwrap().wire.as_mut().unwrap();
                wire.puts(1, 0, b"tensor").expect(step);
            }
            "closes" => {
                let Sending { wire, tensors, bytes, .. } = self.senders.get_mut(name).unwrap();
                let end = End { stream: StreamId(1), tensors: *tensors, bytes: *bytes };
                wire.as_mut().unwrap().says(Frame::End(end)).expect(step);
            }
            "patience" => self.looks(Moment::from_micros(u64::MAX)),
            "deleted" => self.receiving.close(Reason::SessionDeleted, "deleted"),
            _ => panic!("`{step}` is no step"),
        }
        self.looks(Moment::default());
    }

    /// What housekeeping does at a time, and what the client has got since.
    fn looks(&mut self, now: Moment) {
        self.receiving.lock().hub.give_up_on_lost(now);
        let Some(client) = &mut self.client else { return };
        let turns = std::iter::from_fn(|| client.deliveries.next_now());
        self.seen.extend(turns.map(|turn| match turn {
            Turn::Tensor(delivery) => delivery.sequence.0.to_string(),
            Turn::Interrupted { sender } => format!("interrupted {sender}"),
            Turn::End => "end".to_owned(),
            Turn::Failed(_) => "failed".to_owned(),
        }));
    }
}

#[tokio::test]
async fn every_row_of_the_table_of_ends_is_so() {
    let mut wrong = Vec::new();
    let (table, _) = TABLE.split_once("\n## ").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(|cell| cell.trim()).collect();
        let [what, steps, sees] = cells[..] else { panic!("{row}") };
        let mut stage =
            Stage { receiving: receiving(), client: None, senders: BTreeMap::new(), seen: vec![] };
        for step in steps.trim_matches('`').split(';') {
            stage.step(step.trim()).await;
        }
        let expected = if sees == "waits" { "" } else { sees.trim_matches('`') };
        let seen = stage.seen.join(", ");
        if seen != expected {
            wrong.push(format!("{what}: saw `{seen}`, expected `{expected}`"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(count, 34, "rows of docs/ends.md");
}

#[tokio::test]
async fn who_takes_a_place_is_heard_after_the_loss_of_the_one_before() {
    let mut stage = Stage { receiving: receiving(), client: None, senders: BTreeMap::new(), seen: vec![] };
    for step in ["lists a/1", "receives", "opens a/1", "puts a/1", "dies a/1", "lists a/2"] {
        stage.step(step).await;
    }
    // Before anybody looks for the lost.
    stage.lists(&["a/1"], Listing::Whole);
    stage.connects("a/1", 1);
    stage.senders.get_mut("a/1").unwrap().wire = None;
    stage.lists(&["a/2"], Listing::Whole);
    stage.connects("a/2", 1);
    assert_eq!(stage.client.unwrap().turns(), ["interrupted"]);
}

#[tokio::test]
async fn the_policy_says_how_many_must_have_closed() {
    let key = |seed| sealane_policy::SigningKey::from_seed(&[seed; 32]).unwrap().public_key().to_string();
    let entry = |seed| json!({"entries": [{"kind": "Key", "publicKeys": [key(seed)]}]});
    let peers = json!({"embedder": entry(2), "ranker": entry(3), "other": entry(4)});
    let rules = |min: u32| {
        json!([
            {"from": "embedder", "to": "ranker", "stream": {}, "senders": {"min": min}},
            {"from": "other", "to": "ranker", "stream": {}},
        ])
    };
    let receiving = Receiving::start(Arc::new(context(Some("ranker"))), session());
    let mut stage = Stage { receiving, client: None, senders: BTreeMap::new(), seen: vec![] };
    permit(&stage.receiving.context, 1, &peers, &rules(2));
    for step in ["lists a/1", "receives", "opens a/1", "closes a/1"] {
        stage.step(step).await;
    }
    assert!(stage.seen.is_empty(), "{:?}", stage.seen);
    permit(&stage.receiving.context, 2, &peers, &rules(1));
    stage.receiving.judge_again();
    stage.looks(Moment::default());
    assert_eq!(stage.seen, ["end"]);
}

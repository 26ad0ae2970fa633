//! What two sidecars write to their logs, at every level, holds nothing of the tensors that they carry and no key.
//!
//! A process of its own: the log of a process can be captured once.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "sidecars/client.rs"]
#[expect(dead_code, reason = "shared with the tests that this was written for")]
mod client;
#[path = "sidecars/support.rs"]
#[expect(dead_code, reason = "shared with the tests that this was written for")]
mod support;

use std::io::Write;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_sidecar::handoff::{Parcel, Sequence, TensorHeader, Turn};
use sealane_types::Dtype;
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use crate::client::{Memory, Receiver, passing_on, sender};
use crate::support::{Plan, document, material, pair, roots, signed, until, within};

/// Words and numbers that nothing else would say.
const NAME: &str = "telltale-model/layer.13.weight";
const ROWS: u64 = 1_009;
const COLUMNS: u64 = 10_007;
const LENGTH: u64 = ROWS * COLUMNS;
const CONTENT: &[u8] = b"telltale-content";

#[derive(Debug, Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Captured {
    /// The lines, without the time at which each was written.
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let parse = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("timestamp").unwrap();
            line
        };
        text.lines().map(parse).collect()
    }
}

fn telltale(sequence: u64) -> Parcel {
    let content: Vec<u8> = CONTENT.iter().copied().cycle().take(LENGTH as usize).collect();
    Parcel {
        sequence: Sequence(sequence),
        header: TensorHeader {
            dtype: Dtype::Uint8,
            shape: vec![ROWS, COLUMNS],
            run: false,
            name: NAME.to_owned(),
        },
        source: Arc::new(Memory::of(&content)),
        offset: 0,
        length: LENGTH,
        assigned: vec![],
    }
}

/// Runs of hexadecimal digits, or of base64, that are long enough to be a key of 16 bytes; and lists of small numbers,
/// which is how Rust shows bytes.
fn key_like(text: &str) -> Vec<String> {
    let runs = |keep: fn(char) -> bool, least: usize| {
        let runs = text.split(move |character| !keep(character));
        runs.filter(move |run| run.len() >= least).map(str::to_owned)
    };
    let hexadecimal = runs(|character| character.is_ascii_hexdigit(), 32);
    let base64 = runs(|character| character.is_ascii_alphanumeric() || "+/=".contains(character), 24)
        // Words of a program are of one case, or end where the next begins.
        .filter(|run| run.bytes().any(|byte| byte.is_ascii_digit()) && run.contains(['+', '/', '=']));
    let lists = runs(|character| character.is_ascii_digit() || ", ".contains(character), 32);
    hexadecimal.chain(base64).chain(lists.filter(|run| run.matches(',').count() >= 15)).collect()
}

#[tokio::test]
async fn the_log_holds_nothing_of_tensors_and_no_key() {
    let captured = Captured::default();
    let log = tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE);
    log.with_writer(captured.clone()).init();

    let (sending, receiving) = pair();
    let (lane, events) = sender(&sending.lanes).await;
    passing_on(events);
    let mut taking = Receiver::open(&receiving.lanes, 64 << 20).await;
    let mut none = Receiver::open(&receiving.lanes, 1).await;
    lane.offer(telltale(0)).await.unwrap();
    let Turn::Tensor(delivery) = taking.turn().await else { panic!("no tensor") };
    assert_eq!(delivery.header.name, NAME);
    taking.take(&delivery);
    // What goes wrong is told too: a policy that is refused, one that is followed, a receiver that is lost with a
    // tensor that it had, an imposter, and the end.
    sending.propose(signed(&document(2), &[1]));
    sending.propose(signed(&document(2), &[1, 2]));
    until("the next epoch", || receiving.node.policy_epoch() == Some(2)).await;
    lane.offer(telltale(1)).await.unwrap();
    assert!(matches!(taking.turn().await, Turn::Tensor(_)));
    let imposter = Plan { proves: "ranker", ..Plan::sender(&[receiving.address]) }.start();
    let said =
        |word: &str| captured.0.lock().unwrap().windows(word.len()).any(|part| part == word.as_bytes());
    until("a refusal in the log", || said("HostDataMismatch")).await;
    drop(imposter);
    let again = receiving.kill().start();
    assert!(within("the news", lane.flush()).await.is_err(), "nobody knows whether it was taken");
    assert!(none.deliveries.next().await.is_none());
    drop((taking, again));
    sending.drain();
    until("the end", || said("LinkLost")).await;

    let public = public(&captured);
    for line in captured.lines() {
        for field in ["level", "target", "fields"] {
            assert!(!line[field].is_null(), "a line without `{field}`: {line}");
        }
        let text = line.to_string();
        for word in ["telltale", "layer.13"] {
            assert!(!text.contains(word), "`{word}` is in the log: {text}");
        }
        let numbers = text.split(|one: char| !one.is_ascii_digit()).filter(|number| !number.is_empty());
        let numbers: Vec<&str> = numbers.collect();
        assert!(!numbers.contains(&LENGTH.to_string().as_str()), "the length is in the log: {text}");
        // Either alone may be said of something else.
        let shape = [ROWS.to_string(), COLUMNS.to_string()];
        assert!(!numbers.windows(2).any(|two| two == shape), "the shape is in the log: {text}");
        assert!(!text.contains(&hex::encode(CONTENT)) && !text.contains(&STANDARD.encode(CONTENT)));
        let keys: Vec<_> = key_like(&text).into_iter().filter(|run| !public.contains(run)).collect();
        assert!(keys.is_empty(), "these may be keys: {keys:?} in {text}");
    }
    let secret: Value = serde_json::from_str(&material().to_json().unwrap()).unwrap();
    for text in secret.as_object().unwrap().values().filter_map(Value::as_str) {
        assert!(!said(text), "part of the simulated platform's material is in the log");
    }
    assert!(said("policy in force") && said("evidence refused"), "the test looks at a log that is there");
}

/// The only such text that a log may hold: digests of policies, and names of owners' public keys.
fn public(captured: &Captured) -> Vec<String> {
    let lines = captured.lines();
    let digests = lines.iter().filter_map(|line| line["fields"]["digest"].as_str().map(str::to_owned));
    let owners = roots().keys;
    let names = owners.iter().map(|key| hex::encode(digest(&SHA256, key.as_bytes())));
    digests.chain(names).collect()
}

//! Peers without a TEE: a pinned key on one side, an attested replica on the other.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Instant;

use sealane_policy::SigningKey;
use sealane_sidecar::config::{ConfigError, file};
use sealane_sidecar::handoff::{LaneFailure, SenderEvent, Sequence, Turn};
use sealane_types::Reason;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::client::{Receiver, assigned, assignments, parcel, passing_on, sender, try_sender};
use crate::forward::measured;
use crate::support::{LIMIT, Plan, Sidecar, document, signed, tell, until, within};
use crate::trust::refused_for;

pub(crate) fn key(number: u8) -> SigningKey {
    SigningKey::from_seed(&[number; 32]).unwrap()
}

/// The file of a key, in a directory that goes with it.
pub(crate) struct KeyFile {
    directory: tempfile::TempDir,
}

impl KeyFile {
    pub(crate) fn of(number: u8) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.unwrap().write_all(key(number).to_pem().unwrap().as_bytes()).unwrap();
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }
}

/// A policy in which `peer` proves itself by one of these keys.
pub(crate) fn listing(epoch: u64, peer: &str, keys: &[u8]) -> Value {
    let mut document = document(epoch);
    let mut keys: Vec<_> = keys.iter().map(|number| key(*number).public_key().to_string()).collect();
    keys.sort();
    document["peers"][peer] = json!({"entries": [{"kind": "Key", "publicKeys": keys}]});
    document
}

/// `plan` with a key in place of its platform, under the policy that lists `keys` for `peer`.
pub(crate) fn under(plan: Plan, peer: &str, keys: &[u8], file: Option<&KeyFile>) -> Plan {
    Plan { chain: signed(&listing(1, peer, keys), &[1, 2]), key: file.map(KeyFile::path), ..plan }
}

/// A sender with key 1 and an attested receiver; or the other way round.
fn pair(keyed: &str, keys: &[u8], file: &KeyFile) -> (Sidecar, Sidecar) {
    let of = |peer: &str| (peer == keyed).then_some(file);
    let to = under(Plan::receiver(), keyed, keys, of("ranker")).start();
    let from = under(Plan::sender(&[to.address]), keyed, keys, of("embedder")).start();
    (from, to)
}

#[tokio::test]
async fn a_listed_key_streams_to_attested_replicas_and_takes_from_them() {
    let file = KeyFile::of(1);
    for keyed in ["embedder", "ranker"] {
        let (from, to) = pair(keyed, &[1, 2], &file);
        let (lane, events) = sender(&from.lanes).await;
        passing_on(events);
        let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
        for sequence in 0..5 {
            lane.offer(parcel(sequence, 10_000)).await.unwrap();
            assert_eq!(receiver.next_taken().await, sequence);
        }
        within("the end", lane.close()).await.unwrap();
        assert_eq!(receiver.turn().await, Turn::End);
        // Each shows what it is, and nobody shows more.
        for (sidecar, peer) in [(&from, "embedder"), (&to, "ranker")] {
            // Its own evidence is judged beside all this.
            measured(sidecar, &["sealane_evidence_info{"]).await;
            let metrics = sidecar.node.render_metrics().unwrap();
            let line = metrics.lines().find(|line| line.starts_with("sealane_evidence_info{")).unwrap();
            let expected = if peer == keyed { r#"assurance="Key""# } else { r#"assurance="Simulated""# };
            assert!(line.contains(expected), "{peer}: {line}");
            assert_eq!(
                metrics.contains("\nsealane_evidence_expires_timestamp_seconds{"),
                peer != keyed,
                "{metrics}"
            );
        }
    }
}

#[tokio::test]
async fn a_key_that_is_not_listed_is_refused_by_name() {
    let file = KeyFile::of(1);
    for keyed in ["embedder", "ranker"] {
        let (from, _to) = pair(keyed, &[2], &file);
        let error = refused_for(&from, Reason::KeyMismatch).await;
        assert_eq!(error.failure, LaneFailure::Refused, "{keyed}: {error}");
    }
}

#[tokio::test]
async fn a_key_is_no_platform_and_a_platform_no_key() {
    let file = KeyFile::of(1);
    // The policy wants a simulated guest, and gets a key; then a key, and gets a simulated guest.
    let to = Plan::receiver().start();
    let from = Plan { key: Some(file.path()), ..Plan::sender(&[to.address]) }.start();
    refused_for(&from, Reason::PlatformNotAllowed).await;
    let to = under(Plan::receiver(), "embedder", &[1], None).start();
    let from = under(Plan::sender(&[to.address]), "embedder", &[1], None).start();
    refused_for(&from, Reason::PlatformNotAllowed).await;
}

#[tokio::test]
async fn the_holder_of_a_key_verifies_the_other_side_like_anybody() {
    let file = KeyFile::of(1);
    let to = under(Plan { proves: "embedder", ..Plan::receiver() }, "embedder", &[1], None).start();
    let from = under(Plan::sender(&[to.address]), "embedder", &[1], Some(&file)).start();
    let error = refused_for(&from, Reason::HostDataMismatch).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
}

#[tokio::test]
async fn an_epoch_that_drops_the_key_ends_its_session_at_once() {
    let file = KeyFile::of(1);
    let (from, to) = pair("embedder", &[1], &file);
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    receiver.next_taken().await;
    // What keeps the key changes nothing.
    to.propose(signed(&listing(2, "embedder", &[1, 2]), &[1, 2]));
    until("the sender adopts it", || from.node.policy_epoch() == Some(2)).await;
    lane.offer(parcel(1, 1000)).await.unwrap();
    receiver.next_taken().await;
    let ended = |sidecar: &Sidecar| {
        let metrics = sidecar.node.render_metrics().unwrap();
        let mut ended = metrics.lines().filter(|line| line.starts_with("sealane_connections_ended_total"));
        ended.any(|line| line.contains(Reason::KeyMismatch.as_str()) && !line.ends_with(" 0"))
    };
    assert!(!ended(&to));
    let began = Instant::now();
    to.propose(signed(&listing(3, "embedder", &[2]), &[1, 2]));
    until("the end of the connection", || ended(&to)).await;
    tell(&format!("from an epoch without the key to the end of its connection: {:?}", began.elapsed()));
    refused_for(&from, Reason::KeyMismatch).await;
}

#[tokio::test]
async fn what_the_restarted_holder_of_a_key_sends_again_arrives_once() {
    let file = KeyFile::of(1);
    let (from, to) = pair("embedder", &[1], &file);
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    for sequence in 0..6 {
        lane.offer(parcel(sequence, 1000)).await.unwrap();
    }
    let mut untaken = Vec::new();
    for sequence in 0..6 {
        let delivery = receiver.tensor().await;
        assert_eq!(delivery.sequence.0, sequence);
        if sequence < 3 {
            receiver.take(&delivery);
        } else {
            untaken.push(delivery);
        }
    }
    // Told by another task than the one that delivers.
    until("all are assigned", || assignments(&events.lock().unwrap()).count() == 6).await;
    let known = events.lock().unwrap().clone();
    // The same key, and another process: nobody is told what was taken before the crash.
    let from = from.kill().start();
    let (lane, events) = try_sender(&from.lanes, 0, tokio::time::Instant::now() + LIMIT).await.unwrap();
    passing_on(events);
    for sequence in 0..6 {
        lane.offer(assigned(&known, sequence)).await.unwrap();
    }
    lane.offer(parcel(6, 1000)).await.unwrap();
    for delivery in &untaken {
        receiver.take(delivery);
    }
    assert_eq!(receiver.next_taken().await, 6, "repeats are dropped, and nothing is lost");
    within("the end", lane.close()).await.unwrap();
    assert_eq!(receiver.turn().await, Turn::End);
}

#[tokio::test]
async fn a_restarted_holder_of_a_key_is_another_process_for_its_senders() {
    let file = KeyFile::of(1);
    let (from, to) = pair("ranker", &[1], &file);
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    let _untaken = receiver.tensor().await;
    let process = |sequence| {
        let events = events.lock().unwrap();
        assigned(&events, sequence).assigned.first().copied()
    };
    until("the first is assigned", || process(0).is_some()).await;
    drop(receiver);
    let to = to.kill().start();
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    // Whether the application took the first cannot be known: it is never sent to the process that took the other's place.
    let uncertain = || {
        let told = SenderEvent::Uncertain { first: Sequence(0), last: Sequence(0) };
        events.lock().unwrap().contains(&told)
    };
    until("the first is uncertain", uncertain).await;
    lane.offer(parcel(1, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 1, "nothing arrives twice");
    until("the second is assigned", || process(1).is_some()).await;
    assert_ne!(process(0), process(1), "the same key, and another incarnation");
}

#[tokio::test]
async fn keys_are_made_once_and_shown_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key.pem");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealane-sidecar"));
        command.arg("keygen").args(arguments).arg(&path).kill_on_drop(true);
        async move { command.output().await.unwrap() }
    };
    let made = run(&["-o", "json", "--out"]).await;
    assert!(made.status.success(), "{made:?}");
    let printed: Value = serde_json::from_slice(&made.stdout).unwrap();
    let secret = std::fs::read_to_string(&path).unwrap();
    let public = SigningKey::from_pem(&secret).unwrap().public_key().to_string();
    assert_eq!(printed["publicKey"], json!(public));
    assert_eq!(printed["entry"], json!({"kind": "Key", "publicKeys": [public]}));
    let again = run(&["--out"]).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("never overwritten"), "{again:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), secret, "it stays as it was");
    let shown = String::from_utf8(run(&["--show"]).await.stdout).unwrap();
    assert!(shown.contains(&public) && shown.contains("keyFile:"), "{shown}");
    let body = secret.lines().nth(1).unwrap();
    assert!(!shown.contains(body) && !String::from_utf8_lossy(&made.stdout).contains(body));
    assert_eq!(run(&["--out", "a", "--show"]).await.status.code(), Some(2), "one of the two");
}

#[test]
fn a_configuration_names_a_key_exactly_where_it_is_used() {
    let directory = crate::file::examples();
    let path = directory.path().join("embedder.yaml");
    let good = std::fs::read_to_string(&path).unwrap();
    let load = |provider: &str| {
        std::fs::write(&path, good.replacen("provider: Simulated", provider, 1)).unwrap();
        file::load(&path).map(|config| config.platform.key_file)
    };
    let keys = KeyFile::of(1);
    std::fs::copy(keys.path(), directory.path().join("key.pem")).unwrap();
    assert!(load("provider: Key\nkeyFile: key.pem").unwrap().is_some());
    for mistaken in ["provider: Key", "provider: Auto\nkeyFile: key.pem", "keyFile: key.pem"] {
        let error: ConfigError = load(mistaken).unwrap_err();
        assert!(error.to_string().contains("`provider: Key` with `keyFile: key.pem`"), "{mistaken}: {error}");
    }
    let missing = load("provider: Key\nkeyFile: other.pem").unwrap_err().to_string();
    assert!(missing.contains("other.pem") && missing.contains("keygen --out"), "{missing}");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(directory.path().join("key.pem"), open).unwrap();
    let exposed = load("provider: Key\nkeyFile: key.pem").unwrap_err().to_string();
    assert!(exposed.contains("chmod 600"), "{exposed}");
}

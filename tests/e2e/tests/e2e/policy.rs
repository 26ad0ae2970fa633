//! Policies that must not count, and what users are told.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, session, until};

/// Asks again and again: what is refused now may come later.
const RECEIVER: &str = r#"
import sealane, time
with sealane.connect() as door:
    while True:
        try:
            for tensor in door.receiver("lane", timeout=5):
                print("took", tensor.name, flush=True)
        except sealane.SealaneError as error:
            print("ended:", type(error).__name__, error, flush=True)
            time.sleep(1)
"#;

/// Asks until something is sent, and tells each time why not: the reason changes while policies come in.
const SENDER: &str = r#"
import numpy as np, sealane
with sealane.connect() as door:
    while True:
        try:
            lane = door.sender("lane", timeout=10)
            lane.put(np.ones(3), name="must-not-arrive")
            lane.flush(timeout=120)
            print("sent", flush=True)
            break
        except sealane.SealaneError as error:
            print("refused:", type(error).__name__, error, flush=True)
"#;

async fn start(sandbox: &Sandbox) -> Result<()> {
    sandbox.apply(session("lane", "left", "right")).await?;
    sandbox.start(&Workload::new("right", "node2", RECEIVER)).await?;
    sandbox.start(&Workload::new("left", "node1", SENDER)).await
}

/// The sender hears why, and the receiver asks once more after that and gets nothing.
async fn nothing_arrives(sandbox: &Sandbox, word: &str) -> Result<()> {
    let sent = sandbox.printed("left", word).await?;
    let ends = |log: &str| log.matches("ended:").count();
    let before = ends(&sandbox.kubectl(&["logs", "right", "-c", "program"]).await?);
    // The first of two ends may be of an attempt that had begun before.
    let taken = until("the receiver asks once more", || async {
        let log = sandbox.printed("right", "ended:").await.map_err(|error| format!("{error:#}"))?;
        if ends(&log) >= before + 2 { Ok(log) } else { Err(log) }
    })
    .await?;
    ensure!(!sent.contains("sent") && !taken.contains("took"), "left: {sent}\nright: {taken}");
    Ok(())
}

async fn refused(test: &str, signing: Signing, word: &str) -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox(test).await?;
    start(&sandbox).await?;
    let trust = sandbox.policy(signing, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.because("trustpolicy/trust", "Ready", "False", word).await?;
    nothing_arrives(&sandbox, word).await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_unsigned_policy_is_refused() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("unsigned").await?;
    start(&sandbox).await?;
    let trust = sandbox.policy(Signing::Nobody, |_| {}).await?;
    let refused = sandbox.apply(vec![trust.clone()]).await.expect_err("nobody signed");
    ensure!(format!("{refused:#}").contains("spec.signatures"), "the field is not named: {refused:#}");
    // And so is one whose only signature is of nobody who counts.
    let mut forged = trust;
    forged["spec"]["signatures"] =
        serde_json::json!([{"keyId": "ab".repeat(32), "signature": format!("{}==", "A".repeat(86))}]);
    sandbox.apply(vec![forged]).await?;
    sandbox.because("trustpolicy/trust", "Ready", "False", "PolicyUnderSigned").await?;
    nothing_arrives(&sandbox, "PolicyUnderSigned").await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_one_owner_signing_twice_is_under_signed() -> Result<()> {
    refused("under-signed", Signing::OneTwice, "PolicyUnderSigned").await
}

#[tokio::test]
async fn e2e_peer_that_the_policy_does_not_know_is_refused() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("unknown-peer").await?;
    start(&sandbox).await?;
    let trust = sandbox
        .policy(Signing::Quorum, |draft| {
            draft["peers"].as_object_mut().expect("peers").remove("left");
            draft["sessions"].as_array_mut().expect("sessions").clear();
        })
        .await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.because("peer/left", "Ready", "False", "PeerNotInPolicy").await?;
    nothing_arrives(&sandbox, "NotInPolicy").await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_wrong_identity_is_refused() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("identity").await?;
    start(&sandbox).await?;
    let trust = sandbox
        .policy(Signing::Quorum, |draft| {
            draft["peers"]["left"]["entries"][0]["hostData"] = serde_json::json!(["11".repeat(32)]);
        })
        .await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.because("peer/left", "EvidenceVerified", "False", "HostDataMismatch").await?;
    nothing_arrives(&sandbox, "HostDataMismatch").await?;
    sandbox.remove().await
}

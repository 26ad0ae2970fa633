//! Tensors between pods on two nodes, through injected sidecars.

use anyhow::{Result, ensure};
use sealane_e2e::{
    Cluster, RELEASE, REPLICAS, Sandbox, Signing, Workload, carried_by, every_kind, session, until,
};
use serde_json::Value;

/// Declares a session from `left` to `right` and starts both.
async fn started(sandbox: &Sandbox, session: Vec<Value>, [left, right]: &[Workload; 2]) -> Result<()> {
    sandbox.apply(session).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.start(right).await?;
    sandbox.start(left).await
}

#[tokio::test]
async fn e2e_tensors_of_every_kind_arrive_whole() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("tensors").await?;
    started(&sandbox, carried_by("Auto", session("lane", "left", "right")), &every_kind()).await?;
    sandbox.condition("trustpolicy/trust", "Ready", "True").await?;
    sandbox.all_arrived().await?;
    let session = sandbox.read("transfersession/lane").await?;
    ensure!(session["status"]["phase"] == "Complete", "{session:#}");
    ensure!(session["status"]["postQuantum"] == true, "{session:#}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_tensors_of_every_kind_arrive_whole_over_udp() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("datagrams").await?;
    started(&sandbox, carried_by("Udp", session("lane", "left", "right")), &every_kind()).await?;
    sandbox.all_arrived().await?;
    sandbox.remove().await
}

/// While it is connected: a session that was over in two seconds may have told nobody.
#[tokio::test]
async fn e2e_a_session_over_udp_tells_what_carries_it() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("told").await?;
    let mut session = carried_by("Udp", session("lane", "left", "right"));
    for object in session.iter_mut().filter(|object| object["kind"] == "TransferSession") {
        object["spec"]["congestion"] = "Bbr".into();
    }
    started(&sandbox, session, &endless_pair()).await?;
    until("the session tells what carries it", || async {
        let session = sandbox.read("transfersession/lane").await.map_err(|error| format!("{error:#}"))?;
        let status = &session["status"];
        let told = status["carrier"] == "Udp" && status["congestion"] == "Bbr";
        if told { Ok(()) } else { Err(status.to_string()) }
    })
    .await?;
    sandbox.remove().await
}

const ENDLESS_SENDER: &str = r#"
import numpy as np, sealane, time
with sealane.connect() as door:
    lane = door.sender("lane", timeout=120)
    n = 0
    while True:
        try:
            lane.put(np.full((256,), n, np.int64), timeout=30)
        except sealane.SealaneError as error:
            print("ended:", type(error).__name__, error, flush=True)
            break
        n += 1
        if n % 50 == 0:
            print("put", n, flush=True)
        time.sleep(0.02)
time.sleep(600)
"#;

const ENDLESS_RECEIVER: &str = r#"
import sealane, time
with sealane.connect() as door:
    expected = None
    lane = door.receiver("lane", timeout=120)
    while True:
        try:
            for tensor in lane:
                value = int(tensor.numpy()[0])
                assert expected is None or value == expected, (value, expected)
                expected = value + 1
                if expected % 50 == 0:
                    print("took", expected, flush=True)
            print("ended: iteration", flush=True)
            break
        except sealane.Interrupted as error:
            print("interrupted:", error, flush=True)
        except sealane.SealaneError as error:
            print("ended:", type(error).__name__, error, flush=True)
            break
time.sleep(600)
"#;

/// A pair that sends and takes until it is told that it is over.
pub(crate) async fn endless(sandbox: &Sandbox) -> Result<()> {
    started(sandbox, carried_by("Auto", session("lane", "left", "right")), &endless_pair()).await
}

fn endless_pair() -> [Workload; 2] {
    let pair = [("left", "node1", ENDLESS_SENDER), ("right", "node2", ENDLESS_RECEIVER)];
    pair.map(|(app, node, program)| Workload::new(app, node, program))
}

#[tokio::test]
async fn e2e_session_is_ready_and_its_deletion_closes_it() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("deletion").await?;
    endless(&sandbox).await?;
    for object in ["peer/left", "peer/right", "transfersession/lane"] {
        sandbox.condition(object, "Ready", "True").await?;
    }
    sandbox.printed("right", "took 50").await?;
    sandbox.kubectl(&["delete", "transfersession", "lane"]).await?;
    let log = sandbox.printed("left", "ended:").await?;
    ensure!(log.contains("SessionDeleted") || log.contains("deleted"), "the reason is not told: {log}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_next_epoch_without_the_peer_tears_down() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("epoch").await?;
    endless(&sandbox).await?;
    sandbox.printed("right", "took 50").await?;
    let next = sandbox
        .policy(Signing::Quorum, |draft| {
            draft["peers"].as_object_mut().expect("peers").remove("right");
            draft["sessions"].as_array_mut().expect("sessions").clear();
        })
        .await?;
    sandbox.apply(vec![next]).await?;
    sandbox.printed("left", "ended:").await?;
    sandbox.condition("transfersession/lane", "Ready", "False").await?;
    let peer = sandbox.condition("peer/right", "Ready", "False").await?;
    ensure!(peer["message"].as_str().is_some_and(|message| message.contains("policy")), "{peer}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_operator_absence_is_not_noticed_by_a_running_session() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("absent").await?;
    endless(&sandbox).await?;
    sandbox.printed("right", "took 50").await?;
    cluster.kubectl(&["-n", RELEASE, "delete", "pod", "-l", REPLICAS, "--wait"]).await?;
    let log = sandbox.kubectl(&["logs", "right", "-c", "program"]).await?;
    let taken =
        log.lines().filter_map(|line| line.strip_prefix("took ")).filter_map(|n| n.parse::<u64>().ok()).max();
    let next = format!("took {}", taken.unwrap_or(50) + 150);
    let log = sandbox.printed("right", &next).await?;
    ensure!(!log.contains("interrupted"), "{log}");
    // And the new leader sees the old session.
    until("the new leader reports the session", || async {
        let session = sandbox.read("transfersession/lane").await.map_err(|error| format!("{error:#}"))?;
        let moved = session["status"]["tensorsTransferred"].as_u64().unwrap_or(0);
        if moved > taken.unwrap_or(50) { Ok(()) } else { Err(session["status"].to_string()) }
    })
    .await?;
    sandbox.remove().await
}

const ONE: &str = r#"
import numpy as np, sealane
with sealane.connect() as door:
    lane = door.sender("lane", timeout=120)
    lane.put(np.arange(1000), name="over the host's network")
    lane.close(timeout=60)
print("sent", flush=True)
"#;

const TAKE_ONE: &str = r#"
import numpy as np, sealane
with sealane.connect() as door:
    for tensor in door.receiver("lane", timeout=120):
        assert (tensor.numpy() == np.arange(1000)).all()
        print("took", tensor.name, flush=True)
"#;

#[tokio::test]
async fn e2e_pods_on_the_host_network_take_part() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("host-network").await?;
    sandbox.open().await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    for (app, node, program) in [("right", "node2", TAKE_ONE), ("left", "node1", ONE)] {
        sandbox.start(&Workload::new(app, node, program).on_host_network()).await?;
    }
    let log = sandbox.finish("right").await?;
    ensure!(log.contains("took over the host's network"), "{log}");
    sandbox.finish("left").await?;
    sandbox.remove().await
}

//! Tensors between pods on two nodes, through injected sidecars.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, session, until};

/// Odd shapes and dtypes, empty, non-contiguous and large; the receiver recomputes each from its name.
const SENDER: &str = r#"
import numpy as np, sealane
from program_tensors import tensors

with sealane.connect() as door:
    lane = door.sender("lane", timeout=120)
    for name, array in tensors():
        lane.put(array, name=name)
    lane.flush(timeout=120)
    lane.close(timeout=120)
print("sent everything", flush=True)
"#;

const RECEIVER: &str = r#"
import numpy as np, sealane
from program_tensors import tensors

expected = dict(tensors())
seen = []
with sealane.connect() as door:
    for tensor in door.receiver("lane", timeout=120):
        got = tensor.numpy()
        want = expected[tensor.name]
        assert got.dtype == want.dtype and got.shape == want.shape, (tensor.name, got.dtype, got.shape)
        assert got.tobytes() == np.ascontiguousarray(want).tobytes(), tensor.name
        assert tensor.sender.startswith("left/"), tensor.sender
        seen.append((tensor.sequence, tensor.name))
        del got, tensor
assert [name for _, name in seen] == list(expected), seen
assert [sequence for sequence, _ in seen] == sorted(sequence for sequence, _ in seen), seen
print("took", len(seen), "tensors", flush=True)
"#;

const TENSORS: &str = r#"
import numpy as np, ml_dtypes

def tensors():
    random = np.random.default_rng(7)
    for dtype in ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]:
        array = random.integers(0, 2 if dtype == "bool" else 100, (3, 5, 7)).astype(dtype)
        yield f"plain-{dtype}", array
    yield "bf16", random.standard_normal((5, 3)).astype(ml_dtypes.bfloat16)
    yield "scalar", np.float32(3.5).reshape(())
    yield "empty", np.zeros((0, 4), np.float32)
    yield "empty-inside", np.zeros((3, 0, 2), np.int64)
    yield "transposed", random.standard_normal((64, 33)).T
    yield "strided", random.standard_normal((100, 100))[::3, ::-2]
    yield "fortran", np.asfortranarray(random.standard_normal((17, 19)))
    yield "thirty-two-dimensions", np.ones((1,) * 32, np.uint8)
    yield "large", random.integers(0, 255, 100_000_000, dtype=np.uint8)
"#;

fn workload(app: &str, node: &'static str, program: &str) -> Workload {
    let inlined = program.replace("from program_tensors import tensors\n", TENSORS);
    Workload::new(app, node, &inlined)
}

async fn ready_pair(sandbox: &Sandbox, sender: &str, receiver: &str) -> Result<()> {
    carried_by(sandbox, "Auto", sender, receiver).await
}

async fn carried_by(sandbox: &Sandbox, carrier: &str, sender: &str, receiver: &str) -> Result<()> {
    let mut objects = session("lane", "left", "right");
    for object in objects.iter_mut().filter(|object| object["kind"] == "TransferSession") {
        object["spec"]["carrier"] = carrier.into();
    }
    sandbox.apply(objects).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.start(&workload("right", "node2", receiver)).await?;
    sandbox.start(&workload("left", "node1", sender)).await?;
    Ok(())
}

#[tokio::test]
async fn e2e_tensors_of_every_kind_arrive_whole() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("tensors").await?;
    ready_pair(&sandbox, SENDER, RECEIVER).await?;
    for object in ["trustpolicy/trust", "peer/left", "peer/right"] {
        sandbox.condition(object, "Ready", "True").await?;
    }
    let log = sandbox.finish("right").await?;
    ensure!(log.contains("took 23 tensors"), "{log}");
    sandbox.finish("left").await?;
    sandbox.condition("transfersession/lane", "Complete", "True").await?;
    let session = sandbox.read("transfersession/lane").await?;
    ensure!(session["status"]["phase"] == "Complete", "{session:#}");
    ensure!(session["status"]["postQuantum"] == true, "{session:#}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_tensors_of_every_kind_arrive_whole_over_udp() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("datagrams").await?;
    carried_by(&sandbox, "Udp", SENDER, RECEIVER).await?;
    let log = sandbox.finish("right").await?;
    ensure!(log.contains("took 23 tensors"), "{log}");
    sandbox.finish("left").await?;
    sandbox.condition("transfersession/lane", "Complete", "True").await?;
    let session = sandbox.read("transfersession/lane").await?;
    ensure!(session["status"]["carrier"] == "Udp", "{session:#}");
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

#[tokio::test]
async fn e2e_session_is_ready_and_its_deletion_closes_it() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("deletion").await?;
    ready_pair(&sandbox, ENDLESS_SENDER, ENDLESS_RECEIVER).await?;
    sandbox.condition("transfersession/lane", "Ready", "True").await?;
    sandbox.printed("right", "took 50").await?;
    sandbox.kubectl(&["delete", "transfersession", "lane"]).await?;
    let log = sandbox.printed("left", "ended:").await?;
    ensure!(log.contains("SessionDeleted") || log.contains("deleted"), "the reason is not told: {log}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_next_epoch_without_the_peer_tears_down() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("epoch").await?;
    ready_pair(&sandbox, ENDLESS_SENDER, ENDLESS_RECEIVER).await?;
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
    ready_pair(&sandbox, ENDLESS_SENDER, ENDLESS_RECEIVER).await?;
    sandbox.printed("right", "took 50").await?;
    cluster
        .kubectl(&[
            "-n",
            "sealane-system",
            "delete",
            "pod",
            "-l",
            "app.kubernetes.io/component=operator",
            "--wait",
        ])
        .await?;
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

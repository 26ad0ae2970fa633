//! Tensors that go through the gRPC door of pods, with each other and with the door of the Python client.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, session};

/// Every size of the examples four times: from one row to 12 MB.
const COUNT: usize = 32;

const DOOR: &str = include_str!("../../../../sidecar/api/proto/door.proto");
const SEND: &str = include_str!("../../../../examples/grpc/python/send.py");
const RECEIVE: &str = include_str!("../../../../examples/grpc/python/receive.py");
const TENSORS: &str = include_str!("../../../../examples/grpc/python/tensors.py");

/// Puts what the examples take, through the other door.
const FROM_ARENA: &str = r#"
import sealane
from tensors import tensor

with sealane.connect() as door:
    lane = door.sender("lane", timeout=120)
    for number in range(COUNT):
        lane.put(tensor(number), name=f"tensor {number}")
    lane.close(timeout=120)
print("put everything", flush=True)
"#;

const REFLECTION: &str = include_str!("../../programs/door/reflection.proto");
const REFLECTED: &str = include_str!("../../programs/door/reflected.py");
const ARENA: &str = include_str!("../../programs/door/arena.py");

/// A program of examples/grpc/python as it is there.
fn example(app: &str, node: &'static str, program: &str, arguments: &[&str]) -> Workload {
    // Importing the compiler is what lets a program import `door_pb2`, made of the door.proto that lies beside it.
    let run = format!(
        "import runpy, sys\n\
         import grpc_tools.protoc\n\
         sys.argv = {:?}\n\
         runpy.run_path('/program/example.py', run_name='__main__')\n",
        [&["example.py"], arguments].concat()
    );
    Workload::new(app, node, &run)
        .file("example.py", program)
        .file("tensors.py", TENSORS)
        .file("door.proto", DOOR)
}

async fn between(sandbox: &Sandbox, left: &Workload, right: &Workload) -> Result<(String, String)> {
    sandbox.apply(session("lane", "left", "right")).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.start(right).await?;
    sandbox.start(left).await?;
    let printed = (sandbox.finish("left").await?, sandbox.finish("right").await?);
    sandbox.condition("transfersession/lane", "Complete", "True").await?;
    Ok(printed)
}

#[tokio::test]
async fn e2e_grpc_examples_exchange_tensors() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("grpc").await?;
    let send = example("left", "node1", SEND, &["lane", &COUNT.to_string()]);
    let receive = example("right", "node2", RECEIVE, &["lane"]);
    let (sent, received) = between(&sandbox, &send, &receive).await?;
    ensure!(sent.contains(&format!("put {COUNT} tensors: {COUNT} taken, 0 uncertain")), "{sent}");
    ensure!(received.contains(&format!("took {COUNT} tensors, ")), "{received}");
    ensure!(received.contains("every byte as it was put"), "{received}");
    let session = sandbox.read("transfersession/lane").await?;
    ensure!(session["status"]["tensorsTransferred"] == COUNT, "{session:#}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_grpc_example_takes_what_the_other_door_puts() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("grpc-takes").await?;
    let put = FROM_ARENA.replace("COUNT", &COUNT.to_string());
    let put = Workload::new("left", "node1", &put).file("tensors.py", TENSORS);
    let receive = example("right", "node2", RECEIVE, &["lane"]);
    let (sent, received) = between(&sandbox, &put, &receive).await?;
    ensure!(sent.contains("put everything"), "{sent}");
    ensure!(received.contains(&format!("took {COUNT} tensors, ")), "{received}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_grpc_client_that_knows_only_what_the_door_says_of_itself_puts_to_the_other_door() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("grpc-mixed").await?;
    let put = Workload::new("left", "node1", REFLECTED).file("reflection.proto", REFLECTION);
    let take = Workload::new("right", "node2", ARENA);
    let (sent, received) = between(&sandbox, &put, &take).await?;
    ensure!(sent.contains("put, flushed and closed"), "{sent}");
    ensure!(received.contains("took 7 tensors"), "{received}");
    sandbox.remove().await
}

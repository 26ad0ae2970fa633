//! The Open Inference Protocol, which Triton and KServe speak over gRPC, through a forward that neither side knows of.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, faults::SIDECAR, forward};

const PROTOCOL: &str = include_str!("../../programs/inference/open_inference.proto");
const SERVER: &str = include_str!("../../programs/inference/server.py");
const CLIENT: &str = include_str!("../../programs/inference/client.py");

/// The server at `address`.
fn server(address: &str) -> Workload {
    Workload::new("server", "node2", &format!("import server\nserver.main({address:?})\n"))
        .file("server.py", SERVER)
        .file("open_inference.proto", PROTOCOL)
}

/// The client, which has the server at `address`.
fn client(address: &str, cut: bool) -> Workload {
    let cut = if cut { "True" } else { "False" };
    Workload::new("client", "node1", &format!("import client\nclient.main({address:?}, {cut})\n"))
        .file("client.py", CLIENT)
        .file("open_inference.proto", PROTOCOL)
}

/// Starts both, and waits until the client got everything it asked for.
async fn infers(sandbox: &Sandbox, server: &Workload, client: &Workload) -> Result<()> {
    sandbox.apply(forward("lane", "client", "server", 18001, 8001)).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.start(server).await?;
    sandbox.start(client).await?;
    sandbox.printed("client", "inferred 321 times").await?;
    Ok(())
}

#[tokio::test]
async fn e2e_forward_carries_open_inference_and_its_client_outlives_a_cut() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("inference").await?;
    infers(&sandbox, &server("127.0.0.1:8001"), &client("127.0.0.1:18001", true)).await?;
    sandbox.printed("client", "standing").await?;
    sandbox.kill("server", SIDECAR).await?;
    let log = sandbox.finish("client").await?;
    ensure!(log.contains("recovered"), "{log}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_forward_on_the_host_network_goes_through_unix_sockets() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("inference-host").await?;
    sandbox.open().await?;
    // 127.0.0.1 is the node's there.
    let server = server("unix:/run/sealane/target/lane.sock").on_host_network();
    let client = client("unix:/run/sealane/forward/lane.sock", false).on_host_network();
    infers(&sandbox, &server, &client).await?;
    sandbox.finish("client").await?;
    sandbox.remove().await
}

//! The Open Inference Protocol, which Triton and KServe speak over gRPC, through a forward that neither side knows of.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, forward, until};

const PROTOCOL: &str = include_str!("../programs/inference/open_inference.proto");
const SERVER: &str = include_str!("../programs/inference/server.py");
const CLIENT: &str = include_str!("../programs/inference/client.py");

/// A program of programs/inference whose other end is at `address`.
fn program(app: &str, node: &'static str, module: &str, text: &str, address: &str) -> Workload {
    Workload::new(app, node, &format!("import {module}\n{module}.main({address:?})\n"))
        .file(&format!("{module}.py"), text)
        .file("open_inference.proto", PROTOCOL)
}

/// Starts both, and waits until the client got everything it asked for.
async fn infers(sandbox: &Sandbox, server: &Workload, client: &Workload) -> Result<()> {
    sandbox.apply(forward("lane", "client", "server", 18001, 8001)).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.start(server).await?;
    sandbox.start(client).await?;
    let log = sandbox.finish("client").await?;
    ensure!(log.contains("inferred 321 times"), "{log}");
    Ok(())
}

#[tokio::test]
async fn e2e_forward_carries_open_inference() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("inference").await?;
    let server = program("server", "node2", "server", SERVER, "127.0.0.1:8001");
    let client = program("client", "node1", "client", CLIENT, "127.0.0.1:18001");
    infers(&sandbox, &server, &client).await?;
    until("the session says what it carried", || async {
        let seen = sandbox.read("transfersession/lane").await.map_err(|error| format!("{error:#}"))?;
        let status = &seen["status"];
        // A connection for each channel of the client; tensors of 26 MB there and as much back.
        let (forwarded, bytes) = (status["forwarded"].as_u64(), status["bytesTransferred"].as_u64());
        if forwarded >= Some(4) && bytes >= Some(50_000_000) { Ok(()) } else { Err(status.to_string()) }
    })
    .await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_forward_on_the_host_network_goes_through_unix_sockets() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("inference-host").await?;
    sandbox.open().await?;
    // 127.0.0.1 is the node's there.
    let target = "unix:/run/sealane/target/lane.sock";
    let listen = "unix:/run/sealane/forward/lane.sock";
    let server = program("server", "node2", "server", SERVER, target).on_host_network();
    let client = program("client", "node1", "client", CLIENT, listen).on_host_network();
    infers(&sandbox, &server, &client).await?;
    sandbox.remove().await
}

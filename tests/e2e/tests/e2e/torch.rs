//! The store in which ranks of torch meet, through a forward. Long runs have an image with torch.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Signing, Workload, forward};

const RANK: &str = include_str!("../../programs/torch/rank.py");

/// torch's own port, which is also what it is reached on: programs on both sides are told the same.
const PORT: u16 = 29500;

#[tokio::test]
#[ignore = "needs an image with torch, of 700 MB"]
async fn e2e_forward_lets_ranks_meet_in_the_store_of_torch() -> Result<()> {
    let cluster = Cluster::connect()?;
    let image = cluster.torch()?.to_owned();
    let sandbox = cluster.sandbox("torch").await?;
    sandbox.apply(forward("lane", "worker", "master", PORT, PORT)).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    for (number, app, node) in [(0, "master", "node2"), (1, "worker", "node1")] {
        let run = format!("import rank\nrank.main({number}, {PORT})\n");
        let workload = Workload::new(app, node, &run).file("rank.py", RANK);
        sandbox.apply(workload.manifests(&image)).await?;
    }
    for (number, app) in [(0, "master"), (1, "worker")] {
        let log = sandbox.finish(app).await?;
        ensure!(log.contains(&format!("rank {number} of 2 met the other")), "{log}");
    }
    sandbox.remove().await
}

//! A door without sessions behind it: `door_loopback SOCKET [ARENA_BYTES]`. For tests of clients.

#![expect(clippy::print_stdout, reason = "the test that started it waits for this line")]

use std::path::PathBuf;

use anyhow::Context;
use sealane_sidecar::door::Door;
use sealane_sidecar::handoff::{self, ReplicaId};
use tokio_util::sync::CancellationToken;

mod loopback;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().context("usage: door_loopback SOCKET [ARENA_BYTES]")?);
    let bytes = arguments.next().map_or(Ok(512 << 20), |bytes| bytes.parse()).context("ARENA_BYTES")?;
    let mut process = [0; 16];
    aws_lc_rs::rand::fill(&mut process).map_err(|_| anyhow::anyhow!("no random bytes"))?;
    let (lanes, requests) = handoff::lanes();
    let door = Door::bind(&path, bytes, lanes)?;
    println!("ready");
    tokio::join!(
        door.serve(CancellationToken::new()),
        Box::pin(loopback::serve(requests, ReplicaId(process)))
    );
    Ok(())
}

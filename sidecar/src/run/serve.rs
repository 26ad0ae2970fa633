//! Start, serve, drain.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sealane_xdp::{Capabilities, drop_capabilities, held_by_any_thread};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::probe;
use crate::admin;
use crate::config::{Config, workers};
use crate::door::Door;
use crate::evidence::Platforms;
use crate::link::ports::Ports;
use crate::node::{self, Node, WallClock};
use crate::signals::Signals;

/// Runs a sidecar until it is told to stop.
pub(super) fn run(
    config: &Config,
    platforms: Platforms,
    wall: Option<Arc<dyn WallClock>>,
) -> anyhow::Result<()> {
    let ports = node::open_ports(config)?;
    give_up_capabilities()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .thread_name("data")
        .enable_all()
        .build()
        .context("the data plane's threads cannot be started")?;
    runtime.block_on(serve(ports, config, platforms, wall))
}

async fn serve(
    ports: Ports,
    config: &Config,
    platforms: Platforms,
    wall: Option<Arc<dyn WallClock>>,
) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    raise_descriptors();
    let (node, lanes) = Node::start_at(ports, config, platforms, wall)?;
    let door = Door::counting(&config.door, config.arena_bytes, lanes, node.door_metrics())?;
    probe::forget(&config.door)?;
    let leaving = CancellationToken::new();
    let grpc = config.grpc.as_deref().map(|path| door.grpc(path, node.sessions())).transpose()?;
    let mut clients = JoinSet::new();
    clients.spawn(door.serve(leaving.clone()));
    if let Some(grpc) = grpc {
        clients.spawn(grpc.serve(leaving.clone()));
    }
    let health = node.health();
    let admin = admin::serve(config.admin, config.admin_preferred, node.health(), node.gauges())?;
    if config.admin.port() == 0 {
        probe::tell(&config.door, admin.port())?;
    }
    // Only now: configuration is parsed, and both doors and the data port listen.
    health.started.store(true, Ordering::Release);
    tracing::info!(pod = %config.pod, data = %node.address(), %admin, door = %config.door.display(), "started");
    signals.stop().await;
    tracing::info!("draining");
    leaving.cancel();
    node.drain().await;
    clients.shutdown().await;
    tracing::info!("stopped");
    Ok(())
}

/// What is open stays so without them. There are none but where a device was to be opened, and no thread but this one.
pub(super) fn give_up_capabilities() -> anyhow::Result<()> {
    let given = [Capabilities::NEEDED, Capabilities::IPC_LOCK];
    let given = given.into_iter().fold(Capabilities::default(), Capabilities::union);
    drop_capabilities(given).context("capabilities cannot be dropped")?;
    let held = held_by_any_thread().context("the kernel does not tell of capabilities")?;
    anyhow::ensure!(given.without(held) == given, "a thread holds capabilities: {held}");
    Ok(())
}

/// Takes all descriptors that the container runtime grants: forwarded connections, lanes and replicas need one each, and
/// the soft limit is made for programs that select(2). What is refused is only missed.
fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(?current, ?maximum, "descriptors"),
        Err(error) => tracing::warn!(?current, ?maximum, %error, "the limit of descriptors cannot be raised"),
    }
}

//! The node agent: `sealane-sidecar agent`, one per node whose confidential VM is the TEE of all pods on it.
//!
//! Evidence of such a node says nothing of the pods. The agent adds which pod asks and what that pod runs, as kernel,
//! kubelet and container runtime state it, and has the platform sign it together with what the sidecar alone knows. A pod reaches its agent
//! by a socket of its own in a CSI ephemeral volume, which restricted namespaces permit.
//!
//! Invariant: nothing is signed for a process that is not in container `sealane` of the pod whose socket it uses, from a
//! pinned image; and never bytes that a caller chose.
//!
//! ```text
//! kubelet: csi → volumes (a socket per pod)
//! sidecar: socket → caller (kernel) → cgroup → kubelet, runtime → identity → quoter → platform
//! ```

mod caller;
mod cgroup;
mod config;
mod csi;
#[cfg(test)]
mod example;
mod identity;
mod kubelet;
mod quoter;
mod refusal;
mod runtime;
mod socket;
mod volumes;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::mpsc;

use crate::evidence::{Platforms, ProviderInput};
use crate::signals::Signals;
pub(crate) use config::{AgentArguments, Config};
use csi::{Driver, Places};
use kubelet::Kubelet;
use quoter::Quoter;
use runtime::{AskRuntime, Runtime};
use socket::{Desk, Served};
use volumes::Volumes;

/// The node's process file system, in which the agent sees every process by hostPID.
const PROC: &str = "/proc";

/// Runs an agent until it is told to stop.
pub(crate) fn run(config: Config, platforms: &Platforms) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("agent")
        .enable_all()
        .build()
        .context("the agent's threads cannot be started")?;
    runtime.block_on(serve(config, platforms))
}

async fn serve(config: Config, platforms: &Platforms) -> anyhow::Result<()> {
    let Config { node, provider, sidecars, kubelet_directory, kubelet, runtime, simulated_platform } = config;
    let mut signals = Signals::listen()?;
    caller::supported()?;
    let input = ProviderInput { simulated: simulated_platform, ..ProviderInput::default() };
    let platform = platforms.open(provider, &input).context("the node's platform")?;
    let kubelet = Arc::new(Kubelet::new(kubelet)?);
    let runtime = Arc::new(Runtime::new(&runtime)?);
    let asked = Arc::clone(&runtime) as Arc<dyn AskRuntime>;
    let desk = Desk::new(kubelet, asked, Quoter::new(platform), sidecars, PathBuf::from(PROC));
    let desk = Arc::new(desk);
    let volumes = Arc::new(Volumes::new(kubelet_directory.join("pods"), Served::stop));
    let again = volumes
        .restore(|target, listener| Served::start(Arc::clone(&desk), target.pod_uid().to_owned(), listener));
    let (registered, mut answers) = mpsc::channel(1);
    let places = Places::new(&kubelet_directory);
    let driver = Driver { node: node.clone(), places, volumes, desk, registered };
    tracing::info!(node, %provider, again, "started");
    tokio::select! {
        served = driver.serve() => served.context("the kubelet cannot be served"),
        () = registration(&mut answers) => anyhow::bail!("the kubelet refused the driver; the log says why"),
        () = runtime.gone() => anyhow::bail!("the container runtime's socket is gone; a new one is seen after a restart"),
        () = signals.stop() => {
            tracing::info!("stopped");
            Ok(())
        }
    }
}

/// Ends when the kubelet refuses the driver, so that the container is started again and shows it.
async fn registration(answers: &mut mpsc::Receiver<Result<(), String>>) {
    while let Some(answer) = answers.recv().await {
        match answer {
            Ok(()) => tracing::info!("the kubelet knows the driver"),
            Err(why) => {
                tracing::error!("the kubelet refuses the driver: {why}");
                return;
            }
        }
    }
}

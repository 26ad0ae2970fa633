//! The signals that ask a process to stop.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Heard from the beginning of a process, however late it comes to wait for them: what is not handled ends it without a
/// word, or, where it is the first process of a container, is lost.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
        let interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be handled")?;
        Ok(Self { terminate, interrupt })
    }

    /// Resolves when the kubelet, or a person, asks this process to stop.
    pub(crate) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

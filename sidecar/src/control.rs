//! The control channel: the operator proposes a configuration, the sidecar reports what it sees.
//!
//! Losing the operator touches nothing: sessions go on, the last configuration stays in effect, and it is kept on the
//! door's volume for a sidecar that restarts meanwhile.

mod client;
pub mod convert;
mod obstacle;
pub(crate) mod report;
mod store;

use std::sync::Arc;

pub(crate) use client::ControlError;

use crate::config::{Config, Control};
use crate::node::Shared;

/// Applies the kept configuration, then stays connected for the life of the process.
pub(crate) fn start(
    config: &Config,
    control: &Control,
    data_port: u16,
    shared: Arc<Shared>,
) -> Result<(), ControlError> {
    let store = store::Store::beside(&config.door);
    if let Some(kept) = store.load() {
        tracing::info!(
            generation = kept.generation,
            "using the configuration of the last run until the operator answers"
        );
        shared.apply(kept);
    }
    let client = client::Client::new(config, control, data_port, shared, store)?;
    tokio::spawn(client.run());
    Ok(())
}

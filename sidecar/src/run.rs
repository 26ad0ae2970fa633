//! The command line of both sidecar binaries.

use std::process::ExitCode;

use crate::evidence::Platforms;

/// Runs the sidecar with the platforms that the binary was linked with. Returns 2 on bad usage.
#[must_use]
pub fn main_with(platforms: Platforms) -> ExitCode {
    tracing::debug!(simulated = platforms.allow_simulated(), "starting");
    ExitCode::SUCCESS
}

//! The sidecar of simulated installations: the ordinary one, the simulated platform, and a clock that tests can step.
//!
//! It accepts evidence that proves nothing, if a signed policy pins its root. It is an image of its own, so
//! that no production cluster runs it by a setting.

mod clock;
mod provider;
mod root;

use std::process::ExitCode;

use sealane_sidecar::evidence::Platforms;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == root::COMMAND) {
        return root::main();
    }
    let platforms = Platforms::production().with_simulated(provider::open);
    sealane_sidecar::main_with_clock(platforms, clock::stepped())
}

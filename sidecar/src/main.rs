//! `sealane-sidecar`: real platforms only.

use std::process::ExitCode;

use sealane_sidecar::evidence::Platforms;

fn main() -> ExitCode {
    sealane_sidecar::main_with(Platforms::production())
}

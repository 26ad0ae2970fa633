//! `sealane-bench`: see `lib.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sealane_bench::command::main()
}

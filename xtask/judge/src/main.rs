//! `cargo xtask judge`: see `lib.rs`.

use std::{
    io::{Write, stderr, stdout},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use clap::Parser;
use sealane_judge::judge;

/// Judge the evidence of an index, one line of JSON per entry
#[derive(Debug, Parser)]
#[command(name = "cargo xtask judge", bin_name = "cargo xtask judge", version, after_long_help = HELP)]
struct Arguments {
    /// An index in the format of `vectors/index.json`; the paths in it are relative to it
    index: PathBuf,
    /// Take the root files of entries whose trust begins with "simulated root in this entry" as the vendor's
    #[arg(long)]
    test_roots: bool,
}

const HELP: &str = "\
One line of JSON per entry: {id, outcome, reason, micros}. Outcomes are accept, reject, missing (a file that the entry
names is not there; reason says which) and error (the entry itself cannot be read). `micros` is the fastest of five runs
of the verifier alone, in this build's profile: files are read, and collateral that a verifier keeps is parsed, before.

Whose root counts follows from an entry's `trust`: a text that begins with AMD, Intel or AWS, or none, means the roots that
this release pins, and a root file that is another is refused. Any other text means the entry's own files. Simulated roots
are never taken, but for --test-roots: with it a text that begins with \"simulated root in this entry\" means the entry's own
`root` (or `ark` and `ask`) in the vendor's place, for that entry alone.

Keys of `policy`, what is not stated being refused:
  sev-snp  allow_debug, allow_migration, allow_vlek, max_vmpl (0), min_tcb ({fmc, bl, tee, snp, uc}, each optional), and,
           allowed unless stated: allow_smt, allow_cxl, allow_tio
  tdx      tcb_status ([\"UpToDate\"]), allow_debug, allow_migration, allow_sept_ve, allow_perfmon, allow_key_locker,
           allow_dynamic_platform, allow_cached_keys, allow_smt
  nitro    allow_debug, max_age (300 s)
An entry with any other key is rejected, because what it demands cannot be checked.

The exit status says whether the index was read: it is 0 whatever the outcomes are.";

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do when standard error is gone.
            let _ = writeln!(stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let mut out = stdout().lock();
    for line in judge(&arguments.index, arguments.test_roots)? {
        writeln!(out, "{}", line.to_json())?;
    }
    Ok(())
}

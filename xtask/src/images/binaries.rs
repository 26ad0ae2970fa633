//! Our own programs: built by cargo, stripped of debug information, checked against the image's libraries.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{cargo, loader::Loader};
use crate::progress::note;

/// Builds `programs` and returns each one's executable. What compilers complain about goes to standard error; `progress`
/// hears how many of the crates are done.
///
/// The dev profile is what tests use too, so that images for the local cluster cost no second compilation; there the
/// whole workspace's features are selected for the same reason.
pub(super) fn build(
    root: &Path,
    programs: &[&str],
    release: bool,
    progress: impl Fn(f64) + Send,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--message-format=json-render-diagnostics"]);
    cargo.arg(if release { "--release" } else { "--workspace" });
    for program in programs {
        cargo.args(["--bin", program]);
        if release {
            cargo.args(["--package", program]);
        }
    }
    let output = cargo::run(&mut cargo, progress)?;
    let built = executables(&output);
    for program in programs {
        ensure!(built.contains_key(*program), "cargo built no executable {program}");
    }
    Ok(built)
}

/// The executables of `programs` that the whole workspace's build has left. Nothing looks whether they are up to date.
pub(super) fn built(root: &Path, programs: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    let found = programs.iter().map(|program| {
        let path = root.join("target/debug").join(program);
        ensure!(path.is_file(), "{} is not there: build the workspace first", path.display());
        Ok(((*program).to_owned(), path))
    });
    found.collect()
}

/// Names and paths of the programs in cargo's messages, one JSON object per line.
fn executables(messages: &str) -> BTreeMap<String, PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifacts = messages.filter(|message| message["reason"] == "compiler-artifact");
    let programs = artifacts.filter_map(|artifact| {
        let name = artifact["target"]["name"].as_str()?.to_owned();
        Some((name, PathBuf::from(artifact["executable"].as_str()?)))
    });
    programs.collect()
}

/// A copy of `program` in `folder` without debug information, which is most of its size. Symbols stay: a panic's
/// backtrace still names functions.
pub(super) fn strip(program: &Path, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let copy = folder.join(program.file_name().context("a program has a name")?);
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--strip-debug").arg(program).arg(&copy).stdin(Stdio::null());
    match objcopy.status() {
        Ok(status) => ensure!(status.success(), "objcopy cannot strip {} ({status})", program.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            note(&format!(
                "images: objcopy (binutils) is missing: {} keeps its debug information",
                copy.display()
            ));
            fs::copy(program, &copy).with_context(|| format!("copy {}", program.display()))?;
        }
        Err(error) => return Err(error).context("start objcopy"),
    }
    Ok(copy)
}

/// What stands in every program that links the simulated platform: the name of its crate, in its symbols.
const SIMULATION: &[u8] = b"sealane_simulated";
/// The programs that do: the simulated sidecar, and the benchmarks, which need evidence of something.
const SIMULATED: [&str; 2] = ["sealane-sidecar-sim", "sealane-bench"];

/// What stands in the one program whose clock can be stepped.
const STEPPED_CLOCK: &[u8] = b"SEALANE_SIMULATED_CLOCK";

/// That no image but those whose names say so can simulate a platform, and none but the simulated sidecar's a clock. The others are looked at too: a look that finds
/// nothing there would find nothing anywhere.
pub(super) fn check_simulation(name: &str, program: &Path) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("read {}", program.display()))?;
    let holds = |words: &[u8]| bytes.windows(words.len()).any(|window| window == words);
    let simulates = holds(SIMULATION);
    ensure!(
        simulates == SIMULATED.contains(&name),
        "{name} {} the simulated platform; see the table of walls in ARCHITECTURE.md",
        if simulates { "links" } else { "seems not to link" }
    );
    let steps = holds(STEPPED_CLOCK);
    ensure!(
        steps == (name == SIMULATED[0]),
        "{name} {} a clock that can be stepped",
        if steps { "has" } else { "seems not to have" }
    );
    Ok(())
}

/// That the OS layer has what `program` needs, and that its C library is not older than the one it was linked with.
pub(super) fn check(program: &Path, os: &Path) -> Result<()> {
    Loader::new(os, &[])?.check(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_that_say_so_simulate() {
        let folder = tempfile::tempdir().unwrap();
        let (with, without) = (folder.path().join("with"), folder.path().join("without"));
        let linked = [b"\0_ZN17".as_slice(), SIMULATION, b"8platform"].concat();
        fs::write(&with, [linked.as_slice(), STEPPED_CLOCK].concat()).unwrap();
        fs::write(&without, b"sealane-sidecar-sim is another image").unwrap();
        assert!(check_simulation("sealane-sidecar", &without).is_ok());
        assert!(check_simulation("sealane-sidecar-sim", &with).is_ok());
        let refused = check_simulation("sealane-sidecar", &with).unwrap_err();
        assert!(refused.to_string().contains("sealane-sidecar links"), "{refused}");
        assert!(check_simulation("sealane-sidecar-sim", &without).is_err(), "the look itself is looked at");
        let refused = check_simulation("sealane-bench", &with).unwrap_err();
        assert!(refused.to_string().contains("a clock that can be stepped"), "{refused}");
        fs::write(&with, &linked).unwrap();
        assert!(check_simulation("sealane-bench", &with).is_ok());
        assert!(check_simulation("sealane-sidecar-sim", &with).is_err());
    }

    #[test]
    fn programs_are_found_in_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"libc"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"sealane-operator"},"executable":"/t/debug/sealane-operator"}
{"reason":"build-finished","success":true}"#;
        let found = executables(messages);
        assert_eq!(found.len(), 1);
        assert_eq!(found["sealane-operator"], Path::new("/t/debug/sealane-operator"));
    }
}

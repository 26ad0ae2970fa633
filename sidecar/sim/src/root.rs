//! `sealane-sidecar-sim root`: makes the root of one installation.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use sealane_simulated::{MEASUREMENT, Material};
use serde_json::{Value, json};

pub(crate) const COMMAND: &str = "root";

/// Name of the ConfigMap in which policies find what to pin.
const CONFIG_MAP: &str = "sealane-simulation";

#[derive(Debug, Parser)]
#[command(name = "sealane-sidecar-sim", version, about = "Sealane's sidecar with the simulated platform")]
enum Arguments {
    /// Make a simulated platform under a new root, and print what a policy pins of it as JSON.
    ///
    /// The platform proves nothing: every simulated pod holds its key. Keep the file for the life of the
    /// installation, since policies pin its root.
    Root(Options),
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Where the platform goes. A platform that is there already is kept.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Make a new platform even if there is one: policies that pin the old root then refuse every pod.
    #[arg(long)]
    replace: bool,
    /// Also write a ConfigMap manifest that holds the fingerprint and the measurement.
    #[arg(long, value_name = "FILE")]
    configmap: Option<PathBuf>,
}

pub(crate) fn main() -> ExitCode {
    let Arguments::Root(options) = Arguments::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done about a closed stderr.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    let material = keep_or_make(&options.out, options.replace)?;
    let pinned = json!({
        "fingerprint": material.fingerprint().to_string(),
        "measurement": MEASUREMENT.to_string(),
    });
    if let Some(path) = &options.configmap {
        fs::write(path, format!("{:#}\n", config_map(&pinned)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    writeln!(io::stdout(), "{pinned:#}").context("cannot write to stdout")
}

fn keep_or_make(path: &Path, replace: bool) -> anyhow::Result<Material> {
    if !replace {
        match fs::read_to_string(path) {
            Ok(text) => {
                return Material::from_json(&text).with_context(|| {
                    format!("{} is no simulated platform; --replace makes a new one there", path.display())
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
    let material = Material::generate().context("cannot make a simulated platform")?;
    fs::write(path, material.to_json()?).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(material)
}

fn config_map(pinned: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": CONFIG_MAP }, "data": pinned })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(out: PathBuf, replace: bool) -> Options {
        Options { configmap: Some(out.with_extension("yaml")), out, replace }
    }

    #[test]
    fn a_platform_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("platform.json");
        run(&options(path.clone(), false)).unwrap();
        let first = fs::read_to_string(&path).unwrap();
        let manifest: Value =
            serde_json::from_str(&fs::read_to_string(path.with_extension("yaml")).unwrap()).unwrap();
        let fingerprint = Material::from_json(&first).unwrap().fingerprint().to_string();
        assert_eq!(manifest["data"]["fingerprint"], fingerprint);
        assert_eq!(manifest["data"]["measurement"], MEASUREMENT.to_string());

        run(&options(path.clone(), false)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
        run(&options(path.clone(), true)).unwrap();
        assert_ne!(fs::read_to_string(&path).unwrap(), first);
    }

    #[test]
    fn another_file_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        fs::write(&path, "mine").unwrap();
        let error = run(&options(path.clone(), false)).unwrap_err();
        assert!(error.to_string().contains("--replace"), "{error}");
        assert_eq!(fs::read_to_string(path).unwrap(), "mine");
    }
}

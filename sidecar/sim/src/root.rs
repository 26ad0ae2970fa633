//! `sealane-sidecar-sim root`: makes the root of one installation.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use sealane_simulated::{Installation, MEASUREMENT};
use sealane_types::SimulatedForm;
use serde_json::{Value, json};

pub(crate) const COMMAND: &str = "root";

/// Name of the ConfigMap in which policies find what to pin.
const CONFIG_MAP: &str = "sealane-simulation";

#[derive(Debug, Parser)]
#[command(name = "sealane-sidecar-sim", version, about = "Sealane's sidecar with the simulated platform")]
enum Arguments {
    /// Make a simulated platform of each form under new roots, and print what a policy pins of them as JSON.
    ///
    /// The platforms prove nothing: every simulated pod holds their keys. Keep the file for the life of the
    /// installation, since policies pin its roots.
    Root(Options),
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Where the platforms go. Those that are there already are kept, and those of other forms are added.
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
    let installation = keep_or_make(&options.out, options.replace)?;
    let fingerprint = |form| installation.fingerprint(form).map(|root| root.to_string()).unwrap_or_default();
    let pinned = json!({
        "fingerprint": fingerprint(SimulatedForm::SevSnp),
        "fingerprintTdx": fingerprint(SimulatedForm::Tdx),
        "fingerprintNitro": fingerprint(SimulatedForm::Nitro),
        "measurement": MEASUREMENT.to_string(),
    });
    if let Some(path) = &options.configmap {
        fs::write(path, format!("{:#}\n", config_map(&pinned)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    writeln!(io::stdout(), "{pinned:#}").context("cannot write to stdout")
}

/// The platforms in the file; of forms that it lacks, new ones are added.
fn keep_or_make(path: &Path, replace: bool) -> anyhow::Result<Installation> {
    let kept = if replace { None } else { read(path)? };
    let installation = kept.unwrap_or_default().completed().context("cannot make a simulated platform")?;
    fs::write(path, installation.to_json()?).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(installation)
}

fn read(path: &Path) -> anyhow::Result<Option<Installation>> {
    match fs::read_to_string(path) {
        Ok(text) => Installation::from_json(&text).map(Some).with_context(|| {
            format!("{} is no simulated platform; --replace makes a new one there", path.display())
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
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
        let made = Installation::from_json(&first).unwrap();
        let members = ["fingerprint", "fingerprintTdx", "fingerprintNitro"];
        for (form, member) in SimulatedForm::ALL.iter().zip(members) {
            assert_eq!(manifest["data"][member], made.fingerprint(*form).unwrap().to_string());
        }
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

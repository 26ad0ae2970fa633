//! Which tests a change can break: one table from paths to what depends on them.

use std::{collections::BTreeSet, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::process;

/// What a file can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Anything.
    Everything,
    /// No test; `tidy` looks at it.
    Text,
    /// The package with this name and all that depend on it.
    Package(&'static str),
    /// The same, and Python tests of what it defines.
    PackageAndPython(&'static str),
    Python,
    /// What is rendered and installed.
    Chart,
}

use Reach::{Chart, Everything, Package, PackageAndPython, Python, Text};

/// The longest beginning that fits a path decides.
const TABLE: [(&str, Reach); 59] = [
    (".cargo/", Everything),
    (".ci/", Text),
    (".config/", Everything),
    (".gitignore", Text),
    ("ARCHITECTURE.md", Text),
    ("CHANGELOG.md", Text),
    ("CONTRIBUTING.md", Text),
    ("Cargo.lock", Everything),
    ("Cargo.toml", Everything),
    ("LICENSE", Text),
    ("Makefile", Text),
    ("README.md", Text),
    ("SECURITY.md", Text),
    ("bench/", Package("sealane-bench")),
    ("bench/results/", Package("sealane-results")),
    ("charts/", Chart),
    ("cli/", Package("kubectl-sealane")),
    ("clients/python/", Python),
    ("clippy.toml", Text),
    ("crds/", Chart),
    ("deny.toml", Text),
    // Metrics and reasons are held against these pages.
    ("docs/", Package("sealane-types")),
    ("examples/", Package("sealane-operator-api")),
    ("examples/grpc/", Python),
    ("operator/", Package("sealane-operator")),
    ("operator/api/", Package("sealane-operator-api")),
    ("operator/injection/", Package("sealane-injection")),
    ("protocol/", PackageAndPython("sealane-protocol")),
    ("protocol/aead/", PackageAndPython("sealane-aead")),
    ("protocol/attestation/", Package("sealane-attestation")),
    ("protocol/attestation/simulated/", Package("sealane-simulated")),
    ("protocol/model/", Text),
    ("protocol/policy/", PackageAndPython("sealane-policy")),
    ("protocol/types/", Package("sealane-types")),
    ("rust-toolchain.toml", Everything),
    ("rustfmt.toml", Text),
    ("sidecar/", PackageAndPython("sealane-sidecar")),
    ("sidecar/api/", PackageAndPython("sealane-sidecar-api")),
    ("sidecar/arena/", PackageAndPython("sealane-arena")),
    ("sidecar/collateral/", Package("sealane-collateral")),
    ("sidecar/http/", Package("sealane-http")),
    ("sidecar/sim/", PackageAndPython("sealane-sidecar-sim")),
    ("sidecar/xdp/", Package("sealane-xdp")),
    ("tests/attacks.yaml", Package("xtask")),
    ("tests/chart/", Chart),
    ("tests/devices/", Package("sealane-devices")),
    ("tests/e2e/", Package("sealane-e2e")),
    ("tests/fixtures/", Package("sealane-fixtures")),
    ("tests/fuzz/", Package("sealane-fuzz")),
    ("tests/removals.yaml", Package("xtask")),
    ("tests/requirements.txt", Everything),
    ("tests/sim/", Package("sealane-sim")),
    ("tests/skips.txt", Everything),
    ("tests/support/", Everything),
    // Protocol, policy and door read them, and so do their Python twins.
    ("tests/vectors/", PackageAndPython("sealane-types")),
    ("tests/waits.txt", Text),
    ("xtask/", Everything),
    ("xtask/cluster/", Text),
    ("xtask/images/", Text),
];

/// The tests that a change can break.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    everything: bool,
    packages: BTreeSet<&'static str>,
    pub(super) python: bool,
    pub(super) chart: bool,
}

impl Selection {
    fn of<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut selection = Self::default();
        for path in paths {
            match row(path) {
                // What nobody thought of may break anything.
                None | Some(Everything) => selection.everything = true,
                Some(Text) => {}
                Some(Package(package)) => drop(selection.packages.insert(package)),
                Some(PackageAndPython(package)) => {
                    selection.packages.insert(package);
                    selection.python = true;
                }
                Some(Python) => selection.python = true,
                Some(Chart) => selection.chart = true,
            }
        }
        selection.python |= selection.everything;
        selection.chart |= selection.everything;
        selection
    }

    /// The Rust tests, as a filterset of cargo-nextest; none: there is nothing to run.
    pub(super) fn filter(&self) -> Option<String> {
        if self.everything {
            return Some("all()".to_owned());
        }
        let packages: Vec<_> = self.packages.iter().map(|package| format!("rdeps(={package})")).collect();
        (!packages.is_empty()).then(|| packages.join(" | "))
    }
}

fn row(path: &str) -> Option<Reach> {
    let rows = TABLE.iter().filter(|(prefix, _)| path.starts_with(prefix));
    rows.max_by_key(|(prefix, _)| prefix.len()).map(|(_, reach)| *reach)
}

/// What the work tree, untracked files included, changed since it left `base`; everything if there is no such commit.
///
/// # Errors
/// git fails.
pub(super) fn selection(root: &Path, base: Option<&str>) -> Result<Selection> {
    let Some(base) = base else {
        return Ok(Selection { everything: true, python: true, chart: true, ..Selection::default() });
    };
    Ok(Selection::of(files(root, base)?.iter().map(String::as_str)))
}

/// Files that differ from the commit where the work tree left `base`. A file that was moved and is otherwise nine tenths
/// alike has not changed: renames in bulk would run everything.
///
/// # Errors
/// git fails.
pub(super) fn files(root: &Path, base: &str) -> Result<BTreeSet<String>> {
    let git = |arguments: &[&str]| process::text(Command::new("git").args(arguments).current_dir(root));
    let left = git(&["merge-base", "HEAD", base]).with_context(|| format!("where this left {base}"))?;
    let told = git(&["diff", "--name-status", "--find-renames=90%", left.trim()])?;
    let mut changed: BTreeSet<_> = told.lines().filter_map(changed).map(str::to_owned).collect();
    changed.extend(git(&["ls-files", "--others", "--exclude-standard"])?.lines().map(str::to_owned));
    Ok(changed)
}

/// The path in a line of `git diff --name-status`, unless it only tells of a move.
fn changed(line: &str) -> Option<&str> {
    let (status, paths) = line.split_once('\t')?;
    (!status.starts_with('R')).then_some(paths)
}

/// The commit that changes are told from: `SEALANE_BASE`, or the main branch of the origin. A fresh clone of what is to be
/// judged has neither.
pub(super) fn base(root: &Path) -> Option<String> {
    let named = std::env::var("SEALANE_BASE").ok();
    let base = named.unwrap_or_else(|| "origin/main".to_owned());
    let verify = ["rev-parse", "--verify", "--quiet", &format!("{base}^{{commit}}")];
    process::text(Command::new("git").args(verify).current_dir(root)).ok()?;
    Some(base)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn every_tracked_file_has_its_row() {
        let tracked = process::text(Command::new("git").arg("ls-files").current_dir(root())).unwrap();
        let without: Vec<_> = tracked.lines().filter(|path| row(path).is_none()).collect();
        assert!(without.is_empty(), "no row of the table fits {without:?}");
        for (prefix, _) in TABLE {
            assert!(tracked.lines().any(|path| path.starts_with(prefix)), "{prefix} fits nothing");
        }
    }

    /// Packages are found by their folders in the table, and by cargo's own word here.
    #[test]
    fn a_change_in_each_package_runs_it_and_its_dependants() {
        let arguments = ["metadata", "--no-deps", "--format-version", "1", "--locked"];
        let told = process::text(Command::new("cargo").args(arguments).current_dir(root())).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        for package in told["packages"].as_array().unwrap() {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let folder = manifest.parent().unwrap().strip_prefix(root()).unwrap();
            let file = folder.join("src/lib.rs");
            let filter = Selection::of([file.to_str().unwrap()]).filter().unwrap();
            let name = package["name"].as_str().unwrap();
            assert!(filter == "all()" || filter == format!("rdeps(={name})"), "{name}: {filter}");
        }
    }

    #[test]
    fn a_move_is_no_change_and_what_is_unknown_runs_everything() {
        assert_eq!(changed("R096\ta.rs\tb.rs"), None);
        assert_eq!(changed("M\ta.rs"), Some("a.rs"));
        let texts = Selection::of(["README.md", "protocol/model/x.vp"]);
        assert_eq!((texts.filter(), texts.python, texts.chart), (None, false, false));
        let unknown = Selection::of(["new-folder/x"]);
        assert!(unknown.python && unknown.chart && unknown.filter().as_deref() == Some("all()"));
        assert!(Selection::of(["charts/sealane/values.yaml"]).chart);
    }
}

//! `cargo xtask test --plan`: what a run does and what cargo builds for it, without doing any of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::stages::Stage;
use crate::{process, progress::print};

/// The calls of cargo whose programs a run uses. clippy only checks, and cargo-nextest takes what the first one built.
const CALLS: [(&str, &[&str]); 1] = [("build", &["--workspace", "--all-targets"])];
/// What else cargo builds, and why its forms of registry crates are not counted.
const APART: [(&str, &[&str], &str); 1] =
    [("xtask", &["--bin", "xtask"], "the runner itself: built before it can plan anything")];

/// What cargo compiles at once (`--unit-graph`, unstable).
#[derive(Debug, Clone, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    pkg_id: String,
    target: Target,
    profile: Profile,
    platform: Option<String>,
    mode: String,
    features: BTreeSet<String>,
}

#[derive(Debug, Clone, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Debug, Clone, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Profile {
    opt_level: String,
}

#[derive(Debug, Deserialize)]
struct Graph {
    units: Vec<Unit>,
}

/// One call of cargo.
#[derive(Debug, Serialize)]
struct Call {
    name: &'static str,
    arguments: Vec<&'static str>,
    units: usize,
    registry_units: usize,
    own_units: usize,
}

#[derive(Debug, Serialize)]
struct Planned {
    name: &'static str,
    after: &'static [&'static str],
    budget_seconds: u32,
    needs_cluster: bool,
}

/// What `--plan -o json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    stages: Vec<Planned>,
    calls: Vec<Call>,
    programs: BTreeSet<String>,
    test_programs: BTreeSet<String>,
    /// Registry crates of which two calls build two forms.
    built_twice: usize,
    /// The same between those calls and the ones that are not counted.
    not_counted: BTreeMap<&'static str, NotCounted>,
    /// Crates of ours with more than one library form.
    own_libraries_twice: BTreeSet<String>,
    /// Macros and build scripts that are optimised.
    host_crates_optimised: BTreeSet<String>,
}

#[derive(Debug, Serialize)]
struct NotCounted {
    crates: BTreeSet<String>,
    reason: &'static str,
}

impl Unit {
    fn is_own(&self) -> bool {
        self.pkg_id.starts_with("path+")
    }

    fn is_built(&self) -> bool {
        self.mode == "build"
    }

    fn has_kind(&self, kind: &str) -> bool {
        self.target.kind.iter().any(|one| one == kind)
    }

    /// `name@version`, or the last folder of a path.
    fn package(&self) -> String {
        let name = self.pkg_id.rsplit(['/', '#']).next().unwrap_or_default();
        if name.contains('@') { name.to_owned() } else { format!("{}@{name}", self.target.name) }
    }
}

impl Plan {
    /// # Errors
    /// cargo cannot resolve the workspace.
    pub(super) fn of(root: &Path, stages: &[&'static Stage]) -> Result<Self> {
        let mut graphs = Vec::new();
        for (name, arguments) in CALLS {
            graphs.push((name, arguments, graph(root, arguments)?));
        }
        let counted: Vec<&[Unit]> = graphs.iter().map(|(.., units)| &units[..]).collect();
        let mut not_counted = BTreeMap::new();
        for (name, arguments, reason) in APART {
            let apart = graph(root, arguments)?;
            let crates = in_two_forms(&[&counted[..], &[&apart]].concat());
            not_counted.insert(name, NotCounted { crates, reason });
        }
        let all = || counted.iter().copied().flatten();
        let names = |wanted: &dyn Fn(&Unit) -> bool| -> BTreeSet<String> {
            all()
                .filter(|unit| wanted(unit))
                .map(|unit| format!("{} {}", unit.package(), unit.target.name))
                .collect()
        };
        let built_twice = in_two_forms(&counted).len();
        let own_libraries_twice = libraries_twice(all());
        let programs = names(&|unit| unit.is_own() && unit.is_built() && unit.has_kind("bin"));
        let test_programs = names(&|unit| unit.is_own() && unit.mode == "test");
        let host_crates_optimised = names(&|unit| {
            let host = unit.has_kind("proc-macro") || unit.has_kind("custom-build");
            host && unit.is_built() && unit.profile.opt_level != "0"
        });
        let planned = |stage: &&'static Stage| Planned {
            name: stage.name,
            after: stage.after,
            budget_seconds: stage.budget,
            needs_cluster: stage.is_of_cluster,
        };
        let calls = graphs.iter().map(|(name, arguments, units)| Call {
            name,
            arguments: arguments.to_vec(),
            units: units.len(),
            registry_units: units.iter().filter(|unit| !unit.is_own()).count(),
            own_units: units.iter().filter(|unit| unit.is_own()).count(),
        });
        Ok(Self {
            stages: stages.iter().map(planned).collect(),
            calls: calls.collect(),
            programs,
            test_programs,
            built_twice,
            not_counted,
            own_libraries_twice,
            host_crates_optimised,
        })
    }

    pub(super) fn print(&self) {
        print("Stages (seconds, after)");
        for Planned { name, after, budget_seconds, .. } in &self.stages {
            print(&format!("  {name:<40} {budget_seconds:>5}  {}", after.join(", ")));
        }
        for Call { name, arguments, units, registry_units, own_units } in &self.calls {
            let arguments = arguments.join(" ");
            print(&format!(
                "{name}: cargo build {arguments}: {units} units, {registry_units} of registries, {own_units} ours"
            ));
        }
        print(&format!("{} programs, {} test programs", self.programs.len(), self.test_programs.len()));
        print(&format!("built twice: {}", self.built_twice));
        for (name, NotCounted { crates, reason }) in &self.not_counted {
            print(&format!("not counted: {} crates of {name} ({reason})", crates.len()));
        }
    }
}

fn graph(root: &Path, arguments: &[&str]) -> Result<Vec<Unit>> {
    let mut command = Command::new("cargo");
    command.arg("build").args(arguments).args([
        "--locked",
        "--quiet",
        "-Z",
        "unstable-options",
        "--unit-graph",
    ]);
    // The graph is unstable, and is only looked at here.
    let text = process::text(command.env("RUSTC_BOOTSTRAP", "1").current_dir(root))?;
    let graph: Graph = serde_json::from_str(&text).context("reading cargo's unit graph")?;
    Ok(graph.units)
}

/// Registry crates that two calls build, in different forms. What runs on the host while it builds has a profile of its
/// own, and is another crate here.
fn in_two_forms(calls: &[&[Unit]]) -> BTreeSet<String> {
    let mut seen: BTreeMap<(&str, &str), Vec<BTreeSet<&Unit>>> = BTreeMap::new();
    for call in calls {
        let mut forms: BTreeMap<(&str, &str), BTreeSet<&Unit>> = BTreeMap::new();
        let libraries = |unit: &&Unit| !unit.is_own() && unit.is_built() && !unit.has_kind("custom-build");
        for unit in call.iter().filter(libraries) {
            forms.entry((&unit.pkg_id, &unit.profile.opt_level)).or_default().insert(unit);
        }
        for (key, forms) in forms {
            seen.entry(key).or_default().push(forms);
        }
    }
    let differing = seen.into_values().filter(|calls| calls.windows(2).any(|pair| pair[0] != pair[1]));
    differing.filter_map(|calls| Some(calls.first()?.first()?.package())).collect()
}

/// Crates of ours of which `units` hold two libraries.
fn libraries_twice<'a>(units: impl Iterator<Item = &'a Unit>) -> BTreeSet<String> {
    let mut counts: BTreeMap<&str, (usize, &Unit)> = BTreeMap::new();
    for unit in units.filter(|unit| unit.is_own() && unit.is_built() && unit.has_kind("lib")) {
        counts.entry(&unit.pkg_id).or_insert((0, unit)).0 += 1;
    }
    counts.into_values().filter(|(count, _)| *count > 1).map(|(_, unit)| unit.package()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn unit(package: &str, features: &[&str], opt_level: &str) -> Unit {
        serde_json::from_value(json!({
            "pkg_id": format!("registry+https://x#{package}@1.0.0"), "platform": null, "mode": "build",
            "target": {"kind": ["lib"], "name": package}, "profile": {"opt_level": opt_level}, "features": features,
        }))
        .unwrap()
    }

    #[test]
    fn a_crate_with_other_features_in_another_call_is_built_twice() {
        let one = [unit("a", &["std"], "1"), unit("b", &[], "1"), unit("b", &[], "0")];
        let other = [unit("a", &["std", "x"], "1"), unit("b", &[], "1"), unit("c", &[], "1")];
        assert_eq!(in_two_forms(&[&one, &one]), BTreeSet::new());
        assert_eq!(in_two_forms(&[&one, &other]), BTreeSet::from(["a@1.0.0".to_owned()]));
    }
}

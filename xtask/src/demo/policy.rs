//! The demo's policy: drafted from the declared Peers, signed by two owners, applied. The same commands that the
//! README shows.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::NAMESPACE;
use crate::{kubectl::Kubectl, process};

const OWNERS: [&str; 2] = ["alice", "bob"];

pub(super) fn apply(root: &Path, kubectl: &Kubectl, state: &Path) -> Result<()> {
    let tool = root.join("target/debug/kubectl-sealane");
    let plugin = || -> Command {
        let mut command = kubectl.environment(&tool);
        command.arg("policy");
        command
    };
    let keys: Vec<PathBuf> = OWNERS.iter().map(|owner| state.join(format!("{owner}.pem"))).collect();
    for key in keys.iter().filter(|key| !key.exists()) {
        process::text(plugin().args(["keygen", "--out"]).arg(key))?;
    }
    let draft = state.join("draft.json");
    let mut init = plugin();
    init.args(["init", "--namespace", NAMESPACE, "--name", "demo", "--simulated", "--threshold", "2"]);
    for key in &keys {
        init.arg("--owner-key").arg(key);
    }
    fs::write(&draft, process::text(&mut init)?).with_context(|| format!("writing {}", draft.display()))?;
    let bundle = state.join("bundle.json");
    fs::copy(&draft, &bundle).with_context(|| format!("writing {}", bundle.display()))?;
    for key in &keys {
        process::text(plugin().args(["sign", "--key"]).arg(key).arg(&bundle))?;
    }
    let manifest =
        process::text(plugin().args(["manifest", "--name", "demo", "--namespace", NAMESPACE]).arg(&bundle))?;
    kubectl.apply(&manifest)?;
    kubectl.run(&["-n", NAMESPACE, "wait", "trustpolicy/demo", "--for=condition=Ready", "--timeout=60s"])?;
    Ok(())
}

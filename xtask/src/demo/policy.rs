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

pub(super) fn apply(tool: &Path, kubectl: &Kubectl, state: &Path) -> Result<()> {
    let keys = keys(tool, kubectl, state)?;
    let applied = kubectl.apply(&manifest(tool, kubectl, state, &keys)?);
    if let Err(error) = applied {
        // The owners of an earlier demo are gone with their keys: nobody can sign a rotation, so the policy goes.
        if !format!("{error:#}").contains("roots are immutable") {
            return Err(error);
        }
        kubectl.run(&["-n", NAMESPACE, "delete", "trustpolicy", "demo", "--wait"])?;
        kubectl.apply(&manifest(tool, kubectl, state, &keys)?)?;
    }
    kubectl.run(&["-n", NAMESPACE, "wait", "trustpolicy/demo", "--for=condition=Ready", "--timeout=60s"])?;
    Ok(())
}

fn plugin(tool: &Path, kubectl: &Kubectl, words: &[&str]) -> Command {
    let mut command = kubectl.environment(tool);
    command.arg("policy").args(words);
    command
}

/// Each owner's key, made once.
fn keys(tool: &Path, kubectl: &Kubectl, state: &Path) -> Result<Vec<PathBuf>> {
    let keys: Vec<PathBuf> = OWNERS.iter().map(|owner| state.join(format!("{owner}.pem"))).collect();
    for key in keys.iter().filter(|key| !key.exists()) {
        process::text(plugin(tool, kubectl, &["keygen", "--out"]).arg(key))?;
    }
    Ok(keys)
}

/// A TrustPolicy for what is declared in the namespace, signed by every owner.
fn manifest(tool: &Path, kubectl: &Kubectl, state: &Path, keys: &[PathBuf]) -> Result<String> {
    let mut init =
        plugin(tool, kubectl, &["init", "--namespace", NAMESPACE, "--name", "demo", "--simulated"]);
    init.args(["--threshold", "2"]);
    for key in keys {
        init.arg("--owner-key").arg(key);
    }
    let bundle = state.join("policy.json");
    fs::write(&bundle, process::text(&mut init)?).with_context(|| format!("writing {}", bundle.display()))?;
    for key in keys {
        process::text(plugin(tool, kubectl, &["sign", "--key"]).arg(key).arg(&bundle))?;
    }
    process::text(
        plugin(tool, kubectl, &["manifest", "--name", "demo", "--namespace", NAMESPACE]).arg(&bundle),
    )
}

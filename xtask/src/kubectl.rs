//! kubectl and helm as this workspace calls them: against one named kubeconfig, never the user's default.

use std::{
    ffi::OsStr,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;

/// One cluster as the command-line tools see it.
#[derive(Debug, Clone)]
pub struct Kubectl {
    /// Folder with `kubectl` and `helm`.
    bin: PathBuf,
    kubeconfig: PathBuf,
    context: Option<String>,
}

impl Kubectl {
    #[must_use]
    pub fn new(bin: &Path, kubeconfig: &Path) -> Self {
        Self { bin: bin.to_owned(), kubeconfig: kubeconfig.to_owned(), context: None }
    }

    /// The same tools on another cluster of the user's kubeconfig.
    #[must_use]
    pub fn with_context(mut self, context: &str) -> Self {
        self.context = Some(context.to_owned());
        self
    }

    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder with `kubectl` and `helm`.
    #[must_use]
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// A kubectl command, ready for arguments.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = self.tool("kubectl");
        if let Some(context) = &self.context {
            command.args(["--context", context]);
        }
        command
    }

    /// A helm command, ready for arguments.
    #[must_use]
    pub fn helm(&self) -> Command {
        let mut command = self.tool("helm");
        if let Some(context) = &self.context {
            command.args(["--kube-context", context]);
        }
        command
    }

    /// Any program that finds the cluster through KUBECONFIG, such as `kubectl-sealane`.
    #[must_use]
    pub fn environment(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("KUBECONFIG", &self.kubeconfig);
        command
    }

    fn tool(&self, name: &str) -> Command {
        let ours = self.bin.join(name);
        self.environment(if ours.exists() { ours.into_os_string() } else { name.into() })
    }

    /// Runs kubectl and gives its standard output.
    ///
    /// # Errors
    /// kubectl's own words when it fails.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        process::text(self.command().args(arguments))
    }

    /// Runs kubectl with `-o json`.
    ///
    /// # Errors
    /// As [`Self::run`], or output that is not JSON.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let text = process::text(self.command().args(arguments).args(["-o", "json"]))?;
        serde_json::from_str(&text).context("kubectl printed something that is not JSON")
    }

    /// Server-side apply of manifests.
    ///
    /// # Errors
    /// kubectl's own words when it fails.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        let mut child = self
            .command()
            .args(["apply", "--server-side", "--field-manager=sealane-xtask", "--force-conflicts", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting kubectl")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(manifests.as_bytes()).context("writing manifests to kubectl")?;
        }
        let done = child.wait_with_output().context("waiting for kubectl")?;
        ensure!(done.status.success(), "kubectl apply: {}", String::from_utf8_lossy(&done.stderr).trim());
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

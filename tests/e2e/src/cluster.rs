//! The cluster under test and one test's namespace on it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{Owners, RELEASE, report, until};

/// The cluster, as `cargo xtask test` names it.
#[derive(Debug, Clone)]
pub struct Cluster {
    tools: PathBuf,
    /// Image of test workloads: Python with numpy and the client.
    pub image: String,
    /// Image with torch, which only long runs have.
    torch: Option<String>,
    plugin: PathBuf,
    /// Reaches into the nodes of a local cluster.
    xtask: Option<PathBuf>,
}

/// How a program ended, and what it said.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Cluster {
    /// # Errors
    /// The environment does not name a cluster.
    pub fn connect() -> Result<Self> {
        let variable = |name: &str| -> Result<OsString> {
            std::env::var_os(name).with_context(|| {
                format!("{name} is not set: end-to-end tests run through `cargo xtask test`")
            })
        };
        variable("KUBECONFIG")?;
        Ok(Self {
            tools: variable("SEALANE_TEST_TOOLS")?.into(),
            image: variable("SEALANE_TEST_IMAGE")?.to_string_lossy().into_owned(),
            torch: std::env::var("SEALANE_TEST_TORCH_IMAGE").ok(),
            plugin: variable("SEALANE_TEST_PLUGIN")?.into(),
            xtask: std::env::var_os("SEALANE_TEST_XTASK").map(PathBuf::from),
        })
    }

    /// The image of workloads that need torch.
    ///
    /// # Errors
    /// This run has none.
    pub fn torch(&self) -> Result<&str> {
        let missing =
            "SEALANE_TEST_TORCH_IMAGE is not set: `FULL=1 cargo xtask test` builds the image with torch";
        self.torch.as_deref().context(missing)
    }

    /// kubectl with `arguments`; its standard output.
    ///
    /// # Errors
    /// kubectl's own words.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.call("kubectl", arguments, None).await
    }

    /// helm with `arguments`; its standard output.
    ///
    /// # Errors
    /// helm's own words.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String> {
        self.call("helm", arguments, None).await
    }

    /// Applies manifests; server-side, so that what admission refuses is refused whole.
    ///
    /// # Errors
    /// The API server's words.
    pub async fn apply(&self, manifests: &Value) -> Result<String> {
        let text = manifests.to_string();
        until("apply", async || {
            let words = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
            match self.call("kubectl", &words, Some(text.clone())).await {
                Err(error) if is_late_admission(&error) => Err(error.to_string()),
                other => Ok(other),
            }
        })
        .await?
    }

    /// Creates one object; gives it as it is stored, or with `dry_run` as it would be.
    ///
    /// # Errors
    /// The API server's words.
    pub async fn create(&self, object: &Value, dry_run: bool) -> Result<Value> {
        let mut words = vec!["create", "-f", "-", "-o", "json"];
        words.extend(dry_run.then_some("--dry-run=server"));
        let text = self.call("kubectl", &words, Some(object.to_string())).await?;
        serde_json::from_str(&text).context("kubectl printed something that is not JSON")
    }

    /// kubectl for whoever is dropped, and can neither wait for it nor fail.
    pub(crate) fn kubectl_now(&self, arguments: &[String]) {
        let _ = Command::new(self.tools.join("kubectl")).args(arguments).stdin(Stdio::null()).status();
    }

    /// As [`Self::kubectl_now`]; what it printed, either way.
    pub(crate) fn kubectl_says(&self, arguments: &[&str]) -> String {
        let done = Command::new(self.tools.join("kubectl")).args(arguments).stdin(Stdio::null()).output();
        match done {
            Ok(done) => {
                [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
            }
            Err(error) => error.to_string(),
        }
    }

    /// `kubectl sealane` with `arguments`.
    ///
    /// # Errors
    /// The plugin's own words.
    pub async fn plugin(&self, arguments: &[&str]) -> Result<String> {
        let program = self.plugin.clone().into_os_string();
        run(program, arguments.iter().map(|word| (*word).to_owned()).collect(), None).await
    }

    /// `kubectl sealane` with `arguments`, whatever comes of it. It finds kubectl, as a plugin does.
    ///
    /// # Errors
    /// The plugin does not start.
    pub async fn plugin_outcome(&self, arguments: &[String]) -> Result<Outcome> {
        let mut command = Command::new(&self.plugin);
        let others = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.tools.clone()).chain(std::env::split_paths(&others));
        command.args(arguments).env("PATH", std::env::join_paths(path)?).stdin(Stdio::null());
        let done = tokio::task::spawn_blocking(move || command.output()).await??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Outcome { code: done.status.code(), stdout: text(&done.stdout), stderr: text(&done.stderr) })
    }

    /// Writes a configuration that acts as another user into `folder`; its path.
    ///
    /// # Errors
    /// kubectl's own words, or a file that cannot be written.
    pub async fn acting_as(&self, user: &str, folder: &Path) -> Result<String> {
        let mut config: Value =
            serde_json::from_str(&self.kubectl(&["config", "view", "--raw", "-o", "json"]).await?)?;
        for known in config["users"].as_array_mut().into_iter().flatten() {
            known["user"]["as"] = user.into();
        }
        let path = folder.join("kubeconfig");
        std::fs::write(&path, config.to_string())?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// A command inside a node, or with `control` on the network between the nodes; its standard output.
    ///
    /// # Errors
    /// The command's own words.
    pub async fn node(&self, node: &str, words: &[&str]) -> Result<String> {
        let (program, arguments) = self.on_node(node, words)?;
        run(program, arguments, None).await
    }

    /// Program and arguments that run `words` inside a node.
    ///
    /// # Errors
    /// The environment names nothing that reaches into nodes.
    pub fn on_node(&self, node: &str, words: &[&str]) -> Result<(OsString, Vec<String>)> {
        let xtask = self.xtask.clone().context("SEALANE_TEST_XTASK is not set: nobody reaches into nodes")?;
        let before = ["cluster", "exec", node, "--"];
        let arguments = before.iter().chain(words).map(|word| (*word).to_owned()).collect();
        Ok((xtask.into_os_string(), arguments))
    }

    async fn call(&self, tool: &str, arguments: &[&str], input: Option<String>) -> Result<String> {
        let program = self.tools.join(tool).into_os_string();
        run(program, arguments.iter().map(|word| (*word).to_owned()).collect(), input).await
    }

    /// The namespace of the release, as it is: for tests that run alone and remove what they make.
    ///
    /// # Errors
    /// There is no randomness for keys.
    pub fn release(&self) -> Result<Sandbox> {
        Ok(Sandbox {
            cluster: self.clone(),
            owners: Owners::new()?,
            name: RELEASE.to_owned(),
            is_left: false,
        })
    }

    /// A fresh namespace that is opted in, named after the test.
    ///
    /// # Errors
    /// The namespace cannot be made.
    pub async fn sandbox(&self, test: &str) -> Result<Sandbox> {
        let name = format!("e2e-{test}");
        // A namespace that an interrupted run left behind makes room first.
        self.kubectl(&["delete", "namespace", &name, "--ignore-not-found", "--wait"]).await?;
        self.apply(&serde_json::json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {
                "sealane.dev/injection": "enabled",
                "pod-security.kubernetes.io/enforce": "restricted",
            }},
        }))
        .await?;
        Ok(Sandbox { cluster: self.clone(), owners: Owners::new()?, name, is_left: true })
    }
}

/// Whether the webhook ran out of the API server's time. On a loaded machine it may, and whoever applies tries again;
/// what the webhook decided is never one of these.
fn is_late_admission(error: &anyhow::Error) -> bool {
    let words = error.to_string();
    words.contains("failed to call webhook") && words.contains("context deadline exceeded")
}

async fn run(program: OsString, arguments: Vec<String>, input: Option<String>) -> Result<String> {
    let shown = format!("{} {}", program.to_string_lossy(), arguments.join(" "));
    let work = move || -> Result<std::process::Output> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            std::io::Write::write_all(&mut stdin, input.as_bytes())?;
        }
        Ok(child.wait_with_output()?)
    };
    let done = tokio::task::spawn_blocking(work).await?.with_context(|| shown.clone())?;
    ensure!(done.status.success(), "{shown}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// One test's namespace; [`Sandbox::remove`] ends it. A test that fails drops it, and leaves a report instead.
#[derive(Debug)]
pub struct Sandbox {
    pub cluster: Cluster,
    pub owners: Owners,
    pub name: String,
    /// Whether it is the test's own and was not removed.
    is_left: bool,
}

impl Drop for Sandbox {
    #[expect(clippy::print_stderr, reason = "the output of a failed test says where to look")]
    fn drop(&mut self) {
        if !self.is_left {
            return;
        }
        match report::write(&self.cluster, &self.name) {
            Ok(path) => eprintln!("what was in namespace {}: {}", self.name, path.display()),
            Err(error) => eprintln!("no report of namespace {}: {error}", self.name),
        }
        let words = ["delete", "namespace", &self.name, "--wait=false"];
        self.cluster.kubectl_now(&words.map(str::to_owned));
    }
}

impl Sandbox {
    /// kubectl in this namespace.
    ///
    /// # Errors
    /// kubectl's own words.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut words = vec!["-n", &self.name];
        words.extend(arguments);
        self.cluster.kubectl(&words).await
    }

    /// One object as JSON.
    ///
    /// # Errors
    /// kubectl's own words, or no JSON.
    pub async fn read(&self, object: &str) -> Result<Value> {
        let text = self.kubectl(&["get", object, "-o", "json"]).await?;
        serde_json::from_str(&text).context("kubectl printed something that is not JSON")
    }

    /// Waits until `object` has condition `kind` with `status`; gives the condition.
    ///
    /// # Errors
    /// The condition did not come true in time.
    pub async fn condition(&self, object: &str, kind: &str, status: &str) -> Result<Value> {
        self.seen(object, kind, status, None).await
    }

    /// As [`Self::condition`], for `reason`.
    ///
    /// # Errors
    /// The condition did not come true in time, or for another reason.
    pub async fn because(&self, object: &str, kind: &str, status: &str, reason: &str) -> Result<Value> {
        self.seen(object, kind, status, Some(reason)).await
    }

    async fn seen(&self, object: &str, kind: &str, status: &str, reason: Option<&str>) -> Result<Value> {
        until(&format!("{object}: {kind}={status} {reason:?} in {}", self.name), || async move {
            let seen = self.read(object).await.map_err(|error| format!("{error:#}"))?;
            let conditions = seen["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let wanted = |condition: &&Value| {
                condition["type"] == kind
                    && condition["status"] == status
                    && reason.is_none_or(|reason| condition["reason"] == reason)
            };
            conditions.iter().find(wanted).cloned().ok_or_else(|| seen["status"].to_string())
        })
        .await
    }

    /// Applies objects into this namespace.
    ///
    /// # Errors
    /// The API server's words.
    pub async fn apply(&self, mut objects: Vec<Value>) -> Result<String> {
        for object in &mut objects {
            object["metadata"]["namespace"] = Value::from(self.name.clone());
        }
        self.cluster.apply(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects})).await
    }

    /// A pod, or another object, as admission would have it stored in this namespace. Nothing is.
    ///
    /// # Errors
    /// The API server's words.
    pub async fn admitted(&self, object: &Value) -> Result<Value> {
        let mut object = object.clone();
        object["metadata"]["namespace"] = Value::from(self.name.clone());
        self.cluster.create(&object, true).await
    }

    /// Deletes the namespace and what is in it, without waiting for the end of it.
    ///
    /// # Errors
    /// kubectl's own words.
    pub async fn remove(mut self) -> Result<()> {
        self.cluster.kubectl(&["delete", "namespace", &self.name, "--wait=false"]).await?;
        self.is_left = false;
        Ok(())
    }
}

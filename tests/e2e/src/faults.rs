//! What tests break below Kubernetes: containers are killed, nodes cut off. On the local cluster alone, which can be
//! reached into.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{Cluster, Sandbox, until};

/// The injected container.
pub const SIDECAR: &str = "sealane";
/// The application's container.
pub const PROGRAM: &str = "program";

/// A container of a pod, as its node runs it.
struct Running {
    id: String,
    node: String,
    restarts: u64,
}

impl Sandbox {
    /// Kills all processes of a container with SIGKILL and waits until the node has started it anew.
    ///
    /// # Errors
    /// It does not run, or does not come back in time.
    pub async fn kill(&self, pod: &str, container: &str) -> Result<()> {
        let restarts = self.strike(pod, container).await?;
        self.restarted(pod, container, restarts + 1).await
    }

    /// Kills all processes of a container; gives how often it had been restarted before.
    ///
    /// # Errors
    /// It does not run.
    pub async fn strike(&self, pod: &str, container: &str) -> Result<u64> {
        let running = until(&format!("{container} of {pod} runs"), || self.running(pod, container)).await?;
        let kill = ["ctr", "--namespace", "k8s.io", "task", "kill", "--signal", "SIGKILL", &running.id];
        self.cluster
            .node(&running.node, &kill)
            .await
            .with_context(|| format!("kill {container} of {pod}"))?;
        Ok(running.restarts)
    }

    /// Uses up `bytes` of the memory that a container may have, so that the kernel ends the container.
    ///
    /// # Errors
    /// It does not run, or its node keeps its cgroups elsewhere.
    pub async fn starve(&self, pod: &str, container: &str, bytes: u64) -> Result<()> {
        // The kernel ends the container before whoever took the memory, and that one too if it was not enough.
        let script = r#"for group in $(find /sys/fs/cgroup -type d -name "$0"); do
  case $(ls "$group") in *memory.*) break;; esac
done
for process in $(cat "$group/cgroup.procs"); do echo 1000 > "/proc/$process/oom_score_adj"; done
echo 0 > "$group/cgroup.procs"
head -c "$1" /dev/zero | tail > /dev/null || true"#;
        self.beside(pod, container, script, &bytes.to_string())
            .await
            .with_context(|| format!("starve {container} of {pod}"))?;
        Ok(())
    }

    /// What every thread of a container is permitted, as the kernel says it (proc_pid_status(5)).
    ///
    /// # Errors
    /// It does not run.
    pub async fn standing(&self, pod: &str, container: &str) -> Result<String> {
        let script = r#"ctr --namespace "$1" task ps "$0" | while read -r process _; do
  [ "$process" = PID ] || cat "/proc/$process/task/"*/status || true
done"#;
        self.beside(pod, container, script, "k8s.io")
            .await
            .with_context(|| format!("look at {container} of {pod}"))
    }

    /// Runs a script on the node of a container, with its id as `$0`.
    async fn beside(&self, pod: &str, container: &str, script: &str, word: &str) -> Result<String> {
        let running = until(&format!("{container} of {pod} runs"), || self.running(pod, container)).await?;
        self.cluster.node(&running.node, &["sh", "-c", script, &running.id, word]).await
    }

    /// Waits until a container runs after at least `restarts` restarts.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn restarted(&self, pod: &str, container: &str, restarts: u64) -> Result<()> {
        until(&format!("{container} of {pod} runs again"), || async {
            let running = self.running(pod, container).await?;
            if running.restarts >= restarts { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await
    }

    async fn running(&self, pod: &str, container: &str) -> Result<Running, String> {
        let seen = self.pod(pod).await.map_err(|error| format!("{error:#}"))?;
        let status = status(&seen, container).ok_or_else(|| seen["status"].to_string())?;
        let id = status["containerID"].as_str().and_then(|id| id.strip_prefix("containerd://"));
        let running = !status["state"]["running"].is_null();
        match (id, seen["spec"]["nodeName"].as_str()) {
            (Some(id), Some(node)) if running => Ok(Running {
                id: id.to_owned(),
                node: node.to_owned(),
                restarts: status["restartCount"].as_u64().unwrap_or(0),
            }),
            _ => Err(status.to_string()),
        }
    }
}

/// What the kubelet says about one container of a pod.
#[must_use]
pub fn status<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    ["initContainerStatuses", "containerStatuses"]
        .iter()
        .filter_map(|list| pod["status"][*list].as_array())
        .flatten()
        .find(|status| status["name"] == container)
}

/// A node whose network is cut; [`Cut::heal`] joins it again, and so does dropping it.
#[derive(Debug)]
pub struct Cut {
    cluster: Cluster,
    link: &'static str,
    healed: bool,
}

impl Cluster {
    /// Takes down the link between `node2` and everything else.
    ///
    /// # Errors
    /// The command's own words.
    pub async fn cut_node2(&self) -> Result<Cut> {
        let link = "veth2";
        self.node("control", &["ip", "link", "set", link, "down"]).await?;
        Ok(Cut { cluster: self.clone(), link, healed: false })
    }
}

impl Cut {
    /// # Errors
    /// The command's own words.
    pub async fn heal(mut self) -> Result<()> {
        self.healed = true;
        self.cluster.node("control", &["ip", "link", "set", self.link, "up"]).await?;
        Ok(())
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        // A test that failed while the node was away leaves a whole cluster to the next one, if it can.
        if !self.healed
            && let Ok((program, words)) =
                self.cluster.on_node("control", &["ip", "link", "set", self.link, "up"])
        {
            let _ = std::process::Command::new(program).args(words).status();
        }
    }
}

//! The release that all tests share: operator and webhook, each a Deployment of its own.

use anyhow::Result;

use crate::{Cluster, until};

/// Its namespace.
pub const RELEASE: &str = "sealane-system";
/// Selects the pods of both.
pub const REPLICAS: &str = "app.kubernetes.io/name=sealane,app.kubernetes.io/component in (operator,webhook)";
const DEPLOYMENTS: [&str; 2] = ["deployment/sealane-operator", "deployment/sealane-webhook"];

impl Cluster {
    /// Waits until every replica of the release is there and ready.
    ///
    /// # Errors
    /// kubectl's words, also where it takes too long.
    pub async fn rolled_out(&self) -> Result<()> {
        for deployment in DEPLOYMENTS {
            self.kubectl(&["-n", RELEASE, "rollout", "status", deployment, "--timeout=180s"]).await?;
        }
        Ok(())
    }

    /// Replaces every replica of the release, a few at a time.
    ///
    /// # Errors
    /// kubectl's words.
    pub async fn restart_release(&self) -> Result<()> {
        self.kubectl(&[&["-n", RELEASE, "rollout", "restart"][..], &DEPLOYMENTS].concat()).await?;
        self.rolled_out().await
    }

    /// Takes away every replica of the release, and waits until none is left.
    ///
    /// # Errors
    /// kubectl's words.
    pub async fn stop_release(&self) -> Result<()> {
        self.scale_release("--replicas=0").await?;
        until("no replica of the release is left", || async {
            let words = ["-n", RELEASE, "get", "pods", "-l", REPLICAS, "-o", "name"];
            let pods = self.kubectl(&words).await.map_err(|error| format!("{error:#}"))?;
            if pods.trim().is_empty() { Ok(()) } else { Err(pods) }
        })
        .await
    }

    /// Brings back what [`stop_release`](Self::stop_release) took away.
    ///
    /// # Errors
    /// kubectl's words.
    pub async fn start_release(&self) -> Result<()> {
        self.scale_release("--replicas=2").await?;
        self.rolled_out().await
    }

    async fn scale_release(&self, replicas: &str) -> Result<()> {
        let words = [&["-n", RELEASE, "scale", replicas][..], &DEPLOYMENTS].concat();
        self.kubectl(&words).await.map(drop)
    }
}

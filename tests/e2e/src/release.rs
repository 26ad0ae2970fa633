//! The release that all tests share: operator and webhook, each a Deployment of its own.

use anyhow::Result;

use crate::Cluster;

/// Its namespace.
pub const RELEASE: &str = "sealane-system";
/// Selects the pods of both.
pub const REPLICAS: &str = "app.kubernetes.io/name=sealane,app.kubernetes.io/component in (operator,webhook)";
pub(crate) const DEPLOYMENTS: [&str; 2] = ["deployment/sealane-operator", "deployment/sealane-webhook"];

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
}

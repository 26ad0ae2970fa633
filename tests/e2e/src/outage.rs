//! A time in which no process of the release runs.

use anyhow::Result;

use crate::{
    Cluster,
    release::{DEPLOYMENTS, RELEASE, REPLICAS},
    until,
};

/// Operator and webhook without replicas; [`Outage::end`] brings them back, and so does dropping it. The agents of nodes
/// are a DaemonSet, and stay.
#[derive(Debug)]
pub struct Outage {
    cluster: Cluster,
    is_over: bool,
}

impl Outage {
    /// Takes every replica away and waits until none is left.
    ///
    /// # Errors
    /// kubectl's own words, or pods that do not end.
    pub async fn begin(cluster: &Cluster) -> Result<Self> {
        let outage = Self { cluster: cluster.clone(), is_over: false };
        outage.scale(0).await?;
        until("no replica of the release is left", || async {
            let words = ["-n", RELEASE, "get", "pods", "-l", REPLICAS, "-o", "name"];
            let pods = cluster.kubectl(&words).await.map_err(|error| format!("{error:#}"))?;
            if pods.trim().is_empty() { Ok(()) } else { Err(pods) }
        })
        .await?;
        Ok(outage)
    }

    /// Brings all of them back and waits until they are ready.
    ///
    /// # Errors
    /// kubectl's own words, or replicas that do not become ready.
    pub async fn end(mut self) -> Result<()> {
        self.scale(2).await?;
        self.is_over = true;
        self.cluster.rolled_out().await
    }

    async fn scale(&self, replicas: u8) -> Result<()> {
        let words = scaling(replicas);
        self.cluster.kubectl(&words.iter().map(String::as_str).collect::<Vec<_>>()).await.map(drop)
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        // A test that failed meanwhile leaves a release to the next one.
        if !self.is_over {
            self.cluster.kubectl_now(&scaling(2));
        }
    }
}

fn scaling(replicas: u8) -> Vec<String> {
    let replicas = format!("--replicas={replicas}");
    let words = ["-n", RELEASE, "scale", &replicas];
    words.iter().chain(&DEPLOYMENTS).map(|word| (*word).to_owned()).collect()
}

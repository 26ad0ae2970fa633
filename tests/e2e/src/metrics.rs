//! What the sidecars of pods count.

use anyhow::{Context, Result, ensure};

use crate::Sandbox;

/// Where injected sidecars serve their metrics unless the chart's values say otherwise.
const ADMIN_PORT: u16 = 14711;

impl Sandbox {
    /// The sum of all series of `metric` that the sidecar of a pod exposes, read from the pod's node.
    ///
    /// # Errors
    /// The pod has no address, or its sidecar does not answer.
    pub async fn counted(&self, pod: &str, metric: &str) -> Result<f64> {
        let seen = self.pod(pod).await?;
        let place = seen["spec"]["nodeName"].as_str().zip(seen["status"]["podIP"].as_str());
        let (node, address) = place.with_context(|| format!("{pod} has no address"))?;
        let page = format!("http://{address}:{ADMIN_PORT}/metrics");
        let text = self.cluster.node(node, &["busybox", "wget", "-q", "-O", "-", &page]).await?;
        let family = metric.trim_end_matches("_total");
        ensure!(text.contains(&format!("# TYPE {family} ")), "{pod} counts no {metric}");
        Ok(sum(&text, metric))
    }
}

/// Samples of `metric` in the OpenMetrics text, with any labels.
fn sum(text: &str, metric: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(metric).filter(|rest| rest.starts_with([' ', '{']))?;
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    };
    text.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_name_are_added_up() {
        let text = "# TYPE ended counter\nended_total{reason=\"A\"} 2\nended_total{reason=\"B\"} 3\nended_totals 9\nup 1\n";
        assert!((sum(text, "ended_total") - 5.0).abs() < f64::EPSILON);
        assert!((sum(text, "up") - 1.0).abs() < f64::EPSILON);
    }
}

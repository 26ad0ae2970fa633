//! Evidence for a pod whose sidecar was identified: the agent composes REPORT_DATA from what it found out itself, and from
//! what a sidecar alone can know. Nobody hands it bytes to be signed.

use std::sync::Arc;
use std::time::Duration;

use sealane_attestation::binding::{ReportSubject, report_data};
use sealane_attestation::{Evidence, Format};
use tokio::sync::Semaphore;

use super::identity::Identity;
use super::refusal::Refusal;
use crate::evidence::node_message::QuoteQuestion;
use crate::evidence::{Provider, ProviderError, Quote, QuoteRequest};

/// Pods that wait for the platform at most; each waits for the quotes before its own.
const WAITING_MAX: usize = 32;
/// Longest time that the platform may take.
const QUOTE_DEADLINE: Duration = Duration::from_secs(5);

/// The node's platform, asked by one at a time.
#[derive(Debug)]
pub(super) struct Quoter {
    platform: Arc<dyn Provider>,
    waiting: Semaphore,
    turn: Semaphore,
}

impl Quoter {
    pub(super) fn new(platform: Arc<dyn Provider>) -> Self {
        Self { platform, waiting: Semaphore::new(WAITING_MAX), turn: Semaphore::new(1) }
    }

    pub(super) async fn format(&self) -> Result<Format, Refusal> {
        Ok(self.platform.format().await?)
    }

    /// Evidence of this node for the pod of `identity`.
    pub(super) async fn quote(
        &self,
        question: &QuoteQuestion,
        identity: &Identity,
    ) -> Result<Evidence, Refusal> {
        let _place = self.waiting.try_acquire().map_err(|_| Refusal::Busy)?;
        let _turn = self.turn.acquire().await.map_err(|_| Refusal::Busy)?;
        let QuoteQuestion { own_static, policy, trust, leaves, tree_root } = *question;
        let Identity { pod, workload } = identity;
        let format = self.platform.format().await?;
        let platform = format.platform();
        let subject = ReportSubject {
            platform,
            pod,
            own_static: &own_static,
            policy: &policy,
            trust: &trust,
            workload: Some(workload),
        };
        let report_data = report_data(&subject, leaves, &tree_root);
        let request = QuoteRequest { report_data, tree_root, own_static, policy, trust, leaves };
        let quote = tokio::time::timeout(QUOTE_DEADLINE, self.platform.quote(request)).await;
        let Quote { report, certificates, workload: _ } = quote.unwrap_or(Err(ProviderError::TimedOut))?;
        Ok(Evidence { format, report, certificates })
    }
}

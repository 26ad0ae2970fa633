//! What the verifier knows about the handshake that evidence has to be for.

use std::sync::Arc;

use sealane_types::{Digest, PodIdentity};

use crate::binding::{Leaf, ReportSubject, report_data};
use crate::message::EvidenceMessage;
use crate::rejection::Rejection;
use crate::trust::TrustConfiguration;
use crate::workload::StatedWorkload;

/// The verifier's own view of one handshake. Nothing here comes from the evidence message.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The leaf as the verifier computes it, with the prover's role and static key.
    pub leaf: Leaf,
    /// The static key that the prover showed in the handshake.
    pub prover_static: &'a [u8; 32],
    /// The replica that the prover confirmed to be in record 0.
    pub pod: &'a PodIdentity,
    /// What the prover stated in record 0.
    pub trust: &'a Arc<TrustConfiguration>,
    /// Digests of policy documents that the prover may run under: the verifier's current one, and those it
    /// superseded within the overlap. The caller, who has the clock, drops older ones.
    pub policies: &'a [Digest],
}

/// The REPORT_DATA that honest evidence for one handshake carries. Made by [`Expected::bind`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub(crate) report_data: [u8; 64],
    pub(crate) tree_root: [u8; 32],
    pub(crate) pod: PodIdentity,
    pub(crate) prover_static: [u8; 32],
    /// [`Self::report_data`] covers its digest.
    pub(crate) trust: Arc<TrustConfiguration>,
    /// What a node agent states; [`Self::report_data`] covers it.
    pub(crate) workload: Option<StatedWorkload>,
}

impl Binding {
    #[must_use]
    pub const fn report_data(&self) -> &[u8; 64] {
        &self.report_data
    }

    /// Root of the tree that holds this handshake: the nonce of a Nitro document.
    #[must_use]
    pub const fn tree_root(&self) -> &[u8; 32] {
        &self.tree_root
    }
}

impl Expected<'_> {
    /// Recomputes REPORT_DATA from what the verifier knows and the path that the prover gave.
    ///
    /// # Errors
    /// [`Rejection::NotBound`] when the message speaks of another replica, and [`Rejection::PolicyDigest`]
    /// when the prover runs under a policy that is not accepted.
    pub fn bind(&self, message: &EvidenceMessage) -> Result<Binding, Rejection> {
        let EvidenceMessage { pod, policy, path, evidence, workload } = message;
        if pod != self.pod {
            return Err(Rejection::NotBound("it names another replica than the handshake"));
        }
        if !self.policies.contains(policy) {
            return Err(Rejection::PolicyDigest);
        }
        let root = path.root(&self.leaf);
        let subject = ReportSubject {
            platform: evidence.platform(),
            pod,
            own_static: self.prover_static,
            policy,
            trust: &self.trust.digest(),
            workload: workload.as_ref(),
        };
        let report_data = report_data(&subject, path.leaves(), &root);
        let (pod, workload, prover_static) = (pod.clone(), workload.clone(), *self.prover_static);
        let trust = Arc::clone(self.trust);
        Ok(Binding { report_data, tree_root: root, pod, prover_static, trust, workload })
    }
}

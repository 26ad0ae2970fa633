//! Names of the objects that the operator and the chart share.

use sealane_operator_api::well_known::CONTROL_SERVICE;

/// Field manager of everything that the operator applies.
pub const FIELD_MANAGER: &str = "sealane-operator";
/// The version of this program, and of the sidecars that its release injects.
pub const OPERATOR_VERSION: &str = env!("CARGO_PKG_VERSION");
/// The Lease that elects the leader.
pub const LEASE: &str = "sealane-operator";
/// Key in the Secret of certificates with everything the operator needs.
pub const CERTIFICATES_KEY: &str = "certificates.json";
/// Webhook configurations, rendered by the chart without `caBundle`.
pub const MUTATING_WEBHOOK: &str = "sealane-inject";
pub const VALIDATING_WEBHOOK: &str = "sealane-validate";
/// Service of the webhooks in the release namespace.
pub const WEBHOOK_SERVICE: &str = "sealane-webhook";
/// `reportingController` of events.
pub const CONTROLLER: &str = "sealane.dev/operator";

/// Every DNS name under which the operator is dialled, for its certificate.
#[must_use]
pub fn serving_names(namespace: &str) -> Vec<String> {
    [WEBHOOK_SERVICE, CONTROL_SERVICE]
        .iter()
        .flat_map(|service| {
            [format!("{service}.{namespace}.svc"), format!("{service}.{namespace}.svc.cluster.local")]
        })
        .collect()
}

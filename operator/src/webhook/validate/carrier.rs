//! What is to be known of a session that begins to ask for AF_XDP. Pure.

use kube::core::DynamicObject;
use kube::core::admission::AdmissionRequest;

const WARNING: &str = "spec.carrier: only pods on the host's network that are made after this have what AfXdp takes; where one of the others takes part, Udp carries the session if the TrustPolicy lists it, and condition Degraded says CarrierFallback";

/// Told once: whoever changes something else about the session knows it already.
pub(super) fn warning(request: &AdmissionRequest<DynamicObject>) -> Option<&'static str> {
    let asks =
        |object: &DynamicObject| object.data.pointer("/spec/carrier").is_some_and(|word| word == "AfXdp");
    let begins = request.kind.kind == "TransferSession"
        && request.object.as_ref().is_some_and(asks)
        && !request.old_object.as_ref().is_some_and(asks);
    begins.then_some(WARNING)
}

#[cfg(test)]
mod tests {
    use kube::core::admission::AdmissionReview;
    use serde_json::{Value, json};

    use super::*;

    fn told(kind: &str, carrier: &str, before: Option<&str>) -> bool {
        let object = |carrier: &str| -> Value {
            json!({"apiVersion": "sealane.dev/v1alpha1", "kind": kind, "metadata": {"name": "fast"},
                   "spec": {"carrier": carrier}})
        };
        let review: AdmissionReview<DynamicObject> = serde_json::from_value(json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "1", "operation": "CREATE", "namespace": "demo", "name": "fast", "userInfo": {},
                "dryRun": false, "kind": {"group": "sealane.dev", "version": "v1alpha1", "kind": kind},
                "resource": {"group": "sealane.dev", "version": "v1alpha1", "resource": "x"},
                "object": object(carrier), "oldObject": before.map(object),
            },
        }))
        .unwrap();
        warning(&review.try_into().unwrap()).is_some()
    }

    #[test]
    fn whoever_begins_to_ask_for_af_xdp_hears_what_it_takes() {
        assert!(told("TransferSession", "AfXdp", None));
        assert!(told("TransferSession", "AfXdp", Some("Udp")));
        assert!(!told("TransferSession", "AfXdp", Some("AfXdp")));
        assert!(!told("TransferSession", "Udp", Some("AfXdp")));
        assert!(!told("Peer", "AfXdp", None));
    }
}

//! `/validate`: what the object itself says is judged first, then a forward beside its neighbours.

use std::fmt;

use kube::Client;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sealane_operator_api::TransferSessionSpec;

use super::{neighbours, validate};
use crate::causes::Causes;
use crate::clock;

/// Judges custom resources.
pub struct Validator {
    client: Client,
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator").finish_non_exhaustive()
    }
}

impl Validator {
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Answers one review.
    pub async fn review(&self, request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
        let response = validate::review(request, clock::now());
        let Some((name, spec)) = new_forward(request).filter(|_| response.allowed) else { return response };
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let found = match neighbours::around(&self.client, namespace, &spec).await {
            Ok(neighbours) => validate::forward::check(&name, &spec, &neighbours),
            // A conflict that is not found here is a condition later.
            Err(error) => {
                tracing::warn!(namespace, error = %Causes(&error), "a forward was admitted without a look at its neighbours");
                Ok(vec!["other sessions could not be looked at; if one listens on the same port, condition Ready says PortConflict".to_owned()])
            }
        };
        validate::answer(response, found)
    }
}

/// The forward that a review brings, unless it is the one that is stored already: whoever changes something else
/// about a session is not bothered with its ports.
fn new_forward(request: &AdmissionRequest<DynamicObject>) -> Option<(String, TransferSessionSpec)> {
    let spec = |object: &DynamicObject| -> Option<TransferSessionSpec> {
        serde_json::from_value(object.data.get("spec")?.clone()).ok()
    };
    let object = request.object.as_ref().filter(|_| request.kind.kind == "TransferSession")?;
    let asked = spec(object).filter(|asked| asked.forward.is_some())?;
    let stored = request.old_object.as_ref().and_then(spec);
    let changed = stored.is_none_or(|stored| stored.forward != asked.forward || stored.to != asked.to);
    changed.then(|| (object.metadata.name.clone().unwrap_or_default(), asked))
}

#[cfg(test)]
mod tests;

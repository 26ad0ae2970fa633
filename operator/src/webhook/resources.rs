//! `/validate`: what the object itself says is judged first, then a forward or a Peer beside its neighbours.

use std::fmt;

use kube::Client;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sealane_operator_api::{Peer, TransferSessionSpec};

use super::validate::overlap::Selecting;
use super::{neighbours, validate};
use crate::causes::Causes;
use crate::clock;
use crate::membership::PeerSelector;

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
        if !response.allowed {
            return response;
        }
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let found = if let Some((name, spec)) = new_forward(request) {
            self.forward(namespace, &name, &spec).await
        } else if let Some(selecting) = new_selector(request) {
            self.selector(namespace, &selecting).await
        } else {
            return response;
        };
        validate::answer(response, found)
    }

    async fn forward(
        &self,
        namespace: &str,
        name: &str,
        spec: &TransferSessionSpec,
    ) -> Result<Vec<String>, validate::Invalid> {
        match neighbours::around(&self.client, namespace, spec).await {
            Ok(neighbours) => validate::forward::check(name, spec, &neighbours),
            // A conflict that is not found here is a condition later.
            Err(error) => {
                tracing::warn!(namespace, error = %Causes(&error), "a forward was admitted without a look at its neighbours");
                Ok(vec!["other sessions could not be looked at; if one listens on the same port, condition Ready says PortConflict".to_owned()])
            }
        }
    }

    async fn selector(
        &self,
        namespace: &str,
        selecting: &Selecting,
    ) -> Result<Vec<String>, validate::Invalid> {
        match neighbours::of_peer(&self.client, namespace, &selecting.asked).await {
            Ok((peers, pods)) => validate::overlap::check(selecting, &peers, &pods),
            Err(error) => {
                tracing::warn!(namespace, error = %Causes(&error), "a Peer was admitted without a look at the others");
                Ok(vec!["other Peers could not be looked at; if one selects the same pods, condition Ready says Conflict".to_owned()])
            }
        }
    }
}

/// The selector that a review brings, unless it is the one that is stored already.
fn new_selector(request: &AdmissionRequest<DynamicObject>) -> Option<Selecting> {
    let read = |object: &DynamicObject| PeerSelector::read(&object.clone().try_parse::<Peer>().ok()?).ok()?;
    let object = request.object.as_ref().filter(|_| request.kind.kind == "Peer")?;
    let asked = read(object)?;
    let stored = request.old_object.as_ref().and_then(read);
    let same = |stored: &PeerSelector| stored.is_within(&asked) && asked.is_within(stored);
    (!stored.as_ref().is_some_and(same)).then_some(Selecting { asked, stored })
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

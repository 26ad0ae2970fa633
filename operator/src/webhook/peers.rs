//! The Peers of a namespace as admission reads them. One that cannot be read, because another release wrote it or it came
//! past the schema, still selects pods, which would go without their sidecar if it were passed over; it says nothing about
//! the pods of others.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use kube::core::{DynamicObject, Expression, SelectorExt};
use sealane_operator_api::Peer;
use sealane_types::PeerName;
use serde_json::Value;

use super::decide::Refusal;
use crate::membership::PeerSelector;

/// Of what is wrong with a Peer, in a refusal.
const PROBLEM_CHARACTERS_MAX: usize = 300;

/// The Peers of one namespace.
#[derive(Debug, Default)]
pub(super) struct Peers {
    readable: Vec<Peer>,
    selectors: Vec<PeerSelector>,
    unreadable: Vec<Unreadable>,
}

/// A Peer of which only part can be read.
#[derive(Debug)]
struct Unreadable {
    peer: String,
    problem: String,
    /// What its selector demands of labels, as far as that can be read.
    demands: Vec<Expression>,
}

impl Peers {
    /// Reads each of them as far as it can be read.
    pub(super) fn read(listed: Vec<DynamicObject>) -> Self {
        let mut peers = Self::default();
        for object in listed {
            match read(&object) {
                Ok((peer, selector)) => {
                    peers.readable.push(peer);
                    peers.selectors.extend(selector);
                }
                Err(problem) => peers.unreadable.push(Unreadable {
                    peer: object.metadata.name.clone().unwrap_or_default(),
                    problem: problem.chars().take(PROBLEM_CHARACTERS_MAX).collect(),
                    demands: demands(&object.data["spec"]["selector"]),
                }),
            }
        }
        peers
    }

    /// Peers that were read before. None: what one of them selects cannot be read.
    pub(super) fn of(readable: Vec<Peer>) -> Option<Self> {
        let selectors: Option<Vec<_>> = readable.iter().map(|peer| PeerSelector::read(peer).ok()).collect();
        let selectors = selectors?.into_iter().flatten().collect();
        Some(Self { readable, selectors, unreadable: Vec::new() })
    }

    pub(super) fn selectors(&self) -> &[PeerSelector] {
        &self.selectors
    }

    pub(super) fn named(&self, name: &PeerName) -> Option<&Peer> {
        self.readable.iter().find(|peer| peer.metadata.name.as_deref() == Some(name.as_str()))
    }

    /// Why a pod with these labels is refused: a Peer that cannot be read selects it, or may.
    pub(super) fn claim(&self, labels: &BTreeMap<String, String>) -> Option<Refusal> {
        // One of which nothing can be read names no pod.
        let selects = |peer: &&Unreadable| {
            !peer.demands.is_empty() && peer.demands.iter().all(|demand| demand.matches(labels))
        };
        let Unreadable { peer, problem, demands: _ } = self.unreadable.iter().find(selects)?;
        Some(Refusal::UnreadablePeer { peer: peer.clone(), problem: problem.clone() })
    }
}

fn read(object: &DynamicObject) -> Result<(Peer, Option<PeerSelector>), String> {
    let peer: Peer = object.clone().try_parse().map_err(|error| error.to_string())?;
    let selector = PeerSelector::read(&peer).map_err(|problem| problem.to_string())?;
    Ok((peer, selector))
}

fn demands(selector: &Value) -> Vec<Expression> {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels =
        labels.filter_map(|(key, value)| Some(Expression::Equal(key.clone(), value.as_str()?.to_owned())));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let expressions = expressions.filter_map(|part| {
        let requirement: LabelSelectorRequirement = serde_json::from_value(part.clone()).ok()?;
        requirement.try_into().ok()
    });
    labels.chain(expressions).collect()
}

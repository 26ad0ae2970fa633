//! What simulated sidecars hold. Each receives all messages that are for it; what many of them are told alike is in this
//! program once, or ten thousand of them would take more memory than the machine has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sealane_sidecar_api::control::{Configuration, Delta};
use sealane_sidecar_api::delta::{Sequence, apply, assemble};

/// A configuration, and what a report says of it.
#[derive(Debug)]
pub(crate) struct State {
    sequence: Sequence,
    pub(crate) told: Configuration,
    pub(crate) replicas: usize,
    /// A digest of the policy's document.
    pub(crate) policy: Option<u64>,
    pub(crate) epoch: u64,
}

/// The states of all sidecars, by the digest of their items.
#[derive(Debug, Default)]
pub(crate) struct States(Mutex<HashMap<[u8; 32], Weak<State>>>);

/// One sidecar's stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) state: Option<Arc<State>>,
    changes: Vec<u8>,
}

impl Stream {
    /// The state that is complete with this message.
    pub(crate) fn take(&mut self, delta: &Delta, states: &States) -> Result<Option<Arc<State>>> {
        ensure!(delta.offset == self.changes.len() as u64, "a part of a change is missing");
        self.changes.extend_from_slice(&delta.changes);
        if delta.more {
            return Ok(None);
        }
        let changes = std::mem::take(&mut self.changes);
        let nothing = Sequence::default();
        let base = match &self.state {
            _ if delta.base.is_empty() => &nothing,
            Some(state) => &state.sequence,
            None => anyhow::bail!("a change of what was never told"),
        };
        ensure!(delta.base.is_empty() || delta.base == base.digest(), "a change of something else");
        let digest = delta.digest.as_slice().try_into().context("a digest has 32 bytes")?;
        let state = states.of(digest, || apply(base, &changes).map_err(Into::into))?;
        self.state = Some(Arc::clone(&state));
        Ok(Some(state))
    }
}

impl States {
    fn of(&self, digest: [u8; 32], make: impl FnOnce() -> Result<Sequence>) -> Result<Arc<State>> {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get(&digest).and_then(Weak::upgrade) {
            return Ok(state);
        }
        let state = Arc::new(State::new(make()?)?);
        ensure!(*state.sequence.digest() == digest, "what comes of a change is not what was announced");
        states.retain(|_, state| state.strong_count() > 0);
        states.insert(digest, Arc::downgrade(&state));
        Ok(state)
    }
}

impl State {
    fn new(sequence: Sequence) -> Result<Self> {
        let told = assemble(&sequence)?;
        let remotes = told.sessions.iter().flat_map(|session| &session.remotes);
        let replicas = remotes.map(|remote| remote.replicas.len()).sum();
        let document = told.policy.as_ref().and_then(|policy| {
            let chain: serde_json::Value = serde_json::from_str(&policy.chain).ok()?;
            chain["document"].as_str().map(str::to_owned)
        });
        let epoch = document.as_deref().and_then(epoch_of).unwrap_or(0);
        Ok(Self { sequence, told, replicas, policy: document.as_deref().map(digest), epoch })
    }
}

fn epoch_of(document: &str) -> Option<u64> {
    let document = BASE64_STANDARD.decode(document).ok()?;
    let document: serde_json::Value = serde_json::from_slice(&document).ok()?;
    document["epoch"].as_u64()
}

pub(crate) fn digest(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

//! A TransferSession: both sides exist, share a policy, and every number is one.

use std::collections::BTreeMap;

use sealane_operator_api::{InvalidQuantity, TransferSession};
use sealane_types::{PeerName, PolicyName, Reason};

use crate::desired::Terms;
use crate::spec::{Problem, SessionShape, ValidPeer, word};

/// What sidecars are told about the session, or why nothing.
pub(super) fn check(
    session: &TransferSession,
    peers: &BTreeMap<PeerName, ValidPeer>,
) -> Result<SessionShape, Problem> {
    let spec = &session.spec;
    let stream = spec.stream.as_ref().ok_or_else(|| invalid("spec.stream is not set"))?;
    let (from, policy) = known(peers, &spec.from.peer)?;
    let mut to = Vec::with_capacity(spec.to.len());
    for entry in &spec.to {
        let (peer, of_peer) = known(peers, &entry.peer)?;
        if of_peer != policy {
            return Err(Problem::new(
                Reason::PolicyMismatch,
                format!(
                    "Peer `{from}` refers to TrustPolicy `{policy}` and Peer `{peer}` to `{of_peer}`; both sides of a session need the same"
                ),
            ));
        }
        to.push(peer);
    }
    let field = |field: &'static str| move |error: InvalidQuantity| invalid(&format!("{field}: {error}"));
    let terms = Terms {
        delivery: stream.delivery,
        fanout: u32::try_from(stream.fanout).map_err(|_| invalid("spec.stream.fanout is negative"))?,
        carrier: spec.carrier,
        cipher: spec.cipher,
        rekey_bytes: spec.rekey.bytes.bytes().map_err(field("spec.rekey.bytes"))?,
        rekey_messages: u64::try_from(spec.rekey.messages)
            .map_err(|_| invalid("spec.rekey.messages is negative"))?,
        rekey_seconds: spec.rekey.interval.seconds().map_err(field("spec.rekey.interval"))?,
    };
    Ok(SessionShape { from, to, policy, terms })
}

fn invalid(message: &str) -> Problem {
    Problem { reason: word::SPEC_INVALID, message: message.to_owned() }
}

fn known(peers: &BTreeMap<PeerName, ValidPeer>, name: &str) -> Result<(PeerName, PolicyName), Problem> {
    let unknown =
        || Problem::new(Reason::PeerUnknown, format!("there is no Peer `{name}` in this namespace"));
    let name = PeerName::new(name).map_err(|error| invalid(&error.to_string()))?;
    let peer = peers.get(&name).ok_or_else(unknown)?;
    Ok((name, peer.policy.clone()))
}

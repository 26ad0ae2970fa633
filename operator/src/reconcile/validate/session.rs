//! A TransferSession: both sides exist, share a policy, and every number is one.

use std::collections::BTreeMap;

use sealane_operator_api::{InvalidQuantity, Stream, TransferSession, TransferSessionSpec};
use sealane_types::{ForwardPort, InvalidPort, PeerName, PolicyName, Reason};

use crate::desired::{Forward, Kind, Terms};
use crate::spec::{Problem, SessionShape, ValidPeer, word};

/// What sidecars are told about the session, or why nothing.
pub(super) fn check(
    session: &TransferSession,
    peers: &BTreeMap<PeerName, ValidPeer>,
) -> Result<SessionShape, Problem> {
    let spec = &session.spec;
    let kind = kind(spec)?;
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
        kind,
        carrier: spec.carrier,
        congestion: spec.congestion,
        cipher: spec.cipher,
        rekey_bytes: spec.rekey.bytes.bytes().map_err(field("spec.rekey.bytes"))?,
        rekey_messages: u64::try_from(spec.rekey.messages)
            .map_err(|_| invalid("spec.rekey.messages is negative"))?,
        rekey_seconds: spec.rekey.interval.seconds().map_err(field("spec.rekey.interval"))?,
    };
    Ok(SessionShape { from, to, policy, terms })
}

fn kind(spec: &TransferSessionSpec) -> Result<Kind, Problem> {
    // Null, which the schema admits beside a forward, is read as an empty stream.
    let stream =
        spec.stream.as_ref().filter(|stream| spec.forward.is_none() || **stream != Stream::default());
    match (stream, &spec.forward) {
        (Some(stream), None) => Ok(Kind::Stream {
            delivery: stream.delivery,
            fanout: u32::try_from(stream.fanout).map_err(|_| invalid("spec.stream.fanout is negative"))?,
        }),
        (None, Some(forward)) if spec.to.len() == 1 => Ok(Kind::Forward(Forward {
            listen: port("spec.forward.listen", forward.listen)?,
            target: port("spec.forward.target", forward.target)?,
            per_replica: forward.per_replica,
        })),
        (None, Some(_)) => Err(invalid("spec.to: a forward leads to exactly one Peer")),
        (Some(_), Some(_)) => Err(invalid("both spec.stream and spec.forward are set")),
        (None, None) => Err(invalid("neither spec.stream nor spec.forward is set")),
    }
}

fn port(field: &str, number: i32) -> Result<ForwardPort, Problem> {
    ForwardPort::new(u32::try_from(number).unwrap_or(0)).map_err(|error| {
        let message = format!("{field}: {error}");
        match error {
            InvalidPort::Reserved(_) => Problem::new(Reason::PortReserved, message),
            InvalidPort::Range => invalid(&message),
        }
    })
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

//! From desired state to the messages of the control channel. Only this file and its siblings see protobuf.

use sealane_sidecar_api::control::{Configuration, Forward, Policy, Remote, Replica, Session};
use sealane_sidecar_api::delta;
use sealane_types::Reason;

use crate::desired::{self, Desired, Kind};

/// The message that tells a sidecar its desired state.
#[must_use]
pub fn configuration(desired: &Desired, generation: u64) -> Configuration {
    let features = vec![delta::FEATURE.to_owned()];
    match desired {
        Desired::NoPeer => Configuration {
            generation,
            reason: Reason::PeerUnknown.as_str().to_owned(),
            features,
            ..Configuration::default()
        },
        Desired::Member(desired::Membership { peer, provider, reattest_seconds, policy, sessions }) => {
            Configuration {
                generation,
                peer: peer.to_string(),
                reason: String::new(),
                provider: provider.as_str().to_owned(),
                reattest_seconds: *reattest_seconds,
                policy: policy.as_ref().map(|(name, wire)| Policy {
                    name: name.to_string(),
                    chain: wire.chain.clone(),
                    roots: wire.roots.clone(),
                }),
                sessions: sessions.iter().map(session).collect(),
                features,
            }
        }
    }
}

fn session(session: &desired::Session) -> Session {
    let desired::Session { name, uid, sending, terms, preferred, suspend, remotes } = session;
    let desired::Terms { kind, carrier, congestion, cipher, rekey_bytes, rekey_messages, rekey_seconds } =
        terms;
    let (delivery, fanout, forward) = match kind {
        Kind::Stream { delivery, fanout } => (delivery.as_str().to_owned(), *fanout, None),
        Kind::Forward(forwarded) => (String::new(), 0, Some(forward(*forwarded))),
    };
    let remote = |(peer, replicas): &(sealane_types::PeerName, std::sync::Arc<[desired::Replica]>)| Remote {
        peer: peer.to_string(),
        replicas: replicas.iter().map(replica).collect(),
    };
    Session {
        name: name.to_string(),
        uid: uid.clone(),
        sending: *sending,
        delivery,
        fanout,
        carrier: carrier.as_str().to_owned(),
        congestion: congestion.as_str().to_owned(),
        cipher: cipher.as_str().to_owned(),
        rekey_bytes: *rekey_bytes,
        rekey_messages: *rekey_messages,
        rekey_seconds: *rekey_seconds,
        suspend: *suspend,
        remotes: remotes.iter().map(remote).collect(),
        forward,
        preferred_cipher: preferred.cipher.map(|cipher| cipher.to_string()).unwrap_or_default(),
        preferred_carrier: preferred.carrier.map(|carrier| carrier.to_string()).unwrap_or_default(),
    }
}

fn forward(forward: desired::Forward) -> Forward {
    let desired::Forward { listen, target, per_replica } = forward;
    Forward { listen: listen.number().into(), target: target.number().into(), per_replica }
}

fn replica(replica: &desired::Replica) -> Replica {
    let desired::Replica { pod, uid, addresses, port, incarnation, ordinal } = replica;
    Replica {
        pod: pod.clone(),
        uid: uid.clone(),
        addresses: addresses.iter().map(ToString::to_string).collect(),
        port: u32::from(*port),
        incarnation: incarnation.map(Vec::from).unwrap_or_default(),
        ordinal: *ordinal,
    }
}

//! From the operator's messages to typed, bounded values.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use sealane_sidecar_api::control as wire;
use sealane_types::{
    CongestionChoice, ForwardPort, InvalidName, InvalidPort, PeerName, PolicyName, Provider, Reason,
    SessionName,
};

use crate::desired::{
    ADDRESSES_MAX, Desired, Direction, FANOUT_MAX, Forward, Kind, Listing, PolicyProposal, Preferred,
    REATTEST_SECONDS, REMOTES_MAX, REPLICAS_MAX, Rekey, Remote, Replica, SESSIONS_MAX, Session,
};

/// The word that lets the sidecar choose.
const AUTO: &str = "Auto";

/// The operator sent something that no operator should. The configuration before it stays in effect.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    #[error("{field} is not a valid name")]
    Name {
        field: &'static str,
        #[source]
        source: InvalidName,
    },
    #[error("{field} holds the unknown word `{word}`; is the operator newer than this sidecar?")]
    Word { field: &'static str, word: String },
    #[error("{field} is not valid JSON of the expected form")]
    Json {
        field: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("{field} is out of range")]
    Range { field: &'static str },
    #[error("{field}: {problem}")]
    Port { field: &'static str, problem: InvalidPort },
    #[error("session.remotes of a forward name one Peer, and these {found}")]
    Remotes { found: usize },
    #[error("sessions has `{name}` twice in one direction")]
    Twice { name: SessionName },
    #[error("{field} has more than {max} entries")]
    TooMany { field: &'static str, max: usize },
}

/// Converts a whole configuration or refuses it: half of one would be another than the operator meant.
///
/// # Errors
/// [`ConvertError`] names the field.
pub fn desired(configuration: wire::Configuration) -> Result<Desired, ConvertError> {
    let wire::Configuration {
        generation,
        peer,
        reason,
        provider,
        policy,
        sessions,
        reattest_seconds,
        // An operator that sends changes understands what answers them; nothing else has to be known of it.
        features: _,
    } = configuration;
    at_most(sessions.len(), SESSIONS_MAX, "sessions")?;
    let peer = match peer.as_str() {
        "" => None,
        _ => Some(PeerName::new(peer).map_err(|source| ConvertError::Name { field: "peer", source })?),
    };
    let sessions = sessions.into_iter().map(session).collect::<Result<Vec<_>, _>>()?;
    once_each(&sessions)?;
    Ok(Desired {
        generation,
        peer,
        // A reason that a newer operator added is still a reason.
        reason: (!reason.is_empty()).then(|| reason.parse().unwrap_or(Reason::Unspecified)),
        provider: if provider.is_empty() { Provider::Auto } else { word("provider", &provider)? },
        reattest_seconds: match reattest_seconds {
            0 => REATTEST_SECONDS,
            seconds => seconds,
        },
        policy: policy.map(proposal).transpose()?,
        sessions,
    })
}

/// Two of one name and direction would take turns at being the session.
fn once_each(sessions: &[Session]) -> Result<(), ConvertError> {
    let mut keys = BTreeSet::new();
    match sessions.iter().find(|session| !keys.insert(session.key())) {
        Some(Session { name, .. }) => Err(ConvertError::Twice { name: name.clone() }),
        None => Ok(()),
    }
}

fn proposal(policy: wire::Policy) -> Result<PolicyProposal, ConvertError> {
    let wire::Policy { name, chain, roots } = policy;
    let name = PolicyName::new(name).map_err(|source| ConvertError::Name { field: "policy.name", source })?;
    let chain = serde_json::from_str(&chain)
        .map_err(|source| ConvertError::Json { field: "policy.chain", source })?;
    let roots = match roots.as_str() {
        "" => None,
        text => Some(
            serde_json::from_str(text)
                .map_err(|source| ConvertError::Json { field: "policy.roots", source })?,
        ),
    };
    Ok(PolicyProposal { name, chain, roots })
}

fn session(session: wire::Session) -> Result<Session, ConvertError> {
    let wire::Session {
        name,
        uid,
        sending,
        delivery,
        fanout,
        carrier,
        cipher,
        rekey_bytes,
        rekey_messages,
        rekey_seconds,
        suspend,
        remotes,
        forward,
        preferred_cipher,
        preferred_carrier,
        congestion,
    } = session;
    at_most(remotes.len(), REMOTES_MAX, "session.remotes")?;
    let kind = match forward {
        Some(_) if remotes.len() != 1 => return Err(ConvertError::Remotes { found: remotes.len() }),
        Some(forward) => self::forward(&forward).map(Kind::Forward)?,
        None if fanout == 0 || fanout > FANOUT_MAX => {
            return Err(ConvertError::Range { field: "session.fanout" });
        }
        None => Kind::Stream { delivery: word("session.delivery", &delivery)?, fanout },
    };
    Ok(Session {
        name: SessionName::new(name)
            .map_err(|source| ConvertError::Name { field: "session.name", source })?,
        uid,
        direction: if sending { Direction::Sending } else { Direction::Receiving },
        kind,
        carrier: choice("session.carrier", &carrier)?,
        // An older operator says nothing.
        congestion: match congestion.as_str() {
            "" => CongestionChoice::default(),
            named => word("session.congestion", named)?,
        },
        cipher: choice("session.cipher", &cipher)?,
        // Advice: a word that a newer operator knows is no reason to refuse the rest.
        preferred: Preferred {
            carrier: preferred_carrier.parse().ok(),
            cipher: preferred_cipher.parse().ok(),
        },
        rekey: Rekey { bytes: rekey_bytes, messages: rekey_messages, seconds: rekey_seconds },
        suspend,
        remotes: remotes.into_iter().map(remote).collect::<Result<_, _>>()?,
    })
}

fn forward(forward: &wire::Forward) -> Result<Forward, ConvertError> {
    let wire::Forward { listen, target, per_replica } = *forward;
    let port =
        |field, number| ForwardPort::new(number).map_err(|problem| ConvertError::Port { field, problem });
    Ok(Forward {
        listen: port("session.forward.listen", listen)?,
        target: port("session.forward.target", target)?,
        per_replica,
    })
}

fn remote(remote: wire::Remote) -> Result<Remote, ConvertError> {
    let wire::Remote { peer, replicas } = remote;
    at_most(replicas.len(), REPLICAS_MAX, "session.remote.replicas")?;
    Ok(Remote {
        peer: PeerName::new(peer)
            .map_err(|source| ConvertError::Name { field: "session.remote.peer", source })?,
        replicas: replicas.into_iter().map(replica).collect::<Result<_, _>>()?,
        listing: Listing::Whole,
    })
}

fn replica(replica: wire::Replica) -> Result<Replica, ConvertError> {
    let wire::Replica { pod, uid, addresses, port, incarnation, ordinal } = replica;
    at_most(addresses.len(), ADDRESSES_MAX, "replica.addresses")?;
    let port = u16::try_from(port).map_err(|_| ConvertError::Range { field: "replica.port" })?;
    let address = |text: String| {
        let ip: IpAddr = text.parse().map_err(|_| ConvertError::Range { field: "replica.addresses" })?;
        Ok(SocketAddr::new(ip, port))
    };
    Ok(Replica {
        id: if uid.is_empty() { pod } else { format!("{pod}/{uid}") },
        addresses: addresses.into_iter().map(address).collect::<Result<_, _>>()?,
        incarnation: incarnation.try_into().ok(),
        ordinal,
    })
}

fn word<T: FromStr>(field: &'static str, word: &str) -> Result<T, ConvertError> {
    word.parse().map_err(|_| ConvertError::Word { field, word: word.chars().take(64).collect() })
}

/// None for `Auto`, and for what an older operator leaves empty.
fn choice<T: FromStr>(field: &'static str, text: &str) -> Result<Option<T>, ConvertError> {
    if text.is_empty() || text == AUTO { Ok(None) } else { word(field, text).map(Some) }
}

fn at_most(found: usize, max: usize, field: &'static str) -> Result<(), ConvertError> {
    if found > max { Err(ConvertError::TooMany { field, max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use sealane_types::{Carrier, Cipher, Delivery};

    use super::*;

    fn configuration() -> wire::Configuration {
        let replica = wire::Replica {
            pod: "ranker-0".to_owned(),
            uid: "77".to_owned(),
            addresses: vec!["10.0.0.9".to_owned(), "fd00::9".to_owned()],
            port: 14710,
            incarnation: vec![5; 16],
            ordinal: None,
        };
        let session = wire::Session {
            name: "activations".to_owned(),
            uid: "u".to_owned(),
            sending: true,
            delivery: "RoundRobin".to_owned(),
            fanout: 16,
            carrier: "Auto".to_owned(),
            cipher: "Aes256Gcm".to_owned(),
            remotes: vec![wire::Remote { peer: "ranker".to_owned(), replicas: vec![replica] }],
            ..wire::Session::default()
        };
        wire::Configuration {
            generation: 3,
            peer: "embedder".to_owned(),
            provider: "Simulated".to_owned(),
            sessions: vec![session],
            ..wire::Configuration::default()
        }
    }

    #[test]
    fn a_configuration_of_the_operator_converts() {
        let desired = desired(configuration()).unwrap();
        assert_eq!(desired.provider, Provider::Simulated);
        let session = &desired.sessions[0];
        let stream = Kind::Stream { delivery: Delivery::RoundRobin, fanout: 16 };
        assert_eq!((session.kind, session.carrier), (stream, None));
        assert_eq!(session.cipher, Some(Cipher::Aes256Gcm));
        let replica = &session.remotes[0].replicas[0];
        assert_eq!(replica.id, "ranker-0/77");
        assert_eq!(replica.addresses[1].to_string(), "[fd00::9]:14710");
        assert_eq!(replica.incarnation, Some([5; 16]));
    }

    #[test]
    fn a_preference_is_advice_and_an_unknown_one_is_none() {
        let mut told = configuration();
        for (word, preferred) in
            [("", None), ("Aes128Gcm", Some(Cipher::Aes128Gcm)), ("Auto", None), ("Aegis256", None)]
        {
            word.clone_into(&mut told.sessions[0].preferred_cipher);
            let session = desired(told.clone()).unwrap().sessions.remove(0);
            assert_eq!(
                (session.preferred.cipher, session.cipher),
                (preferred, Some(Cipher::Aes256Gcm)),
                "{word}"
            );
            assert_eq!(session.preferred.carrier, None);
        }
        for (word, preferred) in [
            ("", None),
            ("Tcp", Some(Carrier::Tcp)),
            ("Udp", Some(Carrier::Udp)),
            ("Auto", None),
            ("Rdma", None),
        ] {
            word.clone_into(&mut told.sessions[0].preferred_carrier);
            let session = desired(told.clone()).unwrap().sessions.remove(0);
            assert_eq!((session.preferred.carrier, session.carrier), (preferred, None), "{word}");
        }
    }

    #[test]
    fn who_says_nothing_of_congestion_control_means_cubic() {
        let mut told = configuration();
        let congestion = |told: &wire::Configuration| desired(told.clone()).unwrap().sessions[0].congestion;
        assert_eq!(congestion(&told), CongestionChoice::Cubic);
        for choice in CongestionChoice::ALL {
            choice.as_str().clone_into(&mut told.sessions[0].congestion);
            assert_eq!(congestion(&told), *choice);
        }
    }

    #[test]
    fn what_no_operator_should_send_is_refused_whole() {
        type Spoil = fn(&mut wire::Configuration);
        let spoils: [Spoil; 9] = [
            |it| it.sessions[0].congestion = "Reno".to_owned(),
            |it| it.peer = "Not A Name".to_owned(),
            |it| it.provider = "Magic".to_owned(),
            |it| it.sessions[0].fanout = 0,
            |it| it.sessions[0].fanout = FANOUT_MAX + 1,
            |it| it.sessions[0].delivery = "Sometimes".to_owned(),
            |it| it.sessions[0].remotes[0].replicas[0].addresses[0] = "example.org".to_owned(),
            |it| it.sessions[0].remotes[0].replicas[0].port = 70_000,
            |it| it.sessions = vec![it.sessions[0].clone(); SESSIONS_MAX + 1],
        ];
        for (index, spoil) in spoils.into_iter().enumerate() {
            let mut configuration = configuration();
            spoil(&mut configuration);
            assert!(desired(configuration).is_err(), "{index}");
        }
    }

    #[test]
    fn lists_are_bounded() {
        type Fill = fn(&mut wire::Configuration, usize);
        let lists: [(&str, usize, Fill); 4] = [
            ("sessions", SESSIONS_MAX, |it, count| {
                let session = it.sessions[0].clone();
                let named = |number| wire::Session { name: format!("s{number}"), ..session.clone() };
                it.sessions = (0..count).map(named).collect();
            }),
            ("session.remotes", REMOTES_MAX, |it, count| {
                let remotes = &mut it.sessions[0].remotes;
                *remotes = vec![remotes[0].clone(); count];
            }),
            ("session.remote.replicas", REPLICAS_MAX, |it, count| {
                let replicas = &mut it.sessions[0].remotes[0].replicas;
                *replicas = vec![replicas[0].clone(); count];
            }),
            ("replica.addresses", ADDRESSES_MAX, |it, count| {
                let addresses = &mut it.sessions[0].remotes[0].replicas[0].addresses;
                *addresses = vec![addresses[0].clone(); count];
            }),
        ];
        for (name, bound, fill) in lists {
            let mut full = configuration();
            fill(&mut full, bound);
            assert!(desired(full.clone()).is_ok(), "{name}");
            fill(&mut full, bound + 1);
            let refused = desired(full);
            assert!(
                matches!(refused, Err(ConvertError::TooMany { field, max }) if field == name && max == bound),
                "{name}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_session_is_there_once_in_each_direction() {
        let mut configuration = configuration();
        let both = wire::Session { sending: false, ..configuration.sessions[0].clone() };
        configuration.sessions.push(both.clone());
        assert!(desired(configuration.clone()).is_ok());
        configuration.sessions.push(wire::Session { uid: "another".to_owned(), ..both });
        assert!(
            matches!(desired(configuration), Err(ConvertError::Twice { name }) if name.as_str() == "activations")
        );
    }

    #[test]
    fn a_forward_converts_and_needs_no_delivery() {
        let mut configuration = configuration();
        let session = &mut configuration.sessions[0];
        session.forward = Some(wire::Forward { listen: 18_001, target: 8_001, per_replica: true });
        (session.delivery, session.fanout) = (String::new(), 0);
        session.remotes[0].replicas[0].ordinal = Some(3);
        let desired = desired(configuration).unwrap();
        let Kind::Forward(forward) = desired.sessions[0].kind else { panic!("{desired:?}") };
        assert_eq!((forward.listen.number(), forward.target.number()), (18_001, 8_001));
        assert!(forward.per_replica);
        assert_eq!(desired.sessions[0].remotes[0].replicas[0].ordinal, Some(3));
    }

    #[test]
    fn forwards_to_reserved_ports_or_two_peers_are_refused() {
        type Spoil = fn(&mut wire::Forward);
        let spoils: [Spoil; 4] =
            [|it| it.listen = 0, |it| it.listen = 14_710, |it| it.target = 8_006, |it| it.target = 70_000];
        let forwarding = || {
            let mut configuration = configuration();
            configuration.sessions[0].forward =
                Some(wire::Forward { listen: 18_001, target: 8_001, per_replica: false });
            configuration
        };
        for (index, spoil) in spoils.into_iter().enumerate() {
            let mut configuration = forwarding();
            spoil(configuration.sessions[0].forward.as_mut().unwrap());
            assert!(matches!(desired(configuration), Err(ConvertError::Port { .. })), "{index}");
        }
        let mut configuration = forwarding();
        let remote = configuration.sessions[0].remotes[0].clone();
        configuration.sessions[0].remotes.push(remote);
        assert!(matches!(desired(configuration), Err(ConvertError::Remotes { found: 2 })));
    }
}

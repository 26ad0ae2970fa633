//! From a JSON tree to a [`Document`]. Every field is taken by name; what is left over is refused.

mod entry;

use std::collections::{BTreeMap, BTreeSet};

use sealane_types::{Carrier, Cipher, CongestionControl, CrlIssuer, PeerName, PublicKey, RootSource};

use crate::document::{
    Auditors, Authorities, CollateralRules, Document, Floors, Limits, PolicyPeer, SessionKind, SessionRule,
};
use crate::field::{Field, FieldError, Object, Problem, words};
use crate::json::Tree;
use crate::limits::{
    AUDITOR_KEYS_MAX, AUTHORITY_KEYS_MAX, COLLATERAL_AGE_SECONDS_MAX, COLLATERAL_AGE_SECONDS_MIN,
    COLLATERAL_GRACE_SECONDS_MAX, ENTRIES_MAX, FORWARD_TARGETS_MAX, INTEGER_MAX, PEERS_MAX,
    REATTEST_SECONDS_MAX, REATTEST_SECONDS_MIN, RECEIVERS_MAX, SENDERS_MIN_MAX, SESSION_SECONDS_MAX,
    SESSION_SECONDS_MIN, SESSIONS_MAX,
};
use crate::weak;

/// Of the document format.
pub(crate) const VERSION: u64 = 1;

const NAME: &str = "lower-case letters, digits, `-` and `.`";
const TIME: &str = "a time in UTC with whole seconds";
pub(crate) const DIGEST: &str = "64 lower-case hex digits (SHA-256)";
const KEY: &str = "64 lower-case hex digits (a 32-byte public key)";

const PEERS_EXAMPLE: &str = r#""peers": {"embedder": {"entries": [{"kind": "SevSnp", …}]}}"#;
const COLLATERAL_EXAMPLE: &str = r#""collateral": {"graceSeconds": 86400}"#;
const FORWARD_EXAMPLE: &str = r#""forward": {"targets": [8001]}"#;
const SENDERS_EXAMPLE: &str = r#""senders": {"min": 4}"#;
const SESSIONS_EXAMPLE: &str = r#""sessions": [{"from": "embedder", "to": "ranker", "stream": {}}]"#;

pub(crate) fn document(tree: &Tree) -> Result<Document, FieldError> {
    let root = Field::root(tree, r#"{"version": 1, "namespace": "demo", "name": "demo", …}"#);
    let mut object = root.object()?;
    let version = object.required("version", r#""version": 1"#)?.integer(VERSION, VERSION)?;
    let namespace = object.required("namespace", r#""namespace": "demo""#)?.parse(NAME)?;
    let name = object.required("name", r#""name": "demo""#)?.parse(NAME)?;
    let epoch = object.required("epoch", r#""epoch": 1"#)?.integer(1, INTEGER_MAX)?;
    let not_before = object.required("notBefore", r#""notBefore": "2026-11-20T00:00:00Z""#)?.parse(TIME)?;
    let expires_field = object.required("expires", r#""expires": "2026-11-27T00:00:00Z""#)?;
    let expires = expires_field.parse(TIME)?;
    if expires <= not_before {
        return Err(expires_field.refuse(Problem::NotAfter { other: "notBefore" }));
    }
    let previous = object.optional("previous", r#""previous": "<SHA-256 of the document before>""#);
    let previous = previous.map(|field| field.parse(DIGEST)).transpose()?;
    let authorities =
        object.required("authorities", r#""authorities": {"keys": ["<hex>"], "threshold": 1}"#)?;
    let authorities = self::authorities(authorities)?;
    let peers = peers(&object.required("peers", PEERS_EXAMPLE)?)?;
    let sessions = object.optional("sessions", SESSIONS_EXAMPLE);
    let sessions = sessions.map(sessions_of).transpose()?.unwrap_or_default();
    let floors = object.optional("floors", r#""floors": {"postQuantum": true}"#);
    let floors = floors.map(floors_of).transpose()?.unwrap_or_default();
    let limits = object.optional("limits", r#""limits": {"sessionSeconds": 86400}"#);
    let limits = limits.map(limits_of).transpose()?.unwrap_or_default();
    let collateral = object.optional("collateral", COLLATERAL_EXAMPLE);
    let collateral = collateral.map(collateral_of).transpose()?.unwrap_or_default();
    let auditors = object.optional("auditors", r#""auditors": {"publicKeys": ["<hex>"]}"#);
    let auditors = auditors.map(auditors_of).transpose()?;
    for word in ["heartbeat", "renewal", "transparency", "emergency"] {
        later(&mut object, word)?;
    }
    object.close()?;
    Ok(Document {
        version,
        namespace,
        name,
        epoch,
        not_before,
        expires,
        previous,
        authorities,
        peers,
        sessions,
        floors,
        limits,
        collateral,
        auditors,
    })
}

/// Refuses a field that the contract names and this release does not act on: accepting it would let owners
/// believe that it is enforced.
fn later(object: &mut Object<'_>, word: &'static str) -> Result<(), FieldError> {
    match object.optional(word, "leave it out") {
        Some(field) => Err(field.refuse(Problem::NotInThisRelease { word })),
        None => Ok(()),
    }
}

fn authorities(field: Field<'_>) -> Result<Authorities, FieldError> {
    let mut object = field.object()?;
    let threshold_field = object.required("threshold", r#""threshold": 2"#)?;
    let threshold = threshold_field.integer(1, AUTHORITY_KEYS_MAX as u64)?;
    let keys = object.required("keys", r#""keys": ["<64 hex digits of an Ed25519 public key>"]"#)?;
    let keys = keys.set(AUTHORITY_KEYS_MAX, |key| public_key(key, weak::signs_for_anybody))?;
    if threshold > keys.len() as u64 {
        return Err(threshold_field.refuse(Problem::Unreachable { threshold, keys: keys.len() }));
    }
    object.close()?;
    Ok(Authorities { threshold: u32::try_from(threshold).unwrap_or(u32::MAX), keys })
}

fn peers(field: &Field<'_>) -> Result<BTreeMap<PeerName, PolicyPeer>, FieldError> {
    field
        .members(PEERS_MAX)?
        .into_iter()
        .map(|(name, peer)| {
            let name = PeerName::new(name).map_err(|_| field.malformed(NAME, name))?;
            Ok((name, self::peer(peer)?))
        })
        .collect()
}

fn peer(field: Field<'_>) -> Result<PolicyPeer, FieldError> {
    let mut object = field.object()?;
    let entries = object.required("entries", r#""entries": [{"kind": "SevSnp", …}]"#)?.list(ENTRIES_MAX)?;
    let entries = entries.into_iter().map(entry::entry).collect::<Result<_, _>>()?;
    let shared_evidence = flag(&mut object, "sharedEvidence", r#""sharedEvidence": true"#, false)?;
    object.close()?;
    Ok(PolicyPeer { entries, shared_evidence })
}

pub(crate) fn flag(
    object: &mut Object<'_>,
    name: &'static str,
    example: &'static str,
    default: bool,
) -> Result<bool, FieldError> {
    object.optional(name, example).map_or(Ok(default), |field| field.flag())
}

fn senders(field: Field<'_>) -> Result<u32, FieldError> {
    let mut object = field.object()?;
    let min = object.required("min", r#""min": 4"#)?.integer(1, SENDERS_MIN_MAX)?;
    object.close()?;
    Ok(u32::try_from(min).unwrap_or(u32::MAX))
}

fn sessions_of(field: Field<'_>) -> Result<Vec<SessionRule>, FieldError> {
    field.list(SESSIONS_MAX)?.into_iter().map(session).collect()
}

fn session(field: Field<'_>) -> Result<SessionRule, FieldError> {
    let mut object = field.object()?;
    let name = object.optional("name", r#""name": "activations""#);
    let name = name.map(|name| name.parse(NAME)).transpose()?;
    let from = object.required("from", r#""from": "embedder""#)?.parse(NAME)?;
    let to = object.required("to", r#""to": "ranker" or "to": ["ranker", "auditor"]"#)?;
    let to = if to.is_text() {
        [to.parse(NAME)?].into()
    } else {
        let to_many = to.set(RECEIVERS_MAX, |peer| peer.parse(NAME))?;
        if to_many.is_empty() {
            return Err(to.refuse(Problem::Empty));
        }
        to_many
    };
    let stream = object.optional("stream", r#""stream": {}"#);
    let forward = object.optional("forward", FORWARD_EXAMPLE);
    later(&mut object, "object")?;
    later(&mut object, "shaping")?;
    let kind = match (stream, forward) {
        (Some(stream), None) => {
            stream.object()?.close()?;
            let senders = object.optional("senders", SENDERS_EXAMPLE).map(senders).transpose()?;
            SessionKind::Stream { senders_min: senders.unwrap_or(0) }
        }
        (None, Some(forward)) => self::forward(forward)?,
        _ => return Err(object.field().refuse(Problem::NotExactlyOne { choices: "stream, forward" })),
    };
    object.close()?;
    Ok(SessionRule { name, from, to, kind })
}

fn forward(field: Field<'_>) -> Result<SessionKind, FieldError> {
    let mut object = field.object()?;
    let targets = object.required("targets", FORWARD_EXAMPLE)?.set(FORWARD_TARGETS_MAX, Field::port)?;
    object.close()?;
    Ok(SessionKind::Forward { targets })
}

fn floors_of(field: Field<'_>) -> Result<Floors, FieldError> {
    let default = Floors::default();
    let mut object = field.object()?;
    let post_quantum = flag(&mut object, "postQuantum", r#""postQuantum": true"#, default.post_quantum)?;
    let ciphers = object.optional("ciphers", r#""ciphers": ["Aes256Gcm", "ChaCha20Poly1305"]"#);
    let cipher = |field: &Field<'_>| field.word(Cipher::ALL);
    let ciphers = permitted(ciphers, Cipher::ALL.len(), cipher, default.ciphers)?;
    let carriers = object.optional("carriers", r#""carriers": ["Tcp"]"#);
    let carrier = |field: &Field<'_>| field.word(Carrier::ALL);
    let carriers = permitted(carriers, Carrier::ALL.len(), carrier, default.carriers)?;
    let complete = flag(&mut object, "complete", r#""complete": false"#, default.complete)?;
    let congestion = object.optional("congestion", r#""congestion": ["Cubic"]"#);
    let control = |field: &Field<'_>| field.word(CongestionControl::ALL);
    let congestion = permitted(congestion, CongestionControl::ALL.len(), control, default.congestion)?;
    let root_source = object.optional("rootSource", r#""rootSource": "File""#);
    let root_source = root_source.map(|field| field.word(RootSource::ALL)).transpose()?;
    object.close()?;
    Ok(Floors {
        post_quantum,
        ciphers,
        carriers,
        congestion,
        complete,
        root_source: root_source.unwrap_or(default.root_source),
    })
}

/// What a list permits; `default` where it is absent or empty.
fn permitted<T: Ord>(
    list: Option<Field<'_>>,
    most: usize,
    read: impl Fn(&Field<'_>) -> Result<T, FieldError>,
    default: BTreeSet<T>,
) -> Result<BTreeSet<T>, FieldError> {
    let listed = list.map(|field| field.set(most, read)).transpose()?;
    Ok(listed.filter(|listed| !listed.is_empty()).unwrap_or(default))
}

fn limits_of(field: Field<'_>) -> Result<Limits, FieldError> {
    let default = Limits::default();
    let mut object = field.object()?;
    let session = object.optional("sessionSeconds", r#""sessionSeconds": 86400"#);
    let session = session.map(|field| field.integer(SESSION_SECONDS_MIN, SESSION_SECONDS_MAX)).transpose()?;
    let reattest = object.optional("reattestSeconds", r#""reattestSeconds": 600"#);
    let reattest =
        reattest.map(|field| field.integer(REATTEST_SECONDS_MIN, REATTEST_SECONDS_MAX)).transpose()?;
    object.close()?;
    Ok(Limits {
        session_seconds: session.unwrap_or(default.session_seconds),
        reattest_seconds: reattest.unwrap_or(default.reattest_seconds),
    })
}

fn collateral_of(field: Field<'_>) -> Result<CollateralRules, FieldError> {
    let mut object = field.object()?;
    let grace = object.optional("graceSeconds", COLLATERAL_EXAMPLE);
    let grace = grace.map(|field| field.integer(0, COLLATERAL_GRACE_SECONDS_MAX)).transpose()?;
    let age = object.optional("maxAgeSeconds", r#""maxAgeSeconds": 34560000"#);
    let age =
        age.map(|field| field.integer(COLLATERAL_AGE_SECONDS_MIN, COLLATERAL_AGE_SECONDS_MAX)).transpose()?;
    let numbers = object.optional("minCrlNumber", r#""minCrlNumber": {"Genoa": 5}"#);
    let number = |field: Field<'_>| field.integer(1, INTEGER_MAX);
    let numbers = numbers.map(|field| by_issuer(&field, number)).transpose()?;
    let issued =
        object.optional("minCrlIssued", r#""minCrlIssued": {"IntelPlatform": "2026-11-01T00:00:00Z"}"#);
    let issued = issued.map(|field| by_issuer(&field, |field| field.parse(TIME))).transpose()?;
    let evaluation = object.optional("minTcbEvaluation", r#""minTcbEvaluation": 20"#);
    let evaluation = evaluation.map(|field| field.integer(0, u64::from(u32::MAX))).transpose()?;
    if grace.is_none() && age.is_none() && numbers.is_none() && issued.is_none() && evaluation.is_none() {
        return Err(object.field().refuse(Problem::Empty));
    }
    object.close()?;
    Ok(CollateralRules {
        grace_seconds: grace.unwrap_or(0),
        max_age_seconds: age,
        min_crl_number: numbers.unwrap_or_default(),
        min_crl_issued: issued.unwrap_or_default(),
        min_tcb_evaluation: evaluation.map(|number| u32::try_from(number).unwrap_or(u32::MAX)),
    })
}

fn by_issuer<T>(
    field: &Field<'_>,
    read: impl Fn(Field<'_>) -> Result<T, FieldError>,
) -> Result<BTreeMap<CrlIssuer, T>, FieldError> {
    let members = field.members(CrlIssuer::ALL.len())?;
    if members.is_empty() {
        return Err(field.refuse(Problem::Empty));
    }
    let member = |(name, value): (&str, Field<'_>)| {
        let issuer =
            name.parse().map_err(|_| field.malformed(&format!("one of {}", words(CrlIssuer::ALL)), name))?;
        Ok((issuer, read(value)?))
    };
    members.into_iter().map(member).collect()
}

fn auditors_of(field: Field<'_>) -> Result<Auditors, FieldError> {
    let mut object = field.object()?;
    let keys = object.required("publicKeys", r#""publicKeys": ["<64 hex digits>"]"#)?;
    let public_keys = keys.set(AUDITOR_KEYS_MAX, |key| public_key(key, weak::agrees_with_anybody))?;
    object.close()?;
    Ok(Auditors { public_keys })
}

/// A key that binds its owner. Unlike a rule of lint this holds for rotations too: one that lists a weak key would hand the
/// rest of the chain to anybody.
fn public_key(field: &Field<'_>, weak: impl Fn(&PublicKey) -> bool) -> Result<PublicKey, FieldError> {
    let key = field.parse(KEY)?;
    if weak(&key) { Err(field.refuse(Problem::WeakKey)) } else { Ok(key) }
}

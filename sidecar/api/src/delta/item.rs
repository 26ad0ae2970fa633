//! Between a configuration and the sequence of its items.

use prost::Message as _;
use prost::bytes::Bytes;

use super::error::DeltaError;
use super::limits::SESSIONS_MAX;
use super::sequence::Sequence;
use crate::bounded::check;
use crate::control::item::Item as Kind;
use crate::control::{Configuration, Item, Remote, Session};

/// The items of a configuration, whose generation belongs to a stream and is left out. `share` may return bytes that
/// equal those it is given: replicas stand in many sessions.
///
/// # Errors
/// [`DeltaError::Items`] and [`DeltaError::Bytes`] of one that has to go whole.
pub fn split(
    mut configuration: Configuration,
    mut share: impl FnMut(Vec<u8>) -> Bytes,
) -> Result<Sequence, DeltaError> {
    let (policy, sessions) = (configuration.policy.take(), std::mem::take(&mut configuration.sessions));
    configuration.generation = 0;
    let head = std::iter::once(Kind::Header(configuration)).chain(policy.map(Kind::Policy));
    let items = head.chain(sessions.into_iter().flat_map(of_session));
    Sequence::new(items.map(|item| Ok(share(Item { item: Some(item) }.encode_to_vec()))))
}

fn of_session(mut session: Session) -> impl Iterator<Item = Kind> {
    let remotes = std::mem::take(&mut session.remotes);
    std::iter::once(Kind::Session(session)).chain(remotes.into_iter().flat_map(|mut remote| {
        let replicas = std::mem::take(&mut remote.replicas);
        std::iter::once(Kind::Remote(remote)).chain(replicas.into_iter().map(Kind::Replica))
    }))
}

/// The configuration of a sequence, without a generation. Items of a kind that a newer operator knows are left out, as
/// fields are.
///
/// # Errors
/// [`DeltaError::Encoding`], and [`DeltaError::Order`] of an item that is not where its kind belongs.
pub fn assemble(sequence: &Sequence) -> Result<Configuration, DeltaError> {
    let misplaced = |item| DeltaError::Order { item };
    let mut whole: Option<Configuration> = None;
    for item in sequence.items() {
        check::<Item>(item)?;
        let Some(item) = Item::decode(item.as_ref())?.item else { continue };
        match (item, &mut whole) {
            (Kind::Header(header), None) if is_bare(&header) => whole = Some(header),
            (Kind::Header(_), _) => return Err(misplaced("header")),
            (Kind::Policy(policy), Some(whole)) if whole.policy.is_none() && whole.sessions.is_empty() => {
                whole.policy = Some(policy);
            }
            (Kind::Policy(_), _) => return Err(misplaced("policy")),
            (Kind::Session(session), Some(whole)) if session.remotes.is_empty() => {
                if whole.sessions.len() == SESSIONS_MAX {
                    return Err(DeltaError::Sessions);
                }
                whole.sessions.push(session);
            }
            (Kind::Session(_), _) => return Err(misplaced("session")),
            (Kind::Remote(remote), Some(whole)) if remote.replicas.is_empty() => {
                whole.sessions.last_mut().ok_or(misplaced("remote"))?.remotes.push(remote);
            }
            (Kind::Remote(_), _) => return Err(misplaced("remote")),
            (Kind::Replica(replica), Some(whole)) => {
                last_remote(whole).ok_or(misplaced("replica"))?.replicas.push(replica);
            }
            (Kind::Replica(_), None) => return Err(misplaced("replica")),
        }
    }
    whole.ok_or(misplaced("sequence without a header"))
}

fn is_bare(header: &Configuration) -> bool {
    header.generation == 0 && header.policy.is_none() && header.sessions.is_empty()
}

fn last_remote(configuration: &mut Configuration) -> Option<&mut Remote> {
    configuration.sessions.last_mut()?.remotes.last_mut()
}

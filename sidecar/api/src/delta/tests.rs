use proptest::prelude::*;
use prost::Message as _;
use prost::bytes::Bytes;

use super::*;
use crate::bounded::BoundedError;
use crate::control::item::Item as Kind;
use crate::control::{Changes, Configuration, Delta, Item, Policy, Remote, Replica, Session, Step};

fn replica() -> impl Strategy<Value = Replica> {
    // Few values, so that equal replicas stand in several places.
    (0_u32..40, 0_u8..3).prop_map(|(number, incarnation)| Replica {
        pod: format!("ranker-{number}"),
        uid: format!("uid-{number}"),
        addresses: vec![format!("10.0.0.{number}")],
        port: 14710,
        incarnation: vec![incarnation; 16],
        ordinal: Some(number).filter(|number| number % 2 == 0),
    })
}

fn session() -> impl Strategy<Value = Session> {
    let remote = (0..4_u8, prop::collection::vec(replica(), 0..12))
        .prop_map(|(peer, replicas)| Remote { peer: format!("peer-{peer}"), replicas });
    (0..6_u8, any::<bool>(), prop::collection::vec(remote, 0..3)).prop_map(|(name, sending, remotes)| {
        Session { name: format!("session-{name}"), sending, fanout: 16, remotes, ..Session::default() }
    })
}

fn configuration() -> impl Strategy<Value = Configuration> {
    let policy = prop::option::of(0..3_u8).prop_map(|epoch| {
        epoch.map(|epoch| Policy {
            name: "demo".to_owned(),
            chain: "c".repeat(epoch.into()),
            ..Policy::default()
        })
    });
    (0..3_u8, policy, prop::collection::vec(session(), 0..6)).prop_map(|(peer, policy, sessions)| {
        let features = vec![FEATURE.to_owned()];
        Configuration { peer: format!("peer-{peer}"), policy, sessions, features, ..Configuration::default() }
    })
}

fn sequence(configuration: &Configuration) -> Sequence {
    split(configuration.clone(), Bytes::from).unwrap()
}

/// The messages that lead from `base` to `next`.
fn messages(base: Option<&Sequence>, next: &Sequence, generation: u64) -> Vec<Delta> {
    let nothing = Sequence::default();
    let changes = Bytes::from(diff(base.unwrap_or(&nothing), next));
    let base = base.map(|base| base.digest().to_vec()).unwrap_or_default();
    let delta = |Part { changes, offset, more }| Delta {
        generation,
        base: base.clone(),
        digest: next.digest().to_vec(),
        changes,
        offset,
        more,
    };
    parts(&changes).map(delta).collect()
}

fn follow(follower: &mut Follower, messages: Vec<Delta>) -> Result<Option<Configuration>, DeltaError> {
    messages.into_iter().map(|delta| follower.take(delta)).last().unwrap()
}

proptest! {
    #[test]
    fn what_is_split_assembles(configuration in configuration()) {
        prop_assert_eq!(assemble(&sequence(&configuration)), Ok(configuration));
    }

    #[test]
    fn what_was_diffed_applies(base in configuration(), next in configuration()) {
        let (base, next) = (sequence(&base), sequence(&next));
        let changes = diff(&base, &next);
        prop_assert_eq!(apply(&base, &changes), Ok(next.clone()));
        // Each item costs at most itself, and each step a few bytes.
        prop_assert!(changes.len() <= next.bytes() + 24 * next.items().len());
    }

    #[test]
    fn one_change_costs_about_itself(base in configuration(), place in any::<prop::sample::Index>(), new in replica()) {
        let mut next = base.clone();
        let mut remotes: Vec<_> = next.sessions.iter_mut().flat_map(|session| &mut session.remotes).collect();
        prop_assume!(!remotes.is_empty());
        let place = place.index(remotes.len());
        let new = Replica { pod: "new".to_owned(), ..new };
        remotes[place].replicas.insert(0, new.clone());
        let changes = diff(&sequence(&base), &sequence(&next));
        prop_assert!(changes.len() <= new.encoded_len() + 40, "{} bytes", changes.len());
    }

    #[test]
    fn a_follower_has_what_was_told_last(all in prop::collection::vec(configuration(), 1..6)) {
        let (mut follower, mut base) = (Follower::default(), None);
        for (generation, next) in (1..).zip(all) {
            let told = sequence(&next);
            let taken = follow(&mut follower, messages(base.as_ref(), &told, generation));
            prop_assert_eq!(taken, Ok(Some(Configuration { generation, ..next })));
            base = Some(told);
        }
        prop_assert!(!follower.wants_whole());
    }

    #[test]
    fn hostile_changes_never_pass(base in configuration(), next in configuration(), place in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let (base, next) = (sequence(&base), sequence(&next));
        let mut changes = diff(&base, &next);
        prop_assume!(!changes.is_empty());
        let place = place.index(changes.len());
        changes[place] ^= 1_u8 << bit;
        // Whatever comes of it, the digest tells it from what was meant.
        if let Ok(result) = apply(&base, &changes) {
            prop_assert!(result == next || result.digest() != next.digest());
        }
    }
}

/// A configuration that takes several messages.
fn long(epoch: u8) -> Configuration {
    let replica = |number: u32| Replica {
        pod: format!("ranker-{number}"),
        incarnation: vec![epoch; 16],
        port: 14710,
        ..Replica::default()
    };
    let remote = Remote { peer: "ranker".to_owned(), replicas: (0..2000).map(replica).collect() };
    let session = Session { name: "activations".to_owned(), remotes: vec![remote], ..Session::default() };
    Configuration { peer: "embedder".to_owned(), sessions: vec![session], ..Configuration::default() }
}

#[test]
fn a_long_change_comes_in_parts_and_is_taken_with_the_last() {
    let (first, second) = (long(1), long(2));
    let whole = messages(None, &sequence(&first), 1);
    assert!(whole.len() > 3 && whole.iter().all(|delta| delta.changes.len() <= PART_BYTES_MAX));
    let mut follower = Follower::default();
    assert_eq!(follow(&mut follower, whole).unwrap().unwrap().sessions, first.sessions);
    let mut change = messages(Some(&sequence(&first)), &sequence(&second), 2);
    change.remove(1);
    let refused = change.into_iter().map(|delta| follower.take(delta)).find_map(Result::err);
    assert!(matches!(refused, Some(DeltaError::Part { .. })), "{refused:?}");
    assert!(follower.wants_whole());
}

#[test]
fn a_follower_without_the_base_asks_once_and_takes_the_whole() {
    let (first, second, third) = (sequence(&long(1)), sequence(&long(2)), sequence(&long(3)));
    let mut follower = Follower::default();
    follow(&mut follower, messages(None, &first, 1)).unwrap();
    // The operator believes that the second one arrived.
    for delta in messages(Some(&second), &third, 3) {
        assert!(matches!(follower.take(delta), Err(DeltaError::Base)));
        if follower.wants_whole() {
            follower.asked();
        }
    }
    assert!(!follower.wants_whole(), "it has asked");
    assert!(matches!(follow(&mut follower, messages(Some(&first), &second, 2)), Err(DeltaError::Base)));
    assert_eq!(follow(&mut follower, messages(None, &third, 4)).unwrap().unwrap().sessions, long(3).sessions);
    // And follows again.
    assert!(follow(&mut follower, messages(Some(&third), &first, 5)).unwrap().is_some());
}

#[test]
fn a_change_of_another_base_is_refused() {
    let (first, second, third) = (sequence(&long(1)), sequence(&long(2)), sequence(&long(3)));
    let mut follower = Follower::default();
    follow(&mut follower, messages(None, &first, 1)).unwrap();
    let refused = follower.take(messages(Some(&second), &third, 2).remove(0));
    assert_eq!(refused, Err(DeltaError::Base));
}

#[test]
fn a_wrong_whole_is_not_asked_for_again() {
    let mut follower = Follower::default();
    let mut whole = messages(None, &sequence(&Configuration::default()), 1);
    whole[0].digest = vec![0; 32];
    assert_eq!(follow(&mut follower, whole), Err(DeltaError::Digest));
    assert!(!follower.wants_whole());
}

fn applied(steps: Vec<Step>) -> Result<Sequence, DeltaError> {
    apply(&sequence(&long(1)), &Changes { steps }.encode_to_vec())
}

#[test]
fn hostile_deltas_are_refused_with_what_is_wrong() {
    let step = |start, count| Step { start, count, items: Vec::new() };
    assert!(matches!(applied(vec![step(2003, 1)]), Err(DeltaError::Run { held: 2003, .. })));
    assert!(matches!(applied(vec![step(u32::MAX, u32::MAX)]), Err(DeltaError::Run { .. })));
    // A few bytes that copy without end.
    assert_eq!(applied(vec![step(0, 2003); 1000]), Err(DeltaError::Items));
    let large = Sequence::new([Ok(Bytes::from(vec![0; 1 << 20]))]).unwrap();
    let changes = Changes { steps: vec![step(0, 1); 17] }.encode_to_vec();
    assert_eq!(apply(&large, &changes), Err(DeltaError::Bytes));
    assert!(matches!(apply(&large, &[0xff]), Err(DeltaError::Bounds(BoundedError::Malformed(_)))));
    // Two bytes each, and 32 once they are decoded.
    let many = BoundedError::TooMany { name: "steps", max: ITEMS_MAX };
    assert_eq!(applied(vec![step(0, 0); ITEMS_MAX + 1]), Err(DeltaError::Bounds(many)));
}

#[test]
fn items_out_of_place_are_refused() {
    let whole = sequence(&long(1));
    let order = |items: &[usize]| {
        let items = items.iter().map(|place| Ok(whole.items()[*place].clone()));
        assemble(&Sequence::new(items).unwrap())
    };
    let misplaced = |item| Err(DeltaError::Order { item });
    assert!(order(&[0, 1, 2, 3]).is_ok());
    assert_eq!(order(&[1]), misplaced("session"));
    assert_eq!(order(&[0, 0]), misplaced("header"));
    assert_eq!(order(&[0, 2]), misplaced("remote"));
    assert_eq!(order(&[0, 1, 3]), misplaced("replica"));
    assert_eq!(order(&[]), misplaced("sequence without a header"));
    let sessions = |count| order(&[vec![0], vec![1; count]].concat()).map(|whole| whole.sessions.len());
    assert_eq!(sessions(SESSIONS_MAX), Ok(SESSIONS_MAX));
    assert_eq!(sessions(SESSIONS_MAX + 1), Err(DeltaError::Sessions));
    let replica = Replica { addresses: vec![String::new(); 1000], ..Replica::default() };
    let long = Item { item: Some(Kind::Replica(replica)) }.encode_to_vec();
    let long = Sequence::new([Ok(whole.items()[0].clone()), Ok(long.into())]).unwrap();
    assert!(matches!(assemble(&long), Err(DeltaError::Bounds(BoundedError::TooMany { .. }))));
}

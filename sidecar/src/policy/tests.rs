use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_policy::{SigningKey, canonical, sign};
use sealane_types::UnixSeconds;
use serde_json::{Value, json};

use super::*;

fn owner() -> SigningKey {
    SigningKey::from_seed(&[1; 32]).unwrap()
}

fn name(policy: &str) -> PolicyName {
    PolicyName::new(policy).unwrap()
}

fn roots(policy: &str) -> Roots {
    Roots {
        namespace: Namespace::new("demo").unwrap(),
        policy: name(policy),
        threshold: 1,
        keys: vec![owner().public_key()],
        minimum_epoch: 1,
    }
}

fn document(policy: &str, epoch: u64) -> Value {
    json!({
        "version": 1,
        "namespace": "demo",
        "name": policy,
        "epoch": epoch,
        "notBefore": "2027-01-01T00:00:00Z",
        "expires": "2027-01-08T00:00:00Z",
        "authorities": {"threshold": 1, "keys": [owner().public_key().to_string()]},
        "peers": {},
        "sessions": [],
    })
}

fn signed(document: &Value) -> SignedChain {
    let bytes = canonical(document.to_string().as_bytes()).unwrap();
    let signatures = vec![sign(&bytes, &owner())];
    SignedChain { document: STANDARD.encode(&bytes), signatures, rotations: Vec::new() }
}

fn chain(policy: &str, epoch: u64) -> SignedChain {
    signed(&document(policy, epoch))
}

/// A second document of an epoch.
fn fork(policy: &str, epoch: u64) -> SignedChain {
    let mut document = document(policy, epoch);
    document["expires"] = json!("2027-01-07T00:00:00Z");
    signed(&document)
}

/// 2027-01-02, when every document made here is in force.
const WITHIN: UnixSeconds = UnixSeconds(1_798_848_000);

fn keeper(policies: &[&str], read_wall: crate::session::clock::ReadWall) -> PolicyKeeper {
    let roots = policies.iter().map(|policy| roots(policy)).collect();
    let anchors = Anchors { roots, source: RootSource::File };
    PolicyKeeper::new(Arc::new(Clock::reading(read_wall)), Namespace::new("demo").unwrap(), anchors, false)
}

fn propose(keeper: &PolicyKeeper, chain: &SignedChain, policy: &str) -> Result<Adoption, Reason> {
    keeper.propose(&name(policy), chain, None).map_err(|problem| problem.reason())
}

/// Name and epoch of what is in force.
fn in_force(keeper: &PolicyKeeper) -> Result<(String, u64), Reason> {
    let standing = keeper.standing();
    standing.held().map(|held| (held.policy.document().name.to_string(), held.policy.epoch()))
}

fn of(policy: &str, epoch: u64) -> Result<(String, u64), Reason> {
    Ok((policy.to_owned(), epoch))
}

#[test]
fn naming_another_policy_takes_nothing_back() {
    let keeper = keeper(&["demo"], || WITHIN);
    propose(&keeper, &chain("demo", 10), "demo").unwrap();
    assert_eq!(propose(&keeper, &chain("other", 1), "other"), Err(Reason::PolicyRootsMissing));
    assert_eq!(in_force(&keeper), of("demo", 10), "one without roots is not switched to");
    assert_eq!(propose(&keeper, &chain("demo", 5), "demo"), Err(Reason::PolicyRolledBack));
    assert_eq!(in_force(&keeper), of("demo", 10));
}

#[test]
fn the_highest_epoch_of_every_policy_is_remembered() {
    let keeper = keeper(&["demo", "other"], || WITHIN);
    propose(&keeper, &chain("demo", 10), "demo").unwrap();
    assert_eq!(propose(&keeper, &chain("other", 1), "other"), Ok(Adoption::Adopted));
    assert_eq!(in_force(&keeper), of("other", 1));
    assert_eq!(propose(&keeper, &chain("demo", 9), "demo"), Err(Reason::PolicyRolledBack));
    assert_eq!(in_force(&keeper), of("other", 1), "what is refused replaces nothing");
    assert_eq!(propose(&keeper, &chain("demo", 10), "demo"), Ok(Adoption::Adopted));
    assert_eq!(in_force(&keeper), of("demo", 10));
}

#[test]
fn a_fork_outlives_a_switch_to_another_policy() {
    let keeper = keeper(&["demo", "other"], || WITHIN);
    propose(&keeper, &chain("demo", 4), "demo").unwrap();
    assert_eq!(propose(&keeper, &fork("demo", 4), "demo"), Err(Reason::PolicyConflict));
    assert_eq!(in_force(&keeper), Err(Reason::PolicyConflict));
    propose(&keeper, &chain("other", 1), "other").unwrap();
    assert_eq!(in_force(&keeper), of("other", 1));
    for side in [chain("demo", 4), fork("demo", 4)] {
        assert_eq!(propose(&keeper, &side, "demo"), Err(Reason::PolicyConflict));
        assert_eq!(in_force(&keeper), of("other", 1));
    }
    propose(&keeper, &chain("demo", 5), "demo").unwrap();
    assert_eq!(in_force(&keeper), of("demo", 5), "a later epoch settles it");
}

#[test]
fn an_older_chain_does_not_change_what_a_fork_is_called() {
    let keeper = keeper(&["demo"], || WITHIN);
    propose(&keeper, &chain("demo", 4), "demo").unwrap();
    propose(&keeper, &fork("demo", 4), "demo").unwrap_err();
    assert_eq!(propose(&keeper, &chain("demo", 3), "demo"), Err(Reason::PolicyRolledBack));
    assert_eq!(in_force(&keeper), Err(Reason::PolicyConflict));
}

#[test]
fn a_peers_bad_chain_is_not_the_operators_refusal() {
    let keeper = keeper(&["demo"], || WITHIN);
    propose(&keeper, &chain("demo", 4), "demo").unwrap();
    let unsigned = SignedChain { signatures: vec![], ..chain("demo", 5) };
    keeper.receive(&unsigned).unwrap_err();
    assert_eq!(keeper.refusal(), None);
    propose(&keeper, &chain("demo", 3), "demo").unwrap_err();
    assert_eq!(keeper.refusal().unwrap().0, Reason::PolicyRolledBack);
    keeper.receive(&chain("demo", 5)).unwrap();
    assert_eq!(keeper.refusal().unwrap().0, Reason::PolicyRolledBack, "nor does a good one answer for it");
}

/// Both at the next look, a second after the clock was moved on: no session outlives its policy by more than this.
#[tokio::test(start_paused = true)]
async fn a_policy_comes_into_force_and_expires_by_itself() {
    static WALL: AtomicU64 = AtomicU64::new(WITHIN.0 - 10 * 86_400);
    let keeper = Arc::new(keeper(&["demo"], || UnixSeconds(WALL.load(Ordering::Relaxed))));
    assert_eq!(propose(&keeper, &chain("demo", 1), "demo"), Err(Reason::PolicyNotYetValid));
    assert_eq!(in_force(&keeper), Err(Reason::PolicyNotYetValid));
    let watched = Arc::clone(&keeper);
    let watch = tokio::spawn(async move { watched.watch_expiry().await });
    let mut standing = keeper.subscribe();
    for (wall, expected) in [(WITHIN.0, of("demo", 1)), (WITHIN.0 + 10 * 86_400, Err(Reason::PolicyExpired))]
    {
        tokio::time::sleep(Duration::from_secs(1)).await;
        standing.mark_unchanged();
        WALL.store(wall, Ordering::Relaxed);
        tokio::time::timeout(WATCH_INTERVAL, standing.changed()).await.unwrap().unwrap();
        assert_eq!(in_force(&keeper), expected);
    }
    assert_eq!((WATCH_INTERVAL, keeper.refusal()), (Duration::from_secs(5), None));
    watch.abort();
}

#[test]
fn chains_that_are_verified_at_once_leave_the_highest_epoch_in_force() {
    let keeper = keeper(&["demo"], || WITHIN);
    propose(&keeper, &chain("demo", 1), "demo").unwrap();
    std::thread::scope(|scope| {
        for epoch in 2..=16 {
            let keeper = &keeper;
            scope.spawn(move || {
                let _ = keeper.receive(&chain("demo", epoch));
            });
        }
    });
    assert_eq!(in_force(&keeper), of("demo", 16));
}

#[test]
fn a_peers_chain_that_is_older_than_what_came_meanwhile_is_no_fault() {
    let keeper = keeper(&["demo"], || WITHIN);
    propose(&keeper, &chain("demo", 6), "demo").unwrap();
    keeper.receive(&chain("demo", 5)).unwrap();
    assert_eq!(in_force(&keeper), of("demo", 6));
    let unsigned = SignedChain { signatures: vec![], ..chain("demo", 5) };
    assert_eq!(keeper.receive(&unsigned).unwrap_err().reason(), Reason::PolicyUnsigned);
}

#[test]
fn a_replaced_policy_is_accepted_for_a_minute() {
    let keeper = keeper(&["demo"], || WITHIN);
    for epoch in 1..=3 {
        propose(&keeper, &chain("demo", epoch), "demo").unwrap();
    }
    let digest = |epoch| {
        let chain = chain("demo", epoch);
        sealane_policy::digest_of(&STANDARD.decode(chain.document).unwrap())
    };
    let standing = keeper.standing();
    let held = standing.held().unwrap();
    let now = keeper.clock.moment();
    assert_eq!(held.acceptable(now), [3, 1, 2].map(digest));
    let overlap = u64::try_from(OVERLAP.as_micros()).unwrap();
    assert_eq!(held.acceptable(now.plus_micros(overlap + 1)), [digest(3)]);
    for epoch in 4..=30 {
        propose(&keeper, &chain("demo", epoch), "demo").unwrap();
    }
    let standing = keeper.standing();
    assert_eq!(standing.held().unwrap().acceptable(now).len(), 1 + SUPERSEDED_MAX);
}

#[test]
fn a_policy_that_came_before_its_roots_were_proven_is_followed_then() {
    let anchors = Anchors { roots: vec![roots("demo")], source: RootSource::Initdata };
    let clock = Arc::new(Clock::reading(|| WITHIN));
    let keeper = PolicyKeeper::new(clock, Namespace::new("demo").unwrap(), anchors, false);
    assert_eq!(propose(&keeper, &chain("demo", 1), "demo"), Err(Reason::PolicyMissing), "nobody has looked");
    keeper.roots_unproven("the guest was started with something else");
    let (_, message) = keeper.refusal().unwrap();
    assert!(message.contains("something else"), "{message}");
    assert_eq!(in_force(&keeper), Err(Reason::PolicyRootsMissing));
    keeper.roots_proven();
    assert_eq!(in_force(&keeper), of("demo", 1));
    assert_eq!(keeper.refusal(), None);
    assert_eq!(propose(&keeper, &chain("demo", 2), "demo"), Ok(Adoption::Adopted));
}

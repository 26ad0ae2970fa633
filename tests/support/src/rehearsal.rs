//! Evidence and verdicts made once and used again: handshakes by the thousand cost what their keys cost.

use std::sync::{Arc, LazyLock};

use sealane_attestation::{EvidenceMessage, VerifiedPeer};
use sealane_policy::VerifiedPolicy;
use sealane_protocol::connection::{Event, Local};
use sealane_protocol::keys::{Decapsulate, Kem, KemFailed, Secret, StaticKey};
use sealane_protocol::limits::{KEM_CIPHERTEXT_BYTES, KEM_KEY_BYTES};

use crate::pair::{Held, Pair, Recipe};
use crate::world::{Counter, Who, local, policy};

/// Private static keys of the two sides in rehearsed connections.
pub const EMBEDDER_STATIC: [u8; 32] = [1; 32];
pub const RANKER_STATIC: [u8; 32] = [2; 32];

/// What one genuine handshake left behind: a verdict names a Peer, a pod and a static key, so it fits every other
/// connection of the same three.
pub struct Rehearsed {
    pub evidence: EvidenceMessage,
    pub verdict: VerifiedPeer,
}

static BOTH: LazyLock<[Rehearsed; 2]> = LazyLock::new(|| {
    let mut pair = Pair::of(Recipe {
        initiator: Box::new(|local| local.static_key = static_key(Who::Embedder)),
        responder: Box::new(|local| local.static_key = static_key(Who::Ranker)),
        ..Recipe::default()
    });
    for who in [Who::Embedder, Who::Ranker] {
        pair.side(who).held = vec![Held::Verdict];
    }
    let mut evidence = Vec::new();
    for verifier in [Who::Ranker, Who::Embedder] {
        pair.run();
        let side = pair.side(verifier);
        let received = side.received.take().unwrap();
        let verdict = crate::world::appraise(&received, &side.policy).unwrap();
        evidence.push(received.message.clone());
        side.connection.judged(Ok(verdict)).unwrap();
    }
    pair.run();
    let established = |event: &Event| matches!(event, Event::Established { .. });
    assert!(pair.initiator.events.iter().any(established) && pair.responder.events.iter().any(established));
    let verdicts = [&pair.responder, &pair.initiator].map(|side| side.connection.peer().unwrap().clone());
    let [embedder, ranker] = verdicts;
    let ranker = Rehearsed { evidence: evidence.pop().unwrap(), verdict: ranker };
    [Rehearsed { evidence: evidence.pop().unwrap(), verdict: embedder }, ranker]
});

/// Evidence of `who`, and the verdict on it.
pub fn rehearsed(who: Who) -> &'static Rehearsed {
    match who {
        Who::Embedder => &BOTH[0],
        Who::Ranker => &BOTH[1],
    }
}

/// The same key in every connection.
pub fn static_key(who: Who) -> Arc<StaticKey> {
    let mut private = match who {
        Who::Embedder => EMBEDDER_STATIC,
        Who::Ranker => RANKER_STATIC,
    };
    Arc::new(StaticKey::new(Secret::take(&mut private)).unwrap())
}

static POLICY: LazyLock<VerifiedPolicy> = LazyLock::new(|| policy(1));

/// The policy of epoch 1, signed and verified once.
pub fn first_policy() -> &'static VerifiedPolicy {
    &POLICY
}

/// A side whose evidence and verdict [`rehearsed`] has, with an ML-KEM that is none: every byte that it sends follows
/// from its random numbers, so a corpus stays what it was.
pub fn rehearsed_local(who: Who) -> Local {
    let local = local(who, first_policy(), &mut Counter(1));
    Local { static_key: static_key(who), kem: Arc::new(FixedKem), ..local }
}

/// The secret that [`FixedKem`] always yields.
pub const FIXED_SECRET: [u8; 32] = [9; 32];

/// Stands in for ML-KEM-768, which draws its own random numbers: fixed bytes of the right sizes.
#[derive(Debug, Clone, Copy)]
pub struct FixedKem;

impl Kem for FixedKem {
    fn generate(&self) -> Result<(Box<dyn Decapsulate>, [u8; KEM_KEY_BYTES]), KemFailed> {
        Ok((Box::new(Self), [0x4b; KEM_KEY_BYTES]))
    }

    fn encapsulate(
        &self,
        key: &[u8; KEM_KEY_BYTES],
    ) -> Result<([u8; KEM_CIPHERTEXT_BYTES], Secret<32>), KemFailed> {
        // Some keys are outside the field of the real one.
        if key.iter().all(|byte| *byte == 0xff) {
            return Err(KemFailed);
        }
        Ok(([0x63; KEM_CIPHERTEXT_BYTES], Secret::take(&mut FIXED_SECRET.clone())))
    }
}

impl Decapsulate for FixedKem {
    fn decapsulate(self: Box<Self>, _: &[u8; KEM_CIPHERTEXT_BYTES]) -> Result<Secret<32>, KemFailed> {
        Ok(Secret::take(&mut FIXED_SECRET.clone()))
    }
}

//! Which replicas a replica dials when there are more than its fan-out.
//!
//! Rendezvous hashing: every pair has a weight of its own, so the dialled replicas differ from sender to sender and
//! hardly change when one comes or goes.

use aws_lc_rs::digest::{Context, SHA256};

use crate::desired::Replica;

/// The `fanout` replicas for `own`. Those that are kept already stay, so that a new one interrupts no stream, and so that
/// one whose addresses the operator does not know at the moment is not ended for that.
pub(crate) fn choose<'a>(
    own: &str,
    replicas: &'a [Replica],
    fanout: u32,
    kept: impl Fn(&str) -> bool,
) -> Vec<&'a Replica> {
    let ranked = replicas.iter().map(|replica| (!kept(&replica.id), weight(own, &replica.id), replica));
    let mut ranked: Vec<_> =
        ranked.filter(|(is_new, _, replica)| !is_new || !replica.addresses.is_empty()).collect();
    ranked.sort_by(|one, other| (one.0, &one.1, &one.2.id).cmp(&(other.0, &other.1, &other.2.id)));
    ranked.dedup_by(|one, other| one.2.id == other.2.id);
    let fanout = usize::try_from(fanout.max(1)).unwrap_or(usize::MAX);
    ranked.into_iter().take(fanout).map(|(_, _, replica)| replica).collect()
}

fn weight(own: &str, other: &str) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    hash.update(own.as_bytes());
    // Pod identities hold no newline.
    hash.update(b"\n");
    hash.update(other.as_bytes());
    hash.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(count: usize) -> Vec<Replica> {
        let replica = |number| Replica {
            id: format!("ranker-{number}/u"),
            addresses: vec!["10.0.0.9:14710".parse().unwrap()],
            incarnation: None,
            ordinal: None,
        };
        (0..count).map(replica).collect()
    }

    fn ids(chosen: &[&Replica]) -> Vec<String> {
        chosen.iter().map(|replica| replica.id.clone()).collect()
    }

    #[test]
    fn senders_spread_over_receivers() {
        let replicas = replicas(64);
        let one = ids(&choose("demo/embedder-0/a", &replicas, 16, |_| false));
        let other = ids(&choose("demo/embedder-1/b", &replicas, 16, |_| false));
        assert_eq!(one.len(), 16);
        assert_ne!(one, other);
    }

    #[test]
    fn what_is_kept_stays_chosen() {
        let few = replicas(4);
        let kept = ids(&choose("demo/embedder-0/a", &few, 2, |_| false));
        let many = replicas(40);
        let later = ids(&choose("demo/embedder-0/a", &many, 2, |id| kept.iter().any(|one| one == id)));
        let (mut kept, mut later) = (kept, later);
        kept.sort();
        later.sort();
        assert_eq!(kept, later);
    }

    #[test]
    fn what_cannot_be_dialled_is_kept_and_not_begun() {
        let mut replicas = replicas(2);
        replicas.iter_mut().for_each(|replica| replica.addresses.clear());
        let chosen = choose("demo/e/a", &replicas, 16, |id| id == "ranker-1/u");
        assert_eq!(ids(&chosen), ["ranker-1/u"]);
    }

    #[test]
    fn fewer_than_the_fanout_are_all_chosen() {
        assert_eq!(choose("demo/e/a", &replicas(3), 16, |_| false).len(), 3);
        assert!(choose("demo/e/a", &[], 16, |_| false).is_empty());
    }
}

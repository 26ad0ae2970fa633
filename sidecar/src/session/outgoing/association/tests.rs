use std::time::Duration;

use sealane_protocol::handshake::{KeyExchange, Suite};
use sealane_types::Cipher;

use super::*;

/// More than an association lets wait, if something waits already.
const LARGE: u64 = 8 << 20;

fn process(number: u8) -> ReplicaId {
    let mut id = [number; 16];
    id[15] = 0;
    ReplicaId(id)
}

fn established() -> Phase {
    Phase::Established {
        suite: Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm),
        handshake: Duration::ZERO,
        degraded: Vec::new(),
    }
}

/// An association, and what tells lanes to look at it.
fn association() -> (Arc<Association>, watch::Receiver<u64>) {
    let session = watch::Sender::new(0);
    let news = session.subscribe();
    let association =
        Association::new("ranker".parse().unwrap(), "ranker-0".to_owned(), session, Arc::default());
    (association, news)
}

fn connected() -> (Arc<Association>, watch::Receiver<u64>) {
    let (association, mut news) = association();
    association.attach(process(1), established());
    news.mark_unchanged();
    (association, news)
}

#[test]
fn lanes_hear_of_room_each_time_there_is_some_again() {
    let (association, mut news) = connected();
    for round in 0..3 {
        while association.has_room() {
            association.promise(LARGE).unwrap();
        }
        news.mark_unchanged();
        association.forgo(LARGE);
        assert!(association.has_room());
        assert!(news.has_changed().unwrap(), "round {round}");
    }
}

//! Calls that are cancelled, run out of time or end well at any point, held against what was put.

use std::collections::BTreeSet;
use std::time::Duration;

use sealane_sidecar_api::door as wire;
use sealane_sidecar_api::door::put_request::Message as PutAsk;

use crate::grpc::client::{Came, Putter, Taker, part, put, tensor};
use crate::grpc::served::Served;
use crate::support::within;

const SESSION: &str = "activations";
const CALLS: u64 = 40;
/// Between the first sequences of two calls.
const STRIDE: u64 = 100;

/// xorshift64: each call does the same every time.
struct Random(u64);

impl Random {
    /// Of a call; the multiplier of Knuth's MMIX spreads its number over all bits.
    fn of(number: u64) -> Self {
        Self((number + 1).wrapping_mul(6_364_136_223_846_793_005))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What one call put, and what it was told of as taken.
#[derive(Default)]
struct Account {
    whole: BTreeSet<u64>,
    taken: BTreeSet<u64>,
}

/// Puts some tensors in a call, and ends it in one of four ways.
async fn call(door: &Served, number: u64, random: &mut Random) -> Account {
    let mut account = Account::default();
    // How it ends: each way as often as the others.
    let (ends, patience) = (number % 4, Duration::from_millis(1 + random.below(100)));
    let call = puts(door, number, ends, random, &mut account);
    match ends {
        // As a client does whose deadline has passed.
        0 => drop(tokio::time::timeout(patience, call).await),
        _ => call.await,
    }
    account
}

async fn puts(door: &Served, number: u64, ends: u64, random: &mut Random, account: &mut Account) {
    let channel = door.channel().await;
    let open = wire::PutOpen { session: SESSION.to_owned(), base: number * STRIDE, ..Default::default() };
    let mut putter = Putter::open_with(&channel, open).await.unwrap();
    for sequence in (number * STRIDE..).take(1 + random.below(12) as usize) {
        // Before it is whole: a call that is cut off may have said all of it.
        account.whole.insert(sequence);
        put(&putter.asks(), sequence, 1 + random.below(3 << 20) as usize).await;
        // Asked now and then, so that some of it has been taken by the end.
        if random.below(3) == 0 {
            putter.flush().await;
            account
                .taken
                .extend(putter.settled.iter().filter(|(_, taken)| **taken).map(|(sequence, _)| sequence));
        }
    }
    match ends {
        0 => std::future::pending().await,
        // Cancelled between two tensors.
        1 => {}
        // Cancelled within one.
        2 => {
            let sequence = number * STRIDE + STRIDE - 1;
            let data = part(sequence, 0, 1 + random.below(1 << 20) as usize);
            let begun = wire::PutTensor { sequence: Some(sequence), shape: vec![2 << 20], ..tensor(data) };
            putter.say(PutAsk::Tensor(begun)).await;
        }
        _ => {
            let settled = putter.close().await;
            assert!(settled.keys().copied().eq(account.whole.iter().copied()), "each has its last word");
            assert!(settled.values().all(|taken| *taken), "{settled:?}");
            account.taken.clone_from(&account.whole);
        }
    }
}

/// Takes everything until the end of the lane. The bytes of each tensor tell its sequence and are checked as they come.
async fn take(mut taker: Taker) -> Vec<u64> {
    let mut delivered = Vec::new();
    loop {
        match taker.next().await.unwrap() {
            Came::Tensor(tensor) => {
                taker.take(tensor.delivery).await;
                delivered.push(tensor.sequence);
            }
            Came::Interrupted(_) => {}
            Came::Ended => return delivered,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_becomes_of_calls_nothing_arrives_that_was_not_put_and_nothing_twice() {
    let (from, to) = Served::pair();
    let taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    let taking = tokio::spawn(take(taker));
    // The lane ends once every call has closed, so one stays.
    let stays = Putter::open(&from.channel().await, SESSION).await.unwrap();
    let mut accounts = Vec::new();
    for number in 0..CALLS {
        // Each its own: where a deadline cuts one off depends on the machine.
        accounts.push(call(&from, number, &mut Random::of(number)).await);
    }
    stays.close().await;
    let delivered = within("the end", taking).await.unwrap();
    let distinct: BTreeSet<u64> = delivered.iter().copied().collect();
    assert_eq!(distinct.len(), delivered.len(), "a tensor came twice");
    let whole: BTreeSet<u64> = accounts.iter().flat_map(|account| &account.whole).copied().collect();
    assert!(distinct.is_subset(&whole), "{:?} arrived and was not put", distinct.difference(&whole));
    let taken: BTreeSet<u64> = accounts.iter().flat_map(|account| &account.taken).copied().collect();
    assert!(!taken.is_empty(), "every fourth call closes, and is told that all is taken");
    assert!(taken.is_subset(&distinct), "{:?} was taken by nobody", taken.difference(&distinct));
}

//! Further links of a connection: large tensors go over them, and nobody else's do.

use sealane_sidecar::handoff::{SenderEvents, SenderLane, Turn};
use sealane_types::Carrier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::path::Path;
use crate::staying::PACE;
use crate::support::{Plan, Sidecar, until, within};

const MIB: u64 = 1 << 20;
/// Datagrams have no further links.
const TCP: Option<Carrier> = Some(Carrier::Tcp);

/// Sidecars whose connections have as many links, and a lane between them.
struct Linked {
    from: Sidecar,
    to: Sidecar,
    lane: SenderLane,
    receiver: Receiver,
    next: u64,
}

impl Linked {
    async fn begin(links: u8) -> Self {
        let to = Plan { links, carrier: TCP, ..Plan::receiver() }.start();
        let from = Plan { links, carrier: TCP, ..Plan::sender(&[to.address]) }.start();
        Self::between(from, to).await
    }

    async fn between(from: Sidecar, to: Sidecar) -> Self {
        let (lane, events): (SenderLane, SenderEvents) = sender(&from.lanes).await;
        passing_on(events);
        let receiver = Receiver::open(&to.lanes, 64 * MIB).await;
        Self { from, to, lane, receiver, next: 0 }
    }

    /// Puts tensors of these sizes, which are taken whole and in order.
    async fn cross(&mut self, sizes: &[u64]) {
        let Self { lane, receiver, next, .. } = self;
        let first = std::mem::replace(next, *next + sizes.len() as u64);
        let numbered = || (first..).zip(sizes);
        let put = async {
            for (sequence, length) in numbered() {
                lane.offer(parcel(sequence, *length)).await.unwrap();
            }
        };
        let take = async {
            for (sequence, length) in numbered() {
                let delivery = receiver.tensor().await;
                assert_eq!((delivery.sequence.0, delivery.length), (sequence, *length));
                receiver.take(&delivery);
            }
        };
        within("put and take", async { tokio::join!(put, take) }).await;
    }

    /// Puts large tensors until further links carry some of them.
    async fn cross_until_striped(&mut self) {
        let before = striped(&self.from);
        within("a further link", async {
            while striped(&self.from) == before {
                self.cross(&[MIB; 4]).await;
            }
        })
        .await;
    }

    async fn close(mut self) {
        within("the end", self.lane.close()).await.unwrap();
        assert_eq!(self.receiver.turn().await, Turn::End);
    }
}

/// Bytes over further links, as a sidecar counts them.
fn striped(sidecar: &Sidecar) -> u64 {
    counted(sidecar, "sealane_striped_bytes_total{")
}

fn counted(sidecar: &Sidecar, series: &str) -> u64 {
    let metrics = sidecar.node.render_metrics().unwrap();
    let lines = metrics.lines().filter(|line| line.starts_with(series));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test]
async fn tensors_of_every_size_come_whole_and_in_order_over_several_links() {
    for links in [2, 4] {
        let mut linked = Linked::begin(links).await;
        linked.cross_until_striped().await;
        let before = striped(&linked.from);
        let sizes: Vec<_> =
            (0..60).map(|turn| [3 * MIB, 0, 1_536, MIB, 300_000, 8 * MIB][turn % 6]).collect();
        linked.cross(&sizes).await;
        // Small ones never do, and of the others a share stays on the connection's own link.
        let large: u64 = sizes.iter().filter(|size| **size >= MIB).sum();
        let over_links = striped(&linked.from) - before;
        assert!((large / 8..large).contains(&over_links), "{over_links} of {large}");
        until("both sides count the same", || striped(&linked.to) == striped(&linked.from)).await;
        linked.close().await;
    }
}

#[tokio::test]
async fn a_side_without_further_links_has_connections_of_one() {
    let mut linked = Linked::begin(1).await;
    linked.cross(&[8 * MIB; 4]).await;
    assert_eq!((striped(&linked.from), striped(&linked.to)), (0, 0));
    linked.close().await;
}

/// What was on the way over a link that breaks comes again over another connection, which has none for a while.
#[tokio::test]
async fn a_link_that_breaks_loses_nothing_and_doubles_nothing() {
    let to = Plan { links: 4, carrier: TCP, ..Plan::receiver() }.start();
    let path = Path::to(to.address).await;
    let from = Plan { links: 4, carrier: TCP, ..Plan::sender(&[path.address]) }.start();
    let mut linked = Linked::between(from, to).await;
    linked.cross_until_striped().await;
    let cut = async {
        tokio::task::yield_now().await;
        path.cut_others();
    };
    tokio::join!(linked.cross(&[8 * MIB; 24]), cut);
    assert_eq!(counted(&linked.from, "sealane_connections_established_total{"), 2);
    let before = striped(&linked.from);
    linked.cross(&[MIB; 8]).await;
    assert_eq!(striped(&linked.from), before);
    linked.close().await;
}

/// A renewal ends the links of the keys before it, once they have sent what they were given.
#[tokio::test]
async fn links_are_joined_anew_when_a_connection_is_attested_again() {
    let plan = |plan: Plan| Plan { links: 3, carrier: TCP, reattest_seconds: 10, ..plan };
    let to = plan(Plan::receiver()).start();
    let from = plan(Plan::sender(&[to.address])).start();
    let mut linked = Linked::between(from, to).await;
    let mut pace = tokio::time::interval(PACE);
    for renewals in 1..=2 {
        within("to be attested again", async {
            while counted(&linked.from, "sealane_connections_reattested_total{") < renewals {
                linked.cross(&[MIB; 4]).await;
                pace.tick().await;
            }
        })
        .await;
        linked.cross_until_striped().await;
    }
    assert_eq!(counted(&linked.from, "sealane_connections_established_total{"), 1);
    linked.close().await;
}

#[tokio::test]
async fn a_stranger_who_greets_as_a_link_is_sent_away_and_disturbs_nobody() {
    let mut linked = Linked::begin(2).await;
    linked.cross_until_striped().await;
    // Hello of kind 2, version 1, a name that no connection has, link 1.
    let body = [&[2, 1, 0, 1, 0, 0, 0, 0, 0][..], &[7; 16], &[0, 0, 0, 1], &[0; 64]].concat();
    let greeting = [b"SEALANE\0", &(body.len() as u16).to_be_bytes()[..], &body].concat();
    for greeting in [&greeting[..], &greeting[..50]] {
        let mut stranger = TcpStream::connect(linked.to.address).await.unwrap();
        stranger.write_all(greeting).await.unwrap();
        stranger.shutdown().await.unwrap();
        let mut said = Vec::new();
        // The kernel may reset it, because of what was left unread.
        let _ = within("the end", stranger.read_to_end(&mut said)).await;
        assert!(said.is_empty(), "{said:?}");
    }
    linked.cross(&[2 * MIB; 8]).await;
    assert_eq!(counted(&linked.from, "sealane_connections_established_total{"), 1);
    linked.close().await;
}

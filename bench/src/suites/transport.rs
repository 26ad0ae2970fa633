//! What a lane's bytes cost from one end to the other with each cipher, over loopback or to a server elsewhere: what a
//! session is recommended by.

use std::sync::Arc;

use anyhow::Result;
use sealane_types::{Carrier, Cipher};

use crate::bench::{Bench, Ran};
use crate::carrier::Path;
use crate::contest::{Caption, Contender, Series, hold_all};
use crate::message::Payloads;
use crate::ours::Ours;
use crate::pair::Pair;
use crate::peer::plaintext::Plaintext;
use crate::peer::quic::Quic;
use crate::peer::tls::{SharedTls, Tls, Writes};
use crate::peer::transport::Transport;
use crate::plan::{Peer, Suite};
use crate::remote;
use crate::row::{Better, RowId, Unit};
use crate::samples::{Block, Burst};
use crate::wire::Open;
use crate::world::World;

/// Bytes of a message one way, and of one that comes back.
const STREAM_BYTES: usize = 1 << 20;
const ASKED_BYTES: usize = 1_536;
/// The cipher that peers are compared with: theirs.
const COMPARED: Cipher = Cipher::Aes256Gcm;
const NOTE_REMOTE: &str =
    "the end is timed when the server's answer is here, half a round trip after the last byte";

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let world = Arc::new(World::new(true)?);
    goodput(bench, &world)?;
    round_trip(bench, &world)
}

fn goodput(bench: &mut Bench<'_>, world: &Arc<World>) -> Ran {
    let ids: Vec<_> = Cipher::ALL.iter().map(|cipher| id(*cipher)).collect();
    let peers = bench.selection.peers.clone();
    let beside: Vec<_> = peers.iter().map(|peer| id(COMPARED).beside(peer.word())).collect();
    if !bench.wants_any(ids.iter().chain(&beside)) {
        return Ok(());
    }
    bench.measuring(&id(COMPARED));
    let (payloads, target) = (Payloads::new(STREAM_BYTES), bench.plan.sample);
    let mut bursts = Vec::new();
    for cipher in Cipher::ALL {
        bursts.push(Burst::new(ours(bench, world, *cipher, &payloads)?, STREAM_BYTES, target)?);
    }
    for peer in &peers {
        bursts.push(Burst::new(theirs(bench, *peer, &payloads)?, STREAM_BYTES, target)?);
    }
    let contenders: Vec<Contender<'_>> = bursts.iter().map(Burst::contender).collect();
    let (series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let (own, others) = series.split_at(Cipher::ALL.len());
    for (cipher, series) in Cipher::ALL.iter().zip(own) {
        let name = format!("1 MiB one way over TCP {}, {cipher}", whither(bench));
        let row = caption(bench, id(*cipher), name, Unit::GigabytesPerSecond, None);
        bench.row(row.row(series, None, &control));
    }
    let compared = Cipher::ALL.iter().zip(own).find(|(cipher, _)| **cipher == COMPARED);
    let Some((_, compared)) = compared else { return Ok(()) };
    for ((peer, id), series) in peers.iter().zip(beside).zip(others) {
        let name = format!("1 MiB one way over TCP {}, {COMPARED} against {}", whither(bench), peer.title());
        let row = caption(bench, id, name, Unit::GigabytesPerSecond, Some(*peer));
        bench.row(row.row(compared, Some(series), &control));
    }
    Ok(())
}

fn round_trip(bench: &mut Bench<'_>, world: &Arc<World>) -> Ran {
    let id = RowId::new("transport-rtt", ASKED_BYTES);
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let (payloads, count) = (Payloads::new(ASKED_BYTES), bench.plan.block_of(ASKED_BYTES));
    let peer = bench.selection.peers.contains(&Peer::Plaintext).then_some(Peer::Plaintext);
    let mut blocks = vec![Block::new(ours(bench, world, COMPARED, &payloads)?, count)?];
    if let Some(peer) = peer {
        blocks.push(Block::new(theirs(bench, peer, &payloads)?, count)?);
    }
    let contenders: Vec<Contender<'_>> = blocks.iter().map(Block::contender).collect();
    let (series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let [ours, theirs @ ..] = series.as_slice() else { return Ok(()) };
    let theirs: Option<&Series> = theirs.first();
    let name = format!("{ASKED_BYTES} B there and back over TCP {}, {COMPARED}", whither(bench));
    let row = caption(bench, id, name, Unit::Microseconds, peer);
    bench.row(row.row(ours, theirs, &control));
    Ok(())
}

fn id(cipher: Cipher) -> RowId {
    RowId::new("transport", format_args!("{}+{cipher}", Carrier::Tcp))
}

fn ours(bench: &Bench<'_>, world: &Arc<World>, cipher: Cipher, payloads: &Payloads) -> Result<Pair> {
    let opener: Ours = remote::ours(world, cipher)?;
    let shared = world.share()?;
    connect(bench, &opener, remote::Contender::Ours { cipher, world: shared }, payloads)
}

fn theirs(bench: &Bench<'_>, peer: Peer, payloads: &Payloads) -> Result<Pair> {
    match peer {
        Peer::Plaintext => connect(bench, &Plaintext, remote::Contender::Plaintext, payloads),
        Peer::Rustls => {
            let shared = SharedTls::new(Writes::Buffered)?;
            connect(bench, &Tls::join(&shared)?, remote::Contender::Tls(shared), payloads)
        }
        Peer::Quinn => {
            let shared = SharedTls::new(Writes::Buffered)?;
            let quic = Quic::new(shared.clone());
            match bench.server() {
                Some(server) => Pair::reach(&quic, server, remote::Contender::Quinn(shared), payloads),
                None => Pair::connect(&quic, Path::Datagrams, payloads),
            }
        }
        Peer::ConfidentialMlTransport => {
            connect(bench, &Transport, remote::Contender::ConfidentialMlTransport, payloads)
        }
    }
}

/// To the server if there is one.
fn connect(
    bench: &Bench<'_>,
    opener: &impl Open,
    contender: remote::Contender,
    payloads: &Payloads,
) -> Result<Pair> {
    match bench.server() {
        Some(server) => Pair::reach(opener, server, contender, payloads),
        None => Pair::connect(opener, Path::Loopback, payloads),
    }
}

fn whither(bench: &Bench<'_>) -> String {
    bench.server().map_or_else(|| "loopback".to_owned(), |server| format!("to {}", server.address))
}

fn caption(bench: &Bench<'_>, id: RowId, name: String, unit: Unit, peer: Option<Peer>) -> Caption {
    let better = if unit == Unit::Microseconds { Better::Lower } else { Better::Higher };
    let is_stream = unit == Unit::GigabytesPerSecond;
    Caption {
        id,
        suite: Suite::Transport.word(),
        name,
        unit,
        better,
        peer: peer.map(|peer| peer.title().to_owned()),
        limits: Vec::new(),
        doubt: None,
        note: if bench.server().is_some() && is_stream { NOTE_REMOTE.to_owned() } else { String::new() },
    }
}

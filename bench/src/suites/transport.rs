//! What a lane's bytes cost from one end to the other with each cipher over TCP and over UDP, over loopback or to a server
//! elsewhere: what a session is recommended by.

mod congestion;

use std::sync::Arc;

use anyhow::Result;
use sealane_types::{Carrier, Cipher};

use crate::bench::{Bench, Ran};
use crate::carrier::Path;
use crate::contest::{Caption, Contender, Series, hold_all};
use crate::message::Payloads;
use crate::ours::{Ours, OverUdp};
use crate::pair::Pair;
use crate::peer::plaintext::Plaintext;
use crate::peer::quic::Quic;
use crate::peer::tls::{SharedTls, Tls, Writes};
use crate::peer::transport::Transport;
use crate::plan::{Peer, Suite};
use crate::remote;
use crate::row::{Better, Missing, RowId, Unit};
use crate::samples::{Block, Burst};
use crate::wire::Open;
use crate::world::World;

/// Bytes of a message one way, and of one that comes back.
const STREAM_BYTES: usize = 1 << 20;
const ASKED_BYTES: usize = 1_536;
/// What peers are compared with: their cipher, over what most of them have.
const COMPARED: (Carrier, Cipher) = (Carrier::Tcp, Cipher::Aes256Gcm);
const NOTE_REMOTE: &str =
    "the end is timed when the server's answer is here, half a round trip after the last byte";

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let world = Arc::new(World::new(true)?);
    goodput(bench, &world)?;
    congestion::run(bench, &world)?;
    round_trip(bench, &world)
}

fn goodput(bench: &mut Bench<'_>, world: &Arc<World>) -> Ran {
    let own = || [Carrier::Tcp, Carrier::Udp].into_iter().flat_map(of_carrier);
    let ids: Vec<_> = own().map(id).collect();
    let peers = bench.selection.peers.clone();
    let beside: Vec<_> = peers.iter().map(|peer| id(COMPARED).beside(peer.word())).collect();
    if !bench.wants_any(ids.iter().chain(&beside)) {
        return Ok(());
    }
    bench.measuring(&id(COMPARED));
    let payloads = Payloads::new(STREAM_BYTES);
    let target = bench.plan.sample;
    let tcp = of_carrier(Carrier::Tcp)
        .map(|(_, cipher)| Burst::new(ours(bench, world, cipher, &payloads)?, STREAM_BYTES, target));
    let mut bursts = tcp.collect::<Result<Vec<_>>>()?;
    bursts.extend(datagrams(bench, world, &payloads)?);
    let measured = bursts.len();
    for peer in &peers {
        bursts.push(Burst::new(theirs(bench, *peer, &payloads)?, STREAM_BYTES, target)?);
    }
    let contenders: Vec<Contender<'_>> = bursts.iter().map(Burst::contender).collect();
    let (series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let (ours, others) = series.split_at(measured);
    for ((carrier, cipher), series) in own().zip(ours) {
        let name = format!("1 MiB one way over {} {}, {cipher}", network(carrier), whither(bench));
        let row = caption(bench, id((carrier, cipher)), name, Unit::GigabytesPerSecond, None);
        bench.row(row.row(series, None, &control));
    }
    let compared = own().zip(ours).find(|(transport, _)| *transport == COMPARED);
    let Some((_, compared)) = compared else { return Ok(()) };
    for ((peer, id), series) in peers.iter().zip(beside).zip(others) {
        let name =
            format!("1 MiB one way over TCP {}, {} against {}", whither(bench), COMPARED.1, peer.title());
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
    let mut blocks = vec![Block::new(ours(bench, world, COMPARED.1, &payloads)?, count)?];
    if let Some(peer) = peer {
        blocks.push(Block::new(theirs(bench, peer, &payloads)?, count)?);
    }
    let contenders: Vec<Contender<'_>> = blocks.iter().map(Block::contender).collect();
    let (series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let [ours, theirs @ ..] = series.as_slice() else { return Ok(()) };
    let theirs: Option<&Series> = theirs.first();
    let name = format!("{ASKED_BYTES} B there and back over TCP {}, {}", whither(bench), COMPARED.1);
    let row = caption(bench, id, name, Unit::Microseconds, peer);
    bench.row(row.row(ours, theirs, &control));
    Ok(())
}

fn id((carrier, cipher): (Carrier, Cipher)) -> RowId {
    RowId::new("transport", format_args!("{carrier}+{cipher}"))
}

fn of_carrier(carrier: Carrier) -> impl Iterator<Item = (Carrier, Cipher)> {
    Cipher::ALL.iter().map(move |cipher| (carrier, *cipher))
}

const fn network(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Tcp => "TCP",
        Carrier::Udp => "UDP",
        Carrier::AfXdp => "AF_XDP",
    }
}

/// What each cipher does over UDP. Nothing where a server is not reached so, or messages do not get there: a network that
/// lets TCP alone pass does not keep from measuring the rest. The rows are missing then, and nobody is recommended them.
fn datagrams(bench: &mut Bench<'_>, world: &Arc<World>, payloads: &Payloads) -> Result<Vec<Burst>> {
    let connect = |cipher| {
        let answer = bench.plan.udp_answer;
        let over_udp = OverUdp::new(remote::ours(world, cipher)?, true, answer);
        let pair = match bench.server() {
            Some(server) => {
                let contender = remote::Contender::OursOverUdp { cipher, world: world.share()?, answer };
                Pair::reach(&over_udp, server, contender, payloads)
            }
            None => Pair::connect(&over_udp, Path::Datagrams, payloads),
        };
        Burst::new(pair?, STREAM_BYTES, bench.plan.sample)
    };
    let bursts: Result<Vec<_>> = of_carrier(Carrier::Udp).map(|(_, cipher)| connect(cipher)).collect();
    match bursts {
        Err(error) if bench.server().is_some() => {
            let why = format!("messages do not get to the server over UDP: {error:#}");
            of_carrier(Carrier::Udp).for_each(|one| bench.missing(Missing::new(&id(one).0, why.clone())));
            Ok(Vec::new())
        }
        bursts => bursts,
    }
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

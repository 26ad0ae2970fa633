//! P4: one way over UDP between two network namespaces, beside QUIC, and beside our own TCP carrier on the same veth; and the
//! same over AF_XDP. Beside it, what congestion controls make of one link.

mod congestion;

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;

use anyhow::Result;
use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_types::Cipher;
use sealane_xdp::Mode;

use crate::bench::{Bench, Ran};
use crate::carrier::Plug;
use crate::contest::{Caption, Contest};
use crate::message::Payloads;
use crate::ours::{Ours, OverUdp, OverXdp};
use crate::pair::Pair;
use crate::peer::quic::Quic;
use crate::peer::tls::{SharedTls, Writes};
use crate::plan::Suite;
use crate::programs::{ETHERNET_MTU, Route};
use crate::queue::queues;
use crate::row::{Better, Missing, RowId, Subject, Unit};
use crate::samples::Burst;
use crate::world::World;

/// Bytes of a message: of a stream of them, cut into datagrams of [`DATAGRAM_BYTES`].
const MESSAGE_BYTES: usize = 1 << 20;
/// UDP payload of a datagram that Ethernet carries.
const DATAGRAM_BYTES: usize = 1_472;
/// How much faster than QUIC, and than our TCP carrier, ours has to be. The ciphers of TCP work on 64 KiB, those of UDP on what
/// a datagram holds.
const QUINN_LIMIT: f64 = 2.0;
const TCP_LIMIT: f64 = 0.5;
const QUINN: &str = "quinn 0.11, AES-256-GCM of aws-lc";
const TCP: &str = "our TCP carrier";

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    over_udp(bench)?;
    over_xdp(bench)?;
    congestion::run(bench)
}

fn over_udp(bench: &mut Bench<'_>) -> Ran {
    let (one_way, unsegmented) = (RowId::new("P4", DATAGRAM_BYTES), RowId::new("P4-nogso", DATAGRAM_BYTES));
    let rows = [
        (one_way.beside("quinn"), "against QUIC", QUINN, Some(QUINN_LIMIT)),
        (one_way.beside("tcp"), "against TCP", TCP, Some(TCP_LIMIT)),
        (unsegmented.beside("quinn"), "not cut by the kernel, against QUIC", QUINN, None),
    ];
    if !bench.wants_any(rows.iter().map(|(id, ..)| id)) {
        return Ok(());
    }
    bench.measuring(&one_way);
    let world = Arc::new(World::new(false)?);
    let ours = Ours::new(&world, Ciphers::new(KeyExchange::Hybrid, Cipher::Aes256Gcm))?;
    let route = Route::best();
    let payloads = Payloads::new(MESSAGE_BYTES);
    let quic = Quic::new(SharedTls::new(Writes::Buffered)?);
    let (target, answer) = (bench.plan.sample, bench.plan.udp_answer);
    let burst = |pair: Pair| Burst::new(pair, MESSAGE_BYTES, target);
    let bursts = [
        burst(Pair::between(&OverUdp::new(ours.clone(), true, answer), datagrams(&route)?, &payloads)?)?,
        burst(Pair::between(&quic, datagrams(&route)?, &payloads)?)?,
        burst(Pair::between(&ours, stream(&route)?, &payloads)?)?,
        burst(Pair::between(&OverUdp::new(ours, false, answer), datagrams(&route)?, &payloads)?)?,
        burst(Pair::between(&quic.unsegmented(), datagrams(&route)?, &payloads)?)?,
    ];
    let contenders = bursts.each_ref().map(Burst::contender);
    let contest = Contest::hold(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let [udp, quinn, tcp, udp_unsegmented, quinn_unsegmented] = &contest.series;
    let series = [(udp, quinn), (udp, tcp), (udp_unsegmented, quinn_unsegmented)];
    for ((id, what, peer, limit), (ours, theirs)) in rows.into_iter().zip(series) {
        let caption = Caption {
            id,
            suite: Suite::Datagram.word(),
            name: format!("1 MiB one way in datagrams of {DATAGRAM_BYTES} B, {what}"),
            unit: Unit::GigabytesPerSecond,
            better: Better::Higher,
            peer: Some(peer.to_owned()),
            limits: limit.map(|limit| (Subject::Ratio, limit)).into_iter().collect(),
            doubt: None,
            note: route.note.clone(),
        };
        bench.row(caption.row(ours, Some(theirs), &contest.control));
    }
    Ok(())
}

/// The same engine with a queue of AF_XDP in the place of a socket, on a veth of its own: a program on the veth of the socket
/// would slow it down.
fn over_xdp(bench: &mut Bench<'_>) -> Ran {
    let own = RowId::new("P4-xdp", DATAGRAM_BYTES);
    let beside = own.beside("udp");
    if !bench.wants_any([&own, &beside]) {
        return Ok(());
    }
    bench.measuring(&own);
    // After the queues, which lie in it, it is dropped.
    let way = Route::namespaces(ETHERNET_MTU);
    let found = way.and_then(|route| Ok((queues(&route, Mode::Generic)?, route)));
    let ([one, other], way) = match found {
        Ok(found) => found,
        Err(error) => {
            bench.missing(Missing::new("P4-xdp", format!("{error:#}")));
            return Ok(());
        }
    };
    let world = Arc::new(World::new(false)?);
    let ours = Ours::new(&world, Ciphers::new(KeyExchange::Hybrid, Cipher::Aes256Gcm))?;
    let (route, payloads, target) = (Route::best(), Payloads::new(MESSAGE_BYTES), bench.plan.sample);
    let plugs = (Plug::Queue(Box::new(one)), Plug::Queue(Box::new(other)));
    let queued = Pair::between(&OverXdp(ours.clone()), plugs, &payloads)?;
    let socket =
        Pair::between(&OverUdp::new(ours, true, bench.plan.udp_answer), datagrams(&route)?, &payloads)?;
    let queued = Burst::new(queued, MESSAGE_BYTES, target)?;
    let socket = Burst::new(socket, MESSAGE_BYTES, target)?;
    let contenders = [queued.contender(), socket.contender()];
    let contest = Contest::hold(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let [ours, theirs] = &contest.series;
    for (id, theirs) in [(own, None), (beside, Some(theirs))] {
        let caption = Caption {
            id,
            suite: Suite::Datagram.word(),
            name: format!("1 MiB one way in datagrams of {DATAGRAM_BYTES} B over AF_XDP"),
            unit: Unit::GigabytesPerSecond,
            better: Better::Higher,
            peer: theirs.map(|_| "our UDP carrier, cut and joined by the kernel".to_owned()),
            limits: Vec::new(),
            doubt: None,
            note: format!("{}, generic mode; each packet crosses the veth by itself", way.note),
        };
        bench.row(caption.row(ours, theirs, &contest.control));
    }
    Ok(())
}

/// Two UDP sockets, one on each host.
fn datagrams(route: &Route) -> Result<(Plug, Plug)> {
    let [one, other] = route.hosts.each_ref().map(|host| {
        let socket = host.visit(|| Ok(UdpSocket::bind((host.address, 0))?))?;
        let address = socket.local_addr()?;
        anyhow::Ok((socket, address))
    });
    let ((one, here), (other, there)) = (one?, other?);
    let plug = |socket, remote: SocketAddr| Plug::Udp { socket, remote };
    Ok((plug(one, there), plug(other, here)))
}

/// A TCP connection between the hosts.
fn stream(route: &Route) -> Result<(Plug, Plug)> {
    let [dialling, accepting] = &route.hosts;
    let listener = accepting.visit(|| Ok(TcpListener::bind((accepting.address, 0))?))?;
    let address = listener.local_addr()?;
    let one = dialling.visit(|| Ok(TcpStream::connect(address)?))?;
    let (other, _) = listener.accept()?;
    for stream in [&one, &other] {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
    }
    Ok((Plug::Tcp(one), Plug::Tcp(other)))
}

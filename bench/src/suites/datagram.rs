//! P4: one way over UDP between two network namespaces, beside QUIC, and beside our own TCP carrier on the same veth.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;

use anyhow::Result;
use sealane_protocol::handshake::{KeyExchange, Suite as Ciphers};
use sealane_types::Cipher;

use crate::bench::{Bench, Ran};
use crate::carrier::Plug;
use crate::contest::{Caption, Contest};
use crate::message::Payloads;
use crate::ours::{Ours, OverUdp};
use crate::pair::Pair;
use crate::peer::quic::Quic;
use crate::peer::tls::{SharedTls, Writes};
use crate::plan::Suite;
use crate::programs::Route;
use crate::row::{Better, RowId, Subject, Unit};
use crate::samples::Burst;
use crate::world::World;

/// Bytes of a message: of a stream of them, cut into datagrams of [`DATAGRAM_BYTES`].
const MESSAGE_BYTES: usize = 1 << 20;
/// UDP payload of a datagram that Ethernet carries.
const DATAGRAM_BYTES: usize = 1_472;
/// How much faster than QUIC, with and without segmentation by the kernel, and than our TCP carrier, ours has to be.
const QUINN_LIMIT: f64 = 1.6;
const UNSEGMENTED_LIMIT: f64 = 1.3;
const TCP_LIMIT: f64 = 0.9;
const QUINN: &str = "quinn 0.11, AES-256-GCM of aws-lc";
const TCP: &str = "our TCP carrier";

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let (one_way, unsegmented) = (RowId::new("P4", DATAGRAM_BYTES), RowId::new("P4-nogso", DATAGRAM_BYTES));
    let rows = [
        (one_way.beside("quinn"), "against QUIC", QUINN, QUINN_LIMIT),
        (one_way.beside("tcp"), "against TCP", TCP, TCP_LIMIT),
        (unsegmented.beside("quinn"), "a system call for each, against QUIC", QUINN, UNSEGMENTED_LIMIT),
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
    let target = bench.plan.sample;
    let burst = |pair: Pair| Burst::new(pair, MESSAGE_BYTES, target);
    let bursts = [
        burst(Pair::between(&OverUdp::new(ours.clone(), true), datagrams(&route)?, &payloads)?)?,
        burst(Pair::between(&quic, datagrams(&route)?, &payloads)?)?,
        burst(Pair::between(&ours, stream(&route)?, &payloads)?)?,
        burst(Pair::between(&OverUdp::new(ours, false), datagrams(&route)?, &payloads)?)?,
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
            limits: vec![(Subject::Ratio, limit)],
            doubt: None,
            note: route.note.clone(),
        };
        bench.row(caption.row(ours, Some(theirs), &contest.control));
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

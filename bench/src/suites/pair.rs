//! A TCP connection that two sidecars carry, against one that two relays pass on, in the clear and sealed: what sealing costs where
//! something has to stand in the path anyway.

use std::cell::RefCell;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contender, Sample, hold_all};
use crate::message::{Inbox, Payloads};
use crate::peer::relay::{self, Relays};
use crate::plan::Suite;
use crate::programs::{Host, Material, Relay, Route, Sidecars, TlsRelays};
use crate::row::{Better, Missing, RowId, Subject, Unit};
use crate::world::{Session, World};

/// Bytes of a message.
const BYTES: usize = 1_048_576;
/// What of the relays' speed two sidecars have to keep: three connections stand in the path of both, 0.71 ns for a byte, to which
/// sealing and opening add 0.19 on the machine where this was measured, so that 0.79 is all that there is.
const RELAY_LIMIT: f64 = 0.72;
/// How many times faster than relays that seal they have to be.
const TLS_LIMIT: f64 = 1.4;
const TLS: &str = "tls";
const RELAYS: &str = "two relays with buffers of 256 KiB";
const TLS_RELAYS: &str = "two haproxy with mTLS, one thread each, buffers of 256 KiB";
/// Messages of the first, thorough burst.
const THOROUGH: u64 = 8;
/// Sidecars that do not connect by then never will.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(20);

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let ids = [relay::NAME, TLS].map(|peer| RowId::new("pair", BYTES).beside(peer));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let route = Route::best();
    let [_, there] = &route.hosts;
    let listener = there.visit(|| Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?))?;
    let target = listener.local_addr()?.port();
    let world = World::with_sessions(&[Session::Forwarded { target }])?;
    let mut sidecars = Sidecars::start(&bench.programs.sidecar, &world, &route)?;
    measure(bench, ids, &route, &listener, &mut sidecars).map_err(|error| sidecars.explain(error))
}

fn measure(
    bench: &mut Bench<'_>,
    [plain_id, tls_id]: [RowId; 2],
    route: &Route,
    listener: &TcpListener,
    sidecars: &mut Sidecars,
) -> Ran {
    let [here, _] = &route.hosts;
    let (port, target) = (listener.local_addr()?.port(), bench.plan.lane_sample);
    let connected = |address: SocketAddr| here.visit(|| Ok(TcpStream::connect(address)?));
    let burst = |stream| Burst::new(Stream::new(stream, listener)?, target);
    let ours = burst(connect(here, sidecars)?)?;
    let relays = Relays::start(route, port)?;
    let relayed = burst(connected(relays.address)?)?;
    let tls = match Relay::Haproxy.version() {
        Err(error) => {
            bench.missing(Missing::new(&tls_id.0, format!("{error:#}")));
            None
        }
        Ok(version) => {
            let relays = TlsRelays::start(Relay::Haproxy, route, &Material::new(route)?, port)?;
            Some((burst(connected(relays.near)?)?, relays, version))
        }
    };
    let contenders = [Some(&ours), Some(&relayed), tls.as_ref().map(|(burst, ..)| burst)];
    let contenders = contenders.into_iter().flatten().map(Burst::contender).collect();
    let (series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let (ours_series, theirs) = series.split_first().context("a contender without a series")?;
    let version = tls.as_ref().map_or("", |(.., version)| version.as_str());
    let peers = [
        (plain_id, RELAYS, RELAY_LIMIT, "relays are threads of the program that measures"),
        (tls_id, TLS_RELAYS, TLS_LIMIT, version),
    ];
    for ((id, peer, limit, words), theirs) in peers.into_iter().zip(theirs) {
        let caption = Caption {
            id,
            suite: Suite::Pair.word(),
            name: format!("{BYTES} B through a TCP connection that two sidecars carry"),
            unit: Unit::GigabytesPerSecond,
            better: Better::Higher,
            peer: Some(peer.to_owned()),
            limits: vec![(Subject::Ratio, limit)],
            doubt: None,
            note: format!(
                "{}; both ends of all connections are in the program that measures; {words}",
                route.note
            ),
        };
        bench.row(caption.row(ours_series, Some(theirs), &control));
    }
    drop((ours, relayed, tls));
    relays.join();
    Ok(())
}

/// Connects to the forwarded port as soon as somebody listens there: when the sidecars have proved themselves.
fn connect(here: &Host, sidecars: &mut Sidecars) -> Result<TcpStream> {
    let (began, address) = (Instant::now(), sidecars.forward);
    loop {
        match here.visit(|| Ok(TcpStream::connect(address)?)) {
            Ok(stream) => return Ok(stream),
            Err(error) if began.elapsed() > PATIENCE => {
                return Err(error).context("nobody listens at the forwarded port");
            }
            Err(_) => {
                ensure!(sidecars.run(), "a sidecar ended");
                thread::sleep(AGAIN);
            }
        }
    }
}

/// Who comes through what lies in the path, unless that fails.
fn accept(listener: &TcpListener) -> Result<TcpStream> {
    let began = Instant::now();
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
            Err(_) => ensure!(began.elapsed() < PATIENCE, "nobody came through the path"),
        }
        thread::sleep(AGAIN);
    }
}

/// Both ends of a TCP connection with something in its path.
struct Stream {
    put: TcpStream,
    take: TcpStream,
    payloads: Payloads,
    inbox: Inbox,
    next: u64,
}

impl Stream {
    fn new(put: TcpStream, listener: &TcpListener) -> Result<Self> {
        let take = accept(listener)?;
        put.set_nodelay(true)?;
        let payloads = Payloads::new(BYTES);
        Ok(Self { put, take, inbox: Inbox::new(payloads.clone()), payloads, next: 0 })
    }

    /// Sends `count` messages; the time runs until the last byte is in memory.
    fn burst(&mut self, count: u64, thorough: bool) -> Result<(Duration, Option<String>)> {
        let Self { put, take, payloads, inbox, next } = self;
        let first = *next;
        *next += count;
        inbox.be_thorough(thorough);
        let began = Instant::now();
        let took = thread::scope(|scope| {
            let putting = scope.spawn(|| -> Result<()> {
                for number in first..first + count {
                    put.write_all(payloads.message(number))?;
                }
                Ok(())
            });
            for _ in 0..count {
                take.read_exact(inbox.space(0)).context("taking a message")?;
                inbox.finish();
            }
            let took = began.elapsed();
            putting.join().map_err(|_| anyhow!("the putting end panicked"))??;
            anyhow::Ok(took)
        })?;
        Ok((took, inbox.take_wrong()))
    }
}

/// Bursts of about the wanted duration.
struct Burst {
    stream: RefCell<Stream>,
    count: u64,
    /// What the first burst, of which every byte was compared, showed.
    wrong: RefCell<Option<String>>,
}

impl Burst {
    fn new(mut stream: Stream, target: Duration) -> Result<Self> {
        let (_, wrong) = stream.burst(THOROUGH, true)?;
        let (took, _) = stream.burst(THOROUGH, false)?;
        let count = THOROUGH as f64 * target.as_secs_f64() / took.as_secs_f64().max(1e-9);
        Ok(Self { stream: RefCell::new(stream), count: count.max(1.0) as u64, wrong: RefCell::new(wrong) })
    }

    fn contender(&self) -> Contender<'_> {
        Box::new(|| {
            let (took, wrong) = self.stream.borrow_mut().burst(self.count, false)?;
            let value = BYTES as f64 * self.count as f64 / 1e9 / took.as_secs_f64();
            let wrong = self.wrong.borrow_mut().take().or(wrong);
            Ok(Sample { value, latencies: Vec::new(), wrong })
        })
    }
}

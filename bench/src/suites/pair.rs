//! A TCP connection that two sidecars carry, against one that two relays pass on: what sealing costs where something has to
//! stand in the path anyway.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contender, Contest, Sample};
use crate::message::{Inbox, Payloads};
use crate::peer::relay::{self, Relays};
use crate::plan::Suite;
use crate::programs::{Route, Sidecars};
use crate::row::{Better, RowId, Subject, Unit};
use crate::world::{Session, World};

/// Bytes of a message.
const BYTES: usize = 1_048_576;
/// How many times faster than the relays two sidecars have to be.
const LIMIT: f64 = 1.4;
const PEER: &str = "two relays with buffers of 256 KiB";
/// Messages of the first, thorough burst.
const THOROUGH: u64 = 8;
/// Sidecars that do not connect by then never will.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(20);

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let id = RowId::new("pair", BYTES).beside(relay::NAME);
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let target = listener.local_addr()?.port();
    let world = World::with_sessions(&[Session::Forwarded { target }])?;
    let mut sidecars = Sidecars::start(&bench.programs.sidecar, &world, &Route::loopback(""))?;
    measure(bench, id, &listener, &mut sidecars).map_err(|error| sidecars.explain(error))
}

fn measure(bench: &mut Bench<'_>, id: RowId, listener: &TcpListener, sidecars: &mut Sidecars) -> Ran {
    let dialled = connect(sidecars)?;
    let carried = Stream::new(dialled, listener)?;
    let relays = Relays::start(listener.local_addr()?)?;
    let relayed = Stream::new(TcpStream::connect(relays.address)?, listener)?;
    let target = bench.plan.lane_sample;
    let (first, second) = (Burst::new(carried, target)?, Burst::new(relayed, target)?);
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contest = Contest::hold(warmups, rounds, [first.contender(), second.contender()])?;
    let [ours, theirs] = &contest.series;
    let caption = Caption {
        id,
        suite: Suite::Pair.word(),
        name: format!("{BYTES} B through a TCP connection that two sidecars carry"),
        unit: Unit::GigabytesPerSecond,
        better: Better::Higher,
        peer: Some(PEER.to_owned()),
        limits: vec![(Subject::Ratio, LIMIT)],
        doubt: None,
        note: "loopback; sidecars are processes, relays threads of the program that measures, and both ends of both \
               connections are in it too"
            .to_owned(),
    };
    bench.row(caption.row(ours, Some(theirs), &contest.control));
    drop((first, second));
    relays.join();
    Ok(())
}

/// Connects to the forwarded port as soon as somebody listens there: when the sidecars have proved themselves.
fn connect(sidecars: &mut Sidecars) -> Result<TcpStream> {
    let began = Instant::now();
    loop {
        match TcpStream::connect(sidecars.forward) {
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
        let (take, _) = listener.accept()?;
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

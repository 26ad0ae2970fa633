//! The program that opens accepting ends for a run elsewhere.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::contender::{Contender, ours};
use super::lines::{Answer, Challenge, Hello, Purpose, Welcome, hear, hear_exactly, say};
use super::token::{Prover, Token, nonce};
use crate::carrier::Plug;
use crate::message::Payloads;
use crate::ours::OverUdp;
use crate::peer::plaintext::Plaintext;
use crate::peer::quic::Quic;
use crate::peer::tls::Tls;
use crate::peer::transport::Transport;
use crate::wire::{End, Order, Side};
use crate::world::World;

/// Connections at the same time that have not shown that they are of the run.
const STRANGERS_MAX: usize = 64;
/// How long one may take to show it.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// Bytes of a message: an end holds eight of them.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Wait after the kernel gave no connection.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the connection for data may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the threads of a server share.
#[derive(Debug)]
struct Shared {
    token: Token,
    /// Ends that wait for their connection for data.
    waiting: Mutex<BTreeMap<u64, Sender<TcpStream>>>,
    next: AtomicU64,
    strangers: AtomicUsize,
    over: Sender<()>,
}

/// Answers on `listener` until a run says that it is over.
///
/// # Errors
/// The socket's.
pub(crate) fn serve(listener: TcpListener, token: Token) -> Result<()> {
    let (over, ended) = channel();
    let shared = Arc::new(Shared {
        token,
        waiting: Mutex::default(),
        next: AtomicU64::new(0),
        strangers: AtomicUsize::new(0),
        over,
    });
    let accepting = std::thread::Builder::new().name("accepting".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => admit(&shared, stream),
                // As when descriptors run out, which passes.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    });
    // Its thread ends with the program.
    drop(accepting.context("starting a thread")?);
    ended.recv().context("nobody accepts any more")
}

/// Lets a thread of its own answer, if there is room for one.
fn admit(shared: &Arc<Shared>, stream: TcpStream) {
    let of_thread = Arc::clone(shared);
    let Some(place) = Place::take(shared) else { return };
    let work = move || {
        // What goes wrong is told to the other side, as far as it is one of the run's.
        let _ = answer(&of_thread, stream, place);
    };
    // A thread that cannot be started leaves its place, and its connection closes.
    let _ = std::thread::Builder::new().name("connection".to_owned()).spawn(work);
}

/// One of few places for connections that have not shown who they are.
struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let place = Self(Arc::clone(shared));
        (shared.strangers.fetch_add(1, Ordering::Relaxed) < STRANGERS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.strangers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(shared: &Shared, mut stream: TcpStream, place: Place) -> Result<()> {
    stream.set_nodelay(true)?;
    let ours = nonce()?;
    say(&mut stream, &Challenge { nonce: ours.clone() })?;
    let Hello { nonce: theirs, purpose, proof } = hear_exactly(&mut stream, Instant::now() + GREETING_MAX)?;
    let nonces = [ours.as_str(), theirs.as_str()];
    ensure!(shared.token.proves(&proof, Prover::Client, nonces, &purpose), "a stranger");
    drop(place);
    say(&mut stream, &Welcome { proof: shared.token.proof(Prover::Server, nonces, &purpose) })?;
    match serde_json::from_str(&purpose)? {
        Purpose::Data { number } => {
            let waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            waiting.context("nobody waits for this number")?.send(stream)?;
            Ok(())
        }
        Purpose::Stop => {
            say(&mut stream, &Answer::Done { wrong: None })?;
            shared.over.send(()).map_err(|_| anyhow!("the server is over already"))
        }
        Purpose::Orders { contender, bytes } => {
            let done = follow(shared, &mut stream, *contender, bytes);
            if let Err(error) = &done {
                say(&mut stream, &Answer::Failed { why: format!("{error:#}") })?;
            }
            done
        }
    }
}

/// Opens an end and has it follow orders until the other side is gone.
fn follow(shared: &Shared, orders: &mut TcpStream, contender: Contender, bytes: usize) -> Result<()> {
    ensure!((1..=MESSAGE_BYTES_MAX).contains(&bytes), "messages of {bytes} bytes are not taken");
    let plug =
        if contender.needs_datagrams() { datagrams(orders)? } else { Plug::Tcp(data(shared, orders)?) };
    let end = open(contender, plug, Payloads::new(bytes))?;
    let mut lines = BufReader::new(orders.try_clone()?);
    loop {
        let wrong = end.done()?.wrong;
        say(orders, &Answer::Done { wrong })?;
        match hear::<Order>(&mut lines)? {
            Some(order) => end.order(order),
            None => return Ok(()),
        }
    }
}

/// A socket for datagrams, at the address that the orders came to.
fn datagrams(orders: &mut TcpStream) -> Result<Plug> {
    let socket = UdpSocket::bind((orders.local_addr()?.ip(), 0))?;
    let port = socket.local_addr()?.port();
    say(orders, &Answer::Waiting { number: 0, port: Some(port) })?;
    Ok(Plug::Udp { socket, remote: orders.peer_addr()? })
}

/// The connection for data that belongs to these orders.
fn data(shared: &Shared, orders: &mut TcpStream) -> Result<TcpStream> {
    let number = shared.next.fetch_add(1, Ordering::Relaxed);
    let (sender, receiver): (_, Receiver<TcpStream>) = channel();
    let waiting = || shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting().insert(number, sender);
    let come = say(orders, &Answer::Waiting { number, port: None }).map(|()| receiver.recv_timeout(PATIENCE));
    waiting().remove(&number);
    let data = match come? {
        Ok(data) => data,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            bail!("no connection for data came within {} s", PATIENCE.as_secs())
        }
    };
    data.set_nonblocking(true)?;
    Ok(data)
}

fn open(contender: Contender, plug: Plug, payloads: Payloads) -> Result<End> {
    let side = Side::Accepter;
    match contender {
        Contender::Ours { cipher, world } => {
            End::start(ours(&Arc::new(World::join(world)?), cipher)?, plug, side, payloads)
        }
        Contender::OursOverUdp { cipher, world, answer } => {
            let ours = ours(&Arc::new(World::join(world)?), cipher)?;
            End::start(OverUdp::new(ours, true, answer), plug, side, payloads)
        }
        Contender::Plaintext => End::start(Plaintext, plug, side, payloads),
        Contender::Tls(shared) => End::start(Tls::join(&shared)?, plug, side, payloads),
        Contender::Quinn(shared) => End::start(Quic::new(shared), plug, side, payloads),
        Contender::ConfidentialMlTransport => End::start(Transport, plug, side, payloads),
    }
}

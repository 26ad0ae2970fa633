//! The program that opens accepting ends for a run elsewhere.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::contender::{Contender, ours};
use super::lines::{Answer, Purpose, hear, hear_first, say};
use super::token::Token;
use crate::carrier::Plug;
use crate::message::Payloads;
use crate::peer::plaintext::Plaintext;
use crate::peer::tls::Tls;
use crate::peer::transport::Transport;
use crate::wire::{End, Order, Side};
use crate::world::World;

/// Connections at the same time: a suite has a few contenders with two each.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of a message: an end holds eight of them.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// How long the first line, or the connection for data, may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the threads of a server share.
#[derive(Debug)]
struct Shared {
    token: Token,
    /// Ends that wait for their connection for data.
    waiting: Mutex<BTreeMap<u64, Sender<TcpStream>>>,
    next: AtomicU64,
    connections: AtomicUsize,
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
        connections: AtomicUsize::new(0),
        over,
    });
    let accepting = std::thread::Builder::new().name("accepting".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            admit(&shared, stream);
        }
    });
    // Its thread ends with the program.
    drop(accepting.context("starting a thread")?);
    ended.recv().context("nobody accepts any more")
}

/// Lets a thread of its own answer, if there is room for one.
fn admit(shared: &Arc<Shared>, stream: TcpStream) {
    if shared.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
        shared.connections.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let of_thread = Arc::clone(shared);
    let work = move || {
        // What goes wrong is told to the other side, as far as it is one of the run's.
        let _ = answer(&of_thread, stream);
        of_thread.connections.fetch_sub(1, Ordering::Relaxed);
    };
    if std::thread::Builder::new().name("connection".to_owned()).spawn(work).is_err() {
        shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(shared: &Shared, mut stream: TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let hello = hear_first(&mut stream)?;
    ensure!(shared.token.is(&hello.token), "a stranger");
    stream.set_read_timeout(None)?;
    match hello.purpose {
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
            let done = follow(shared, &mut stream, contender, bytes);
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
    let data = data(shared, orders)?;
    let end = open(contender, Plug::Tcp(data), Payloads::new(bytes))?;
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

/// The connection for data that belongs to these orders.
fn data(shared: &Shared, orders: &mut TcpStream) -> Result<TcpStream> {
    let number = shared.next.fetch_add(1, Ordering::Relaxed);
    let (sender, receiver): (_, Receiver<TcpStream>) = channel();
    let waiting = || shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting().insert(number, sender);
    let come = say(orders, &Answer::Waiting { number }).map(|()| receiver.recv_timeout(PATIENCE));
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
        Contender::Plaintext => End::start(Plaintext, plug, side, payloads),
        Contender::Tls(shared) => End::start(Tls::join(&shared)?, plug, side, payloads),
        Contender::ConfidentialMlTransport => End::start(Transport, plug, side, payloads),
    }
}

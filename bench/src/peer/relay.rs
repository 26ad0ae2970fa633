//! Two relays in a row that pass on what they read: what any pair of programs in the path costs that does nothing to the
//! bytes.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{Builder, JoinHandle};

use anyhow::Result;

/// The name that a row's id carries.
pub(crate) const NAME: &str = "relay";
/// What each relay reads at once.
const BUFFER_BYTES: usize = 256 << 10;

/// A pair of relays before some address. Each has a thread, and ends when what it reads from does.
#[derive(Debug)]
pub(crate) struct Relays {
    /// Where the pair is connected to.
    pub(crate) address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Relays {
    /// Two relays before `target`, for one connection.
    pub(crate) fn start(target: SocketAddr) -> Result<Self> {
        let (mut address, mut threads) = (target, Vec::new());
        for place in ["far", "near"] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let (next, own) = (address, listener.local_addr()?);
            let work = move || {
                // Whoever reads behind it learns of an error by the end of its stream.
                let _ = relay(&listener, next);
            };
            threads.push(Builder::new().name(format!("relay-{place}")).spawn(work)?);
            address = own;
        }
        Ok(Self { address, threads })
    }

    /// Waits until both are gone, after the connection was closed.
    pub(crate) fn join(self) {
        for thread in self.threads {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

fn relay(listener: &TcpListener, target: SocketAddr) -> io::Result<()> {
    let (mut from, _) = listener.accept()?;
    let mut to = TcpStream::connect(target)?;
    to.set_nodelay(true)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
    }
}

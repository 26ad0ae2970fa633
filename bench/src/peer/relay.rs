//! Two relays in a row that pass on what they read: what any pair of programs in the path costs that does nothing to the
//! bytes.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{Builder, JoinHandle};

use anyhow::Result;

use crate::programs::Route;

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
    /// One relay on each host, for one connection to `target`, a port of the receiving host's loopback.
    pub(crate) fn start(route: &Route, target: u16) -> Result<Self> {
        let [here, there] = &route.hosts;
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (mut address, mut threads) = (SocketAddr::new(local, target), Vec::new());
        for (place, host, own) in [("far", there, there.address), ("near", here, local)] {
            let listener = host.visit(|| Ok(TcpListener::bind((own, 0))?))?;
            let (host, next, own) = (host.clone(), address, listener.local_addr()?);
            let work = move || {
                // Whoever reads behind it learns of an error by the end of its stream.
                let _ = host.visit(|| Ok(relay(&listener, next)?));
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

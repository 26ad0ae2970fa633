//! One stranger's connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use sealane_attestation::binding::{Leaf, Tree};
use sealane_attestation::{Evidence, EvidenceMessage, Format, TrustConfiguration};
use sealane_protocol::Moment;
use sealane_protocol::connection::{Connection, Event, Local, Places, PolicyView, Setup, Sink, Timing};
use sealane_protocol::frame::Frame;
use sealane_protocol::handshake::{Floor, Kind as ConnectionKind, Suite};
use sealane_protocol::keys::{MlKem768, StaticKey};
use sealane_protocol::limits::LIFE_MICROS;
use sealane_protocol::record::{InputBuffer, Rekey};
use sealane_types::{Cipher, Digest, Reason, RootSource, Roots};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::random::SystemRandom;
use crate::world::{NAMESPACE, SESSION, Who};

/// Bytes of a hello that never ends.
const BEGINNING_BYTES: usize = 16;
/// Evidence that is as long as genuine evidence and says nothing.
const GARBAGE_BYTES: usize = 1_184;

/// How far a stranger goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Connects, and says nothing.
    Silent,
    /// Begins a hello, and does not end it.
    Beginning,
    /// Shakes hands, and sends garbage as evidence.
    Garbage,
    /// Shakes hands, and never proves anything.
    Unproved,
}

impl Kind {
    pub(super) const fn of(number: u32) -> Self {
        match number % 4 {
            0 => Self::Silent,
            1 => Self::Beginning,
            2 => Self::Garbage,
            _ => Self::Unproved,
        }
    }
}

/// Something that a tally counts on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Connected,
    AskedForEvidence,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    NotConnected,
    ClosedAtOnce,
    ClosedLater,
    Established,
}

/// What all strangers share.
#[derive(Debug)]
pub(super) struct Plan {
    local: Local,
    policy: Digest,
}

/// Nothing of a stream ever comes to a stranger.
struct Nothing;

impl Sink for Nothing {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        Err(Reason::Unspecified)
    }
}

impl Plan {
    pub(super) fn new(epoch: u64, digest: Digest) -> Result<Self> {
        let floor = Floor { post_quantum: true, ciphers: Cipher::ALL.to_vec() };
        let roots = Roots {
            namespace: NAMESPACE.parse()?,
            policy: NAMESPACE.parse()?,
            threshold: 1,
            keys: Vec::new(),
            minimum_epoch: 1,
        };
        let trust = TrustConfiguration { source: RootSource::File, roots, simulation: false };
        let local = Local {
            static_key: Arc::new(StaticKey::generate(&mut SystemRandom)?),
            peer: Who::Sender.peer().parse()?,
            pod: Who::Sender.pod()?,
            policy: PolicyView { epoch, digest, floor, life_micros: LIFE_MICROS },
            trust: Arc::new(trust),
            suites: Suite::offer(&[Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305], false),
            rekey: Rekey::default(),
            timing: Timing::default(),
            kem: Arc::new(MlKem768),
            links: false,
            places: Places::new(0),
        };
        Ok(Self { local, policy: digest })
    }

    pub(super) async fn attempt(
        &self,
        source: Ipv4Addr,
        target: SocketAddr,
        kind: Kind,
        mut on_step: impl FnMut(Step),
    ) -> Ending {
        let Ok(mut stream) = connect(source, target).await else { return Ending::NotConnected };
        on_step(Step::Connected);
        // Whatever fails from here on is the other side's doing.
        match kind {
            Kind::Silent => silence(&mut stream).await,
            Kind::Beginning => {
                let Ok(hello) = self.hello() else { return Ending::NotConnected };
                let _ = stream.write_all(&hello[..BEGINNING_BYTES.min(hello.len())]).await;
                silence(&mut stream).await
            }
            Kind::Garbage | Kind::Unproved => {
                let mut answered = false;
                match self.shake(&mut stream, kind, &mut answered, &mut on_step).await {
                    Ok(()) => Ending::Established,
                    Err(_) if answered => Ending::ClosedLater,
                    Err(_) => Ending::ClosedAtOnce,
                }
            }
        }
    }

    fn begin(&self) -> Result<Connection> {
        let setup = Setup {
            local: self.local.clone(),
            kind: ConnectionKind::Full,
            expected: Who::Receiver.peer().parse()?,
            session: SESSION.parse()?,
        };
        Ok(Connection::initiate(setup, &mut SystemRandom, Moment::default())?)
    }

    fn hello(&self) -> Result<Vec<u8>> {
        Ok(self.begin()?.poll_output(Moment::default()).to_vec())
    }

    /// Returns only if the other side takes the stranger for a peer, or leaves.
    async fn shake(
        &self,
        stream: &mut TcpStream,
        kind: Kind,
        answered: &mut bool,
        on_step: &mut impl FnMut(Step),
    ) -> Result<()> {
        let began = Instant::now();
        let now = || Moment::from_micros(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        let (mut connection, mut input) = (self.begin()?, InputBuffer::new());
        loop {
            while let Some(event) = connection.poll_event() {
                match event {
                    Event::EvidenceWanted(wanted) => {
                        on_step(Step::AskedForEvidence);
                        if kind == Kind::Garbage {
                            connection.supply_evidence(&self.garbage(wanted.leaf)?)?;
                        }
                    }
                    // The responder proves itself only to whom it has accepted.
                    Event::EvidenceReceived(_) | Event::Established { .. } => return Ok(()),
                    _ => {}
                }
            }
            loop {
                let output = connection.poll_output(now());
                if output.is_empty() {
                    break;
                }
                let written = stream.write(output).await?;
                connection.output_written(written);
            }
            let read = stream.read(input.space()).await?;
            anyhow::ensure!(read > 0, "closed");
            *answered = true;
            input.filled(read);
            let used = connection.handle_input(now(), input.unread(), &mut Nothing)?;
            input.consumed(used);
        }
    }

    fn garbage(&self, leaf: Leaf) -> Result<EvidenceMessage> {
        let path = Tree::new(&[leaf])?.path(0);
        let report = vec![0xa5; GARBAGE_BYTES];
        Ok(EvidenceMessage {
            pod: self.local.pod.clone(),
            policy: self.policy,
            path: path.ok_or_else(|| anyhow::anyhow!("a tree of one leaf has a path"))?,
            evidence: Evidence { format: Format::SimulatedSevSnp, report, certificates: Vec::new() },
            workload: None,
        })
    }
}

async fn connect(source: Ipv4Addr, target: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // Only loopback has that many addresses of ours.
    if target.ip().is_loopback() {
        socket.bind((source, 0).into())?;
    }
    socket.connect(target).await
}

/// Says nothing until the other side is tired of it.
async fn silence(stream: &mut TcpStream) -> Ending {
    let began = Instant::now();
    let _ = stream.read(&mut [0; 1]).await;
    // Refused before a byte was read, or given up on after a deadline.
    if began.elapsed().as_secs() == 0 { Ending::ClosedAtOnce } else { Ending::ClosedLater }
}

//! Whoever stands between an auditor and a replica, or in its place.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::{EvidenceMessage, TrustConfiguration};
use sealane_policy::digest_of;
use sealane_protocol::Moment;
use sealane_protocol::connection::{
    AcceptSetup, Connection, Event, Local, Places, PolicyView, Setup, Sink, Timing,
};
use sealane_protocol::frame::Frame;
use sealane_protocol::handshake::{Floor, Kind, Suite};
use sealane_protocol::keys::{MlKem768, Random, RandomFailed, StaticKey};
use sealane_protocol::record::Rekey;
use sealane_types::{Cipher, PodIdentity, Reason, RootSource};
use tokio::net::TcpSocket;

use super::world::{Desk, LIMIT, Sidecar, roots};

struct Os;

impl Random for Os {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        aws_lc_rs::rand::fill(bytes).map_err(|_| RandomFailed)
    }
}

struct Nothing;

impl Sink for Nothing {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        Err(Reason::FrameMalformed)
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Takes one connection to `to`, byte for byte.
pub(crate) fn relay(to: SocketAddr) -> SocketAddr {
    let (listener, address) = listener();
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(to).unwrap();
        let copy = |from: &TcpStream, to: &TcpStream| {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            })
        };
        let (out, back) = (copy(&near, &far), copy(&far, &near));
        let _ = (out.join(), back.join());
    });
    address
}

/// Says `words` to whoever comes, and hangs up.
pub(crate) fn stranger(words: &'static [u8]) -> SocketAddr {
    let (listener, address) = listener();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // What is unread would turn the end into a reset.
        let mut hello = [0; 4096];
        let _ = stream.read(&mut hello);
        let _ = stream.write_all(words);
    });
    address
}

/// Where nobody listens, nor anybody else can while the socket lives.
pub(crate) fn nobody() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn local(sidecar: &Sidecar, key: Arc<StaticKey>, peer: &str, pod: PodIdentity) -> Local {
    let digest = digest_of(&STANDARD.decode(&sidecar.chain.document).unwrap());
    let floor = Floor { post_quantum: true, ciphers: vec![Cipher::Aes256Gcm] };
    Local {
        static_key: key,
        peer: peer.parse().unwrap(),
        pod,
        policy: PolicyView { epoch: 1, digest, ..PolicyView::none(floor) },
        trust: Arc::new(TrustConfiguration { source: RootSource::File, roots: roots(), simulation: true }),
        suites: Suite::offer(&[Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305], false),
        rekey: Rekey::default(),
        timing: Timing::default(),
        kem: Arc::new(MlKem768),
        links: false,
        places: Places::new(1),
    }
}

/// Moves bytes and hands events to `on` until it has what it wants, or the other side is gone.
fn drive<T>(
    mut stream: TcpStream,
    mut connection: Connection,
    mut on: impl FnMut(&mut Connection, Event) -> Option<T>,
) -> Option<T> {
    let (began, mut input, mut filled) = (Instant::now(), vec![0; 100_000], 0);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    loop {
        let now = Moment::from_micros(began.elapsed().as_micros() as u64);
        while let Some(event) = connection.poll_event() {
            if let Some(done) = on(&mut connection, event) {
                return Some(done);
            }
        }
        let output = connection.poll_output(now).to_vec();
        if stream.write_all(&output).is_err() || connection.is_closed() {
            return None;
        }
        connection.output_written(output.len());
        if output.is_empty() {
            match stream.read(&mut input[filled..]) {
                Ok(bytes) if bytes > 0 => filled += bytes,
                _ => return None,
            }
            let used = connection.handle_input(now, &mut input[..filled], &mut Nothing).unwrap_or(filled);
            input.copy_within(used..filled, 0);
            filled -= used;
        }
    }
}

/// What `sidecar` shows an auditor of its own, for another handshake than the one it will be used in.
pub(crate) fn capture(sidecar: &Sidecar, _: &Desk, key: Arc<StaticKey>) -> EvidenceMessage {
    let pod = PodIdentity::new("demo", "accomplice", "accomplice").unwrap();
    let local = local(sidecar, key, "accomplice", pod);
    let setup = Setup {
        local,
        kind: Kind::Audit,
        expected: "ranker".parse().unwrap(),
        session: "audit".parse().unwrap(),
    };
    let connection = Connection::initiate(setup, &mut Os, Moment::default()).unwrap();
    let stream = TcpStream::connect(sidecar.address).unwrap();
    let shown = drive(stream, connection, |_, event| match event {
        Event::EvidenceReceived(received) => Some(received.message),
        Event::Closed { reason, .. } => panic!("no evidence for the accomplice: {reason}"),
        _ => None,
    });
    shown.unwrap()
}

/// Somebody who says to be the pod of `sidecar`, and shows evidence of its that was made for another handshake.
pub(crate) fn impersonate(sidecar: &Sidecar, captured: EvidenceMessage) -> SocketAddr {
    let (listener, address) = listener();
    let key = Arc::new(StaticKey::generate(&mut Os).unwrap());
    let local = local(sidecar, key, "ranker", sidecar.pod.clone());
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let setup = AcceptSetup { local, audit: true };
        let connection = Connection::accept(setup, &mut Os, Moment::default()).unwrap();
        drive(stream, connection, |connection, event| {
            match event {
                Event::AuditorIntroduced => connection.admit_auditor().unwrap(),
                Event::EvidenceWanted(_) => connection.supply_evidence(&captured).unwrap(),
                _ => {}
            }
            None::<()>
        });
    });
    address
}

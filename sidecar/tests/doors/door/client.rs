//! A door, and a client that speaks to it byte by byte.

use std::io::{IoSliceMut, Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketType,
};
use sealane_sidecar::door::Door;
use sealane_sidecar::handoff::{self, ReplicaId};
use tokio_util::sync::CancellationToken;

use crate::loopback;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const WELCOME: u8 = 65;
pub(crate) const SEGMENT: u8 = 66;
pub(crate) const NO_SEGMENT: u8 = 67;
pub(crate) const OPENED: u8 = 68;
pub(crate) const FAILED: u8 = 69;
pub(crate) const ASSIGNED: u8 = 70;
pub(crate) const TAKEN: u8 = 71;
pub(crate) const CLOSED: u8 = 73;
/// Kind and lane of what clients hear that might have memory which others want.
const ASKED: (u8, u32) = (NO_SEGMENT, 0);
pub(crate) const SENDER: u8 = 74;
pub(crate) const DELIVER: u8 = 75;
pub(crate) const INTERRUPTED: u8 = 76;
pub(crate) const ENDED: u8 = 77;

/// Longest wait for anything; generous, because machines that run tests are busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Asks again until `condition` holds.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A door on a runtime of its own.
pub(crate) struct Served {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) drain: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn start(arena_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("door.sock");
        let drain = CancellationToken::new();
        let token = drain.clone();
        let (ready, listening) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            runtime.block_on(async {
                let (lanes, requests) = handoff::lanes();
                let door = Door::bind(&path, arena_bytes, lanes).unwrap();
                tokio::spawn(loopback::serve(requests, ReplicaId([7; 16])));
                ready.send(()).unwrap();
                door.serve(token).await;
            });
        });
        listening.recv().unwrap();
        Self { folder, drain, thread: Some(thread) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("door.sock")
    }

    pub(crate) fn client(&self) -> Client {
        let client = Client::connect(&self.path());
        client.try_hello().unwrap();
        assert_eq!(client.hear().kind, WELCOME);
        client
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.drain.cancel();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        assert!(!self.path().exists(), "the socket goes with the door");
    }
}

pub(crate) struct Client {
    socket: OwnedFd,
}

#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) lane: u32,
    pub(crate) body: Vec<u8>,
    pub(crate) file: Option<OwnedFd>,
}

impl Heard {
    pub(crate) fn number(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.body[offset..offset + 8].try_into().unwrap())
    }

    pub(crate) fn short(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.body[offset..offset + 4].try_into().unwrap())
    }

    pub(crate) fn words(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(crate) fn connect(path: &Path) -> Self {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        let wait = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, wait, Some(LIMIT)).unwrap();
        Self { socket }
    }

    pub(crate) fn say(&self, kind: u8, flags: u8, count: u16, lane: u32, parts: &[&[u8]]) {
        self.try_say(kind, flags, count, lane, parts).unwrap();
    }

    pub(crate) fn try_say(
        &self,
        kind: u8,
        flags: u8,
        count: u16,
        lane: u32,
        parts: &[&[u8]],
    ) -> Result<(), Errno> {
        let mut packet = vec![kind, flags];
        packet.extend(count.to_le_bytes());
        packet.extend(lane.to_le_bytes());
        parts.iter().for_each(|part| packet.extend_from_slice(part));
        rustix::net::send(&self.socket, &packet, SendFlags::NOSIGNAL).map(drop)
    }

    pub(crate) fn try_hello(&self) -> Result<(), Errno> {
        self.try_say(1, 0, 0, 0, &[b"SEALANE\n", &[1, 0, 1, 0][..], &[4], b"test"])
    }

    /// The next message; kind 0 when the sidecar hung up.
    pub(crate) fn hear(&self) -> Heard {
        self.try_hear().unwrap()
    }

    pub(crate) fn try_hear(&self) -> Result<Heard, Errno> {
        let mut packet = vec![0; 65_536];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut packet)];
        // A process that was stopped and goes on finds the call interrupted, since the socket has a timeout (signal(7)).
        let received = retry_on_intr(|| {
            rustix::net::recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        packet.truncate(received.bytes);
        let Some((head, body)) = packet.split_first_chunk::<8>() else {
            return Ok(Heard { kind: 0, flags: 0, lane: 0, body: vec![], file: None });
        };
        let lane = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        Ok(Heard { kind: head[0], flags: head[1], lane, body: body.to_vec(), file })
    }

    /// The next message but for segments to take from, which come when they are made.
    pub(crate) fn expect(&self, kind: u8) -> Heard {
        loop {
            let heard = self.hear();
            if heard.kind == kind {
                return heard;
            }
            if (heard.kind, heard.lane) == ASKED {
                continue;
            }
            assert_eq!((heard.kind, heard.flags), (SEGMENT, 1), "{heard:?} {}", heard.words());
        }
    }

    pub(crate) fn open(&self, lane: u32, receive: bool, session: &str) -> Heard {
        self.ask(lane, receive, session);
        self.hear_of(lane)
    }

    /// Asks for a lane.
    pub(crate) fn ask(&self, lane: u32, receive: bool, session: &str) {
        let name = session.as_bytes();
        let incarnation = if receive { [0; 16] } else { [lane as u8; 16] };
        // Milliseconds: a session that is never ready is waited for in vain.
        let wait: u32 = if session == loopback::NEVER_READY { 500 } else { LIMIT.as_millis() as u32 };
        let wait = wait.to_le_bytes();
        self.say(3, u8::from(receive), 0, lane, &[&incarnation, &[0; 8], &wait, &[name.len() as u8], name]);
    }

    /// The next message that is not a segment.
    pub(crate) fn hear_of(&self, lane: u32) -> Heard {
        loop {
            let heard = self.hear();
            if heard.kind != SEGMENT && (heard.kind, heard.lane) != ASKED {
                assert_eq!(heard.lane, lane, "{heard:?}");
                return heard;
            }
        }
    }

    pub(crate) fn put(&self, lane: u32, entries: &[Vec<u8>]) {
        let parts: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
        self.say(4, 0, entries.len() as u16, lane, &parts);
    }

    pub(crate) fn segment(&self, lane: u32, bytes: u64) -> Heard {
        self.say(2, 0, 0, lane, &[&bytes.to_le_bytes()]);
        self.expect(SEGMENT)
    }
}

/// A `PUT` entry of uint8 without a name.
pub(crate) fn entry(sequence: u64, segment: u32, offset: u64, length: u64) -> Vec<u8> {
    let mut entry = Vec::new();
    [sequence, offset, length].iter().for_each(|number| entry.extend(number.to_le_bytes()));
    entry.extend(segment.to_le_bytes());
    entry.extend([1, 1, 0, 0, 0, 0, 0, 0]);
    entry.extend(length.to_le_bytes());
    entry
}

pub(crate) fn read(file: &OwnedFd, offset: u64, bytes: usize) -> Vec<u8> {
    let mut file = std::fs::File::from(file.try_clone().unwrap());
    file.seek(SeekFrom::Start(offset)).unwrap();
    let mut into = vec![0; bytes];
    file.read_exact(&mut into).unwrap();
    into
}

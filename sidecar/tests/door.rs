//! The door from a client's side, over its real socket and segments, with sessions that loop back.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail where they stand")]

use std::io::{IoSliceMut, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketType,
};
use sealane_sidecar::door::{Door, DoorError};
use sealane_sidecar::handoff::{self, ReplicaId};
use tokio_util::sync::CancellationToken;

#[path = "../examples/door_loopback/loopback.rs"]
mod loopback;

const MIB: u64 = 1 << 20;
const WELCOME: u8 = 65;
const SEGMENT: u8 = 66;
const NO_SEGMENT: u8 = 67;
const OPENED: u8 = 68;
const FAILED: u8 = 69;
const ASSIGNED: u8 = 70;
const TAKEN: u8 = 71;
const CLOSED: u8 = 73;
const SENDER: u8 = 74;
const DELIVER: u8 = 75;
const INTERRUPTED: u8 = 76;
const ENDED: u8 = 77;

/// A door on a runtime of its own.
struct Served {
    folder: tempfile::TempDir,
    drain: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start(arena_bytes: u64) -> Self {
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

    fn path(&self) -> PathBuf {
        self.folder.path().join("door.sock")
    }

    fn client(&self) -> Client {
        let client = Client::connect(&self.path());
        client.say(1, 0, 0, 0, &[b"SEALANE\n", &[1, 0, 1, 0][..], &[4], b"test"]);
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

struct Client {
    socket: OwnedFd,
}

#[derive(Debug)]
struct Heard {
    kind: u8,
    flags: u8,
    lane: u32,
    body: Vec<u8>,
    file: Option<OwnedFd>,
}

impl Heard {
    fn number(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.body[offset..offset + 8].try_into().unwrap())
    }

    fn short(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.body[offset..offset + 4].try_into().unwrap())
    }

    fn words(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    fn connect(path: &Path) -> Self {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        let wait = Some(Duration::from_secs(20));
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, wait).unwrap();
        Self { socket }
    }

    fn say(&self, kind: u8, flags: u8, count: u16, lane: u32, parts: &[&[u8]]) {
        let mut packet = vec![kind, flags];
        packet.extend(count.to_le_bytes());
        packet.extend(lane.to_le_bytes());
        parts.iter().for_each(|part| packet.extend_from_slice(part));
        rustix::net::send(&self.socket, &packet, SendFlags::NOSIGNAL).unwrap();
    }

    /// The next message; kind 0 when the sidecar hung up.
    fn hear(&self) -> Heard {
        let mut packet = vec![0; 65_536];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut packet)];
        let received =
            rustix::net::recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        packet.truncate(received.bytes);
        let Some((head, body)) = packet.split_first_chunk::<8>() else {
            return Heard { kind: 0, flags: 0, lane: 0, body: vec![], file: None };
        };
        let lane = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        Heard { kind: head[0], flags: head[1], lane, body: body.to_vec(), file }
    }

    /// The next message but for segments to take from, which come when they are made.
    fn expect(&self, kind: u8) -> Heard {
        loop {
            let heard = self.hear();
            if heard.kind == kind {
                return heard;
            }
            assert_eq!((heard.kind, heard.flags), (SEGMENT, 1), "{heard:?} {}", heard.words());
        }
    }

    fn open(&self, lane: u32, receive: bool, session: &str) -> Heard {
        let name = session.as_bytes();
        let incarnation = if receive { [0; 16] } else { [lane as u8; 16] };
        let wait = 500_u32.to_le_bytes();
        self.say(3, u8::from(receive), 0, lane, &[&incarnation, &[0; 8], &wait, &[name.len() as u8], name]);
        self.hear_of(lane)
    }

    /// The next message that is not a segment.
    fn hear_of(&self, lane: u32) -> Heard {
        loop {
            let heard = self.hear();
            if heard.kind != SEGMENT {
                assert_eq!(heard.lane, lane, "{heard:?}");
                return heard;
            }
        }
    }

    fn put(&self, lane: u32, entries: &[Vec<u8>]) {
        let parts: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
        self.say(4, 0, entries.len() as u16, lane, &parts);
    }

    fn segment(&self, lane: u32, bytes: u64) -> Heard {
        self.say(2, 0, 0, lane, &[&bytes.to_le_bytes()]);
        self.expect(SEGMENT)
    }
}

/// A `PUT` entry of uint8 without a name.
fn entry(sequence: u64, segment: u32, offset: u64, length: u64) -> Vec<u8> {
    let mut entry = Vec::new();
    [sequence, offset, length].iter().for_each(|number| entry.extend(number.to_le_bytes()));
    entry.extend(segment.to_le_bytes());
    entry.extend([1, 1, 0, 0, 0, 0, 0, 0]);
    entry.extend(length.to_le_bytes());
    entry
}

fn read(file: &OwnedFd, offset: u64, bytes: usize) -> Vec<u8> {
    let mut file = std::fs::File::from(file.try_clone().unwrap());
    file.seek(SeekFrom::Start(offset)).unwrap();
    let mut into = vec![0; bytes];
    file.read_exact(&mut into).unwrap();
    into
}

#[test]
fn a_tensor_crosses_and_every_step_is_told() {
    let served = Served::start(64 * MIB);
    let (putting, taking) = (served.client(), served.client());
    assert_eq!(taking.open(1, true, "crossing").kind, OPENED);
    assert_eq!(putting.open(1, false, "crossing").kind, OPENED);

    let segment = putting.segment(1, MIB);
    let mut file = std::fs::File::from(segment.file.as_ref().unwrap().try_clone().unwrap());
    assert_eq!(file.metadata().unwrap().len(), MIB);
    assert!(file.set_len(1).is_err(), "its size is sealed");
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(b"activations").unwrap();
    putting.put(1, &[entry(0, segment.short(0), 4096, 11), entry(1, 0, 0, 0)]);

    let mut places = std::collections::HashMap::new();
    let mut delivered = Vec::new();
    while delivered.len() < 2 {
        let heard = taking.hear();
        match heard.kind {
            SEGMENT => {
                assert_eq!(heard.flags, 1, "for taking");
                places.insert(heard.short(0), heard.file.unwrap());
            }
            SENDER => assert!(heard.words().contains("loopback/0101")),
            DELIVER => {
                let (mut at, end) = (0, heard.body.len());
                while at < end {
                    let entry = [0, 8, 16, 24].map(|field| heard.number(at + field));
                    delivered.push((entry, heard.short(at + 32)));
                    at += 44 + 8;
                }
            }
            kind => panic!("kind {kind}"),
        }
    }
    let ([first, 0, offset, 11], segment) = delivered[0] else { panic!("{delivered:?}") };
    assert_eq!(read(&places[&segment], offset, 11), b"activations");
    let ([second, 1, 0, 0], 0) = delivered[1] else { panic!("{delivered:?}") };

    assert_eq!(putting.expect(ASSIGNED).number(0), 0);
    taking.say(6, 0, 2, 1, &[&first.to_le_bytes(), &second.to_le_bytes()]);
    let mut taken = 0;
    while taken < 2 {
        let heard = putting.hear();
        if heard.kind == TAKEN {
            taken += heard.number(8) - heard.number(0) + 1;
        }
    }
    taking.say(7, 0, 2, 1, &[&first.to_le_bytes(), &second.to_le_bytes()]);
    putting.say(5, 0, 0, 1, &[]);
    putting.expect(CLOSED);
    taking.expect(ENDED);
}

#[test]
fn lanes_that_do_not_open_say_why() {
    let served = Served::start(64 * MIB);
    let client = served.client();
    let (not_ready, refused) =
        (client.open(1, false, loopback::NEVER_READY), client.open(2, true, loopback::REFUSED));
    assert_eq!((not_ready.kind, not_ready.flags, not_ready.lane), (FAILED, 1, 1));
    assert!(not_ready.words().contains("NoReplicas"));
    assert_eq!((refused.kind, refused.flags, refused.lane), (FAILED, 2, 2));
    assert!(refused.words().contains("PeerNotInPolicy"));
}

#[test]
fn a_client_that_lies_hurts_only_itself() {
    let served = Served::start(64 * MIB);
    let (honest, liar) = (served.client(), served.client());
    assert_eq!(honest.open(1, true, "lies").kind, OPENED);
    assert_eq!(liar.open(1, false, "lies").kind, OPENED);
    let segment = liar.segment(1, MIB).short(0);
    liar.put(1, &[entry(0, segment, MIB - 1, 2)]);
    let last = liar.expect(FAILED);
    assert_eq!((last.lane, last.flags), (0, 4));
    assert!(last.words().contains("do not lie within"));
    assert_eq!(liar.hear().kind, 0, "and it hung up");
    // To the receiver it is a sender that died.
    assert_eq!(honest.expect(INTERRUPTED).lane, 1);
    assert_eq!(honest.open(2, false, "others").kind, OPENED);
}

#[test]
fn memory_is_bounded_and_returns() {
    let served = Served::start(16 * MIB);
    let client = served.client();
    let segments: Vec<u32> = (0..3).map(|_| client.segment(1, 4 * MIB).short(0)).collect();
    client.say(2, 0, 0, 1, &[&MIB.to_le_bytes()]);
    assert!(client.expect(NO_SEGMENT).words().contains("SEALANE_ARENA_BYTES"));
    client.say(8, 0, 0, 0, &[&segments[1].to_le_bytes()]);
    assert!(client.segment(1, 4 * MIB).short(0) > segments[2], "numbers are never used twice");
}

#[test]
fn one_door_for_one_path() {
    let served = Served::start(MIB);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let bind = |path: &Path| Door::bind(path, MIB, handoff::lanes().0);
    assert!(matches!(bind(&served.path()), Err(DoorError::Taken(_))));
    let file = served.folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(bind(&file), Err(DoorError::NotASocket { .. })));
    assert!(matches!(bind(Path::new("/nowhere/door.sock")), Err(DoorError::Listen { .. })));

    // What a killed sidecar left behind does not count.
    let stale = served.folder.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(bind(&stale).is_ok());
}

#[test]
fn clients_that_are_there_are_served_while_draining() {
    let served = Served::start(16 * MIB);
    let client = served.client();
    served.drain.cancel();
    while served.path().exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.open(1, false, "draining").kind, OPENED);
    drop(client);
}

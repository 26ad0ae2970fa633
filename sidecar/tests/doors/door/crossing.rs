//! What crosses the door, and what each side hears of it.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use sealane_sidecar::door::{Door, DoorError};
use sealane_sidecar::handoff;

use crate::door::client::{
    ASSIGNED, CLOSED, DELIVER, ENDED, FAILED, INTERRUPTED, MIB, NO_SEGMENT, OPENED, SEGMENT, SENDER, Served,
    TAKEN, entry, read, until,
};
use crate::loopback;

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
    let segments: Vec<u32> = (0..6).map(|_| client.segment(1, 2 * MIB).short(0)).collect();
    client.say(2, 0, 0, 1, &[&MIB.to_le_bytes()]);
    assert!(client.expect(NO_SEGMENT).words().contains("SEALANE_ARENA_BYTES"));
    client.say(8, 0, 0, 0, &[&segments[1].to_le_bytes()]);
    assert!(client.segment(1, 2 * MIB).short(0) > segments[5], "numbers are never used twice");
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
    until("a door that takes no more clients", || !served.path().exists());
    assert_eq!(client.open(1, false, "draining").kind, OPENED);
    drop(client);
}

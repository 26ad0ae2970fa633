//! `record.json`: records of every cipher across two key updates.

use sealane_types::Cipher;
use serde_json::{Value, json};

use super::check;
use crate::Moment;
use crate::handshake::Suite;
use crate::keys::{Label, LinkSecret, Root, Secret, Split};
use crate::limits::{RECORD_HEADER_BYTES, TAG_BYTES};
use crate::record::{Header, Level, Opener, RecordKind, Rekey, Sealer};

const NOW: Moment = Moment::from_micros(0);
/// A key update goes out before the record whose plaintext is empty here.
const PLAINTEXTS: [&[u8]; 5] = [b"first record", b"second record", b"", b"third record", b""];

fn secret(suite: Suite) -> LinkSecret {
    let part = |byte| Secret::take(&mut [byte; 32]);
    let split = Split { initiator: part(0x11), responder: part(0x22) };
    let kem = suite.post_quantum().then(|| part(0x33));
    Root::new(&split, kem.as_ref(), suite, [0x44; 32]).link(Label::Initiator)
}

fn sealed(sealer: &mut Sealer, plaintext: &[u8]) -> Vec<u8> {
    let mut record = vec![0; RECORD_HEADER_BYTES + plaintext.len() + TAG_BYTES];
    record[RECORD_HEADER_BYTES..][..plaintext.len()].copy_from_slice(plaintext);
    if plaintext.is_empty() {
        sealer.update(&mut record, NOW).unwrap();
    } else {
        sealer.seal(RecordKind::Data, &mut record).unwrap();
    }
    record
}

fn case(suite: Suite) -> Value {
    let mut sealer = Sealer::new(secret(suite), Rekey::default(), NOW);
    let mut opener = Opener::new(secret(suite), NOW);
    let mut records = Vec::new();
    for plaintext in PLAINTEXTS {
        let mut record = sealed(&mut sealer, plaintext);
        records.push(json!({ "plaintext": hex::encode(plaintext), "record": hex::encode(&record) }));
        let (head, body) = record.split_first_chunk_mut().unwrap();
        let header = Header::parse(*head, Level::Records).unwrap();
        assert_eq!(opener.open(header, body, NOW), Ok(plaintext));
    }
    let bulk = bulk(&mut sealer, &mut opener);
    json!({ "suite": suite.code(), "bulk": bulk, "keys": "the case of this suite in keys.json, link 0", "records": records })
}

/// The last record holds bytes of a tensor and nothing else. Where it is sealed from and opened to does not show.
fn bulk(sealer: &mut Sealer, opener: &mut Opener) -> Value {
    let (plaintext, mut place) = (*b"bytes of a tensor", [0; 17]);
    let mut record = vec![0; RECORD_HEADER_BYTES + plaintext.len() + TAG_BYTES];
    sealer.seal_from(RecordKind::Bulk, plaintext[..].into(), &mut record).unwrap();
    let (head, body) = record.split_first_chunk().unwrap();
    let header = Header::parse(*head, Level::Records).unwrap();
    opener.open_into(header, body, (&mut place[..]).into(), NOW).unwrap();
    assert_eq!(place, plaintext);
    json!({ "plaintext": hex::encode(plaintext), "record": hex::encode(&record) })
}

#[test]
fn records() {
    let cases: Vec<_> = Suite::offer(Cipher::ALL, true).into_iter().map(case).collect();
    check("record.json", &json!({ "direction": "initiator", "cases": cases }));
}

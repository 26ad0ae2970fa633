//! What a remote with the genuine keys of a link may not say over it.

use super::*;
use crate::connection::{Fail, Sink};
use crate::frame::control::Control;
use crate::frame::{ByteRange, Frame, Sequence, StreamId, encode};
use crate::handshake::{KeyExchange, Kind, Suite, capability};
use crate::keys::{Random, RandomFailed, Root, Secret, Split};
use crate::limits::RECORD_PLAINTEXT_BYTES_MAX;
use crate::record::{Level, LevelSealer, Output, RecordError, Rekey};
use crate::{CodecError, Moment};
use sealane_types::{Cipher, Reason};

const NOW: Moment = Moment::from_micros(0);

struct Ones;

impl Random for Ones {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        bytes.fill(1);
        Ok(())
    }
}

struct Nobody;

impl Sink for Nobody {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        panic!("a link carries no frame for a sink");
    }
}

/// What a remote seals with the keys of its link, and the link's receiving end.
fn rogue() -> (LevelSealer, LinkReceiver) {
    let part = |byte| Secret::take(&mut [byte; 32]);
    let split = Split { initiator: part(1), responder: part(2) };
    let suite = Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm);
    let root = Root::new(&split, None, suite, [4; 32]);
    let terms = LinkTerms::of(&root, Kind::Full, capability::of(true), Level::Records).unwrap();
    let joiner = terms.join(&mut Ones).unwrap().unwrap();
    let other = LinkTerms::of(&root, Kind::Full, capability::of(true), Level::Records).unwrap();
    let request = JoinRequest::parse(&joiner.greeting().unwrap().try_into().unwrap()).unwrap();
    let (receiver, _) = other.admit(&request, Rekey::default(), &mut Ones, NOW).unwrap();
    let secret = terms.joining.link(joiner.link(), &[1; 64]);
    (LevelSealer::new(Level::Records, secret, Rekey::default(), NOW), receiver)
}

/// What becomes of records that hold these bytes.
fn hear(records: &[&[u8]]) -> Result<usize, Fail> {
    let (mut sealer, mut receiver) = rogue();
    let mut wire = Vec::new();
    for bytes in records {
        let mut output = Output::default();
        let space = output.space_for(RECORD_PLAINTEXT_BYTES_MAX, &mut sealer, NOW).unwrap();
        space[..bytes.len()].copy_from_slice(bytes);
        output.advance(bytes.len());
        wire.extend_from_slice(output.poll(Some(&mut sealer)).unwrap());
    }
    receiver.handle_input(NOW, &mut wire, &mut Nobody)
}

fn said(frame: impl FnOnce(&mut [u8]) -> Result<usize, CodecError>) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    let used = frame(&mut bytes).unwrap();
    bytes.truncate(used);
    bytes
}

#[test]
fn a_link_carries_bytes_of_tensors_and_nothing_else() {
    let range = ByteRange { stream: StreamId(1), sequence: Sequence(1), offset: 0, length: 100_000 };
    let bulk = said(|space| encode(range, space));
    assert!(hear(&[&bulk]).is_ok());
    for other in [
        said(|space| encode(&Control::Ping(1), space)),
        said(|space| encode(&Control::Close(Reason::Finished), space)),
        said(|space| encode(&Frame::Ended(StreamId(1)), space)),
    ] {
        assert_eq!(hear(&[&other]).unwrap_err().reason(), Reason::FrameMalformed);
        assert_eq!(hear(&[&[&bulk[..], &other].concat()]).unwrap_err().reason(), Reason::FrameMalformed);
        assert_eq!(hear(&[&[&other[..], &bulk].concat()]).unwrap_err().reason(), Reason::FrameMalformed);
    }
    // What a frame announced comes first.
    assert!(matches!(hear(&[&bulk, &bulk]), Err(Fail::Record(RecordError::Kind))));
}

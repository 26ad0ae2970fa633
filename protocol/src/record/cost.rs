//! What a tensor costs in instructions from its frames to its record and back, as callgrind counts them: the same for
//! the same program, whatever else the machine does. A change that costs more than the slack is either mended or meant.

use std::process::Command;

use sealane_fixtures::allowed;
use sealane_types::Cipher;

use super::{Header, InputBuffer, Lane, Level, LevelSealer, Opener, Output, RecordKind, Rekey};
use crate::Moment;
use crate::frame::{
    ByteRange, CHUNK_OVERHEAD_BYTES, Decoded, Frame, Sequence, StreamId, TensorHeader, decode, encode,
    put_chunk,
};
use crate::handshake::{KeyExchange, Suite};
use crate::keys::{Label, LinkSecret, Root, Secret, Split};
use crate::limits::{BULK_BYTES_MIN, RECORD_HEADER_BYTES, RECORD_PLAINTEXT_BYTES_MAX};

const NOW: Moment = Moment::from_micros(0);
const STREAM: StreamId = StreamId(1);
/// Told to the process that is counted: tensors in all, and tensors in a record.
const WORK: &str = "SEALANE_COUNTED_WORK";
/// What two runs differ by.
const TENSORS: u64 = 400;

fn secret() -> LinkSecret {
    let part = |byte| Secret::take(&mut [byte; 32]);
    let split = Split { initiator: part(1), responder: part(2) };
    Root::new(&split, None, Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm), [4; 32])
        .link(Label::Initiator)
}

/// Both ends of a link in one place.
struct Link {
    sealer: LevelSealer,
    opener: Opener,
    output: Output,
    input: InputBuffer,
    taken: u64,
}

impl Link {
    fn put(&mut self, sequence: Sequence, bytes: &[u8]) {
        let length = bytes.len() as u64;
        let header = TensorHeader::of_bytes(STREAM, sequence, &length);
        let (output, sealer) = (&mut self.output, &mut self.sealer);
        output.put_frame(sealer, Lane::Data, NOW, |space| encode(&Frame::Tensor(header), space)).unwrap();
        if bytes.len() >= BULK_BYTES_MIN {
            let range = |length| ByteRange { stream: STREAM, sequence, offset: 0, length };
            let put =
                output.put_bulk(sealer, NOW, bytes.into(), |length, space| encode(range(length), space));
            assert_eq!(put, Ok(bytes.len()));
            return;
        }
        let space = output.space_for(CHUNK_OVERHEAD_BYTES + bytes.len(), sealer, NOW).unwrap();
        let fill = |place: &mut [u8]| {
            place.copy_from_slice(bytes);
            Ok::<_, std::convert::Infallible>(())
        };
        let Ok(used) = put_chunk((STREAM, sequence, 0), bytes.len(), space, fill).unwrap();
        output.advance(used);
    }

    /// Seals, carries by one copy, opens, and copies tensors to where they belong, or opens them there.
    fn carry(&mut self, place: &mut [u8]) {
        let sealed = self.output.poll(Some(&mut self.sealer)).unwrap();
        let length = sealed.len();
        self.input.space()[..length].copy_from_slice(sealed);
        self.input.filled(length);
        self.output.written(length);
        let mut unread = self.input.unread();
        while let Some((head, rest)) = unread.split_first_chunk_mut::<RECORD_HEADER_BYTES>() {
            let header = Header::parse(*head, Level::Records).unwrap();
            let (body, rest) = rest.split_at_mut(header.length);
            unread = rest;
            if header.kind == RecordKind::Bulk {
                self.opener.open_into(header, body, (&mut *place).into(), NOW).unwrap();
                self.taken += 1;
                continue;
            }
            let mut frames = self.opener.open(header, body, NOW).unwrap();
            while !frames.is_empty() {
                let (frame, rest) = decode(frames).unwrap();
                if let Decoded::Data(Frame::Chunk(chunk)) = frame {
                    place.copy_from_slice(chunk.bytes);
                    self.taken += 1;
                }
                frames = rest;
            }
        }
        self.input.consumed(length);
    }
}

/// Works only in a process that is counted.
#[test]
fn worker() {
    let Ok(work) = std::env::var(WORK) else { return };
    let [bytes, tensors, together] = work.split(' ').collect::<Vec<_>>()[..] else { panic!("{work}") };
    let (bytes, tensors, together): (usize, u64, u64) =
        (bytes.parse().unwrap(), tensors.parse().unwrap(), together.parse().unwrap());
    let mut link = Link {
        sealer: LevelSealer::new(Level::Records, secret(), Rekey::default(), NOW),
        opener: Opener::new(secret(), NOW),
        output: Output::default(),
        input: InputBuffer::new(),
        taken: 0,
    };
    link.input.widen();
    // As large as it becomes, before anything is counted.
    while !link.input.space().is_empty() {
        let room = link.input.space().len();
        link.input.filled(room);
    }
    let all = link.input.unread().len();
    link.input.consumed(all);
    let (source, mut place) = (vec![7; bytes], vec![0; bytes]);
    for sequence in 0..tensors {
        link.put(Sequence(sequence), &source);
        if (sequence + 1) % together == 0 {
            link.carry(&mut place);
        }
    }
    assert_eq!((link.taken, place), (tensors, source));
}

/// Instructions of a process that carries so many tensors.
fn counted(bytes: usize, tensors: u64, together: u64) -> u64 {
    let worker = format!("{}::worker", module_path!().split_once("::").unwrap().1);
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &worker, "--test-threads=1"])
        .env(WORK, format!("{bytes} {tensors} {together}"))
        .output()
        .expect("counting instructions needs valgrind: apt-get install valgrind");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let count = said.lines().find_map(|line| line.split_once("Collected : ")).expect("callgrind counts");
    count.1.trim().parse().unwrap()
}

/// What each further tensor costs.
fn of_one(bytes: usize, together: u64) -> u64 {
    let few = counted(bytes, 2 * together, together);
    (counted(bytes, 2 * together + TENSORS, together) - few) / TENSORS
}

/// Where it was `measured`: see [`allowed`].
#[track_caller]
fn assert_costs(bytes: usize, together: u64, measured: u64) {
    let instructions = of_one(bytes, together);
    assert!(
        instructions <= allowed(measured),
        "a tensor of {bytes} B, {together} to a record, costs {instructions} instructions, {measured} when it was measured"
    );
    // A bound far above the count guards nothing.
    assert!(allowed(instructions) >= measured, "{instructions} instructions: note it in place of {measured}");
}

#[test]
fn a_tensor_alone_in_its_record() {
    assert_costs(1_456, 1, 14_300);
}

#[test]
fn small_tensors_that_share_a_record() {
    assert_costs(1_456, 40, 12_000);
}

#[test]
fn a_bulk_record() {
    assert_costs(RECORD_PLAINTEXT_BYTES_MAX, 1, 409_400);
}

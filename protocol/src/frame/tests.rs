use proptest::prelude::*;
use sealane_attestation::limits::TRUST_CONFIGURATION_BYTES_MAX;
use sealane_types::{Digest, Dtype, PeerName, PodIdentity, Reason, SessionName};

use super::control::{Confirm, Control, Fragment};
use super::decode::{Decoded, decode, kind};
use super::encode::{CHUNK_OVERHEAD_BYTES, PIPE_DATA_OVERHEAD_BYTES, encode, put_chunk, put_pipe_data};
use super::*;
use crate::codec::CodecError;
use crate::keys::TicketId;
use crate::limits::{
    BULK_BYTES_MAX, BULK_FRAME_BYTES, FRAME_BODY_BYTES_MAX, HANDSHAKE_MESSAGE_BYTES_MAX, RUN_BYTES_MAX,
    TENSOR_BYTES_MAX,
};

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 70_000];
    let used = encode(frame, &mut bytes).unwrap();
    bytes.truncate(used);
    bytes
}

fn encoded_bulk(range: ByteRange) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    let used = encode(range, &mut bytes).unwrap();
    bytes.truncate(used);
    bytes
}

fn encoded_control(frame: &Control<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 70_000];
    let used = encode(frame, &mut bytes).unwrap();
    bytes.truncate(used);
    bytes
}

fn confirm() -> Confirm {
    Confirm {
        version: 1,
        peer: PeerName::new("embedder").unwrap(),
        expected: PeerName::new("ranker").unwrap(),
        session: SessionName::new("activations").unwrap(),
        pod: PodIdentity::new("demo", "embedder-0", "6f1c").unwrap(),
        epoch: 7,
        digest: Digest::new([9; 32]),
        trust: sealane_support::world::trust(),
    }
}

/// Every frame decodes to itself, and every cut, longer or changed form of it is refused or another frame.
fn check(bytes: &[u8], expected: &Decoded<'_>) {
    assert_eq!(decode(bytes), Ok((decode(bytes).unwrap().0, &[][..])));
    assert_eq!(&decode(bytes).unwrap().0, expected);
    for length in 1..bytes.len().min(400) {
        assert!(decode(&bytes[..length]).is_err(), "cut to {length}");
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert_eq!(decode(&longer).unwrap().1, &[0], "what follows is left alone");
    // A length that says more than the fields need is refused for frames of fixed size.
    let mut stretched = bytes.to_vec();
    stretched.push(0);
    stretched[3] = stretched[3].wrapping_add(1);
    if let Ok((frame, _)) = decode(&stretched) {
        assert_ne!(&frame, expected);
    }
}

#[test]
fn control_frames_read_back() {
    let part = Fragment { epoch: 3, total: 900, offset: 100, bytes: b"part" };
    for frame in [
        Control::Confirm(confirm()),
        Control::Policy(part),
        Control::Evidence(Fragment { epoch: 0, ..part }),
        Control::Ready,
        Control::Ping(7),
        Control::Pong(u64::MAX),
        Control::Close(Reason::Draining),
        Control::Ticket { id: TicketId([7; 16]), seconds: 1 },
    ] {
        check(&encoded_control(&frame), &Decoded::Control(frame.clone()));
    }
    assert_eq!(decode(&[kind::PAD, 0, 0, 2, 0, 0]).unwrap().0, Decoded::Control(Control::Pad));
    assert!(decode(&[kind::PAD, 0, 0, 2, 0, 1]).is_err(), "padding is zeros");
}

#[test]
fn a_trust_configuration_that_no_side_states_is_refused() {
    let bytes = encoded_control(&Control::Confirm(confirm()));
    let stated = confirm().trust.to_bytes();
    let place = bytes.len() - stated.len();
    let spoiled = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[place + at] ^= 0x80;
        decode(&bytes).is_err()
    };
    assert!(spoiled(0) && spoiled(1) && spoiled(2), "version, source and weakened checks");
    // One byte more than the longest: refused before it is looked at.
    let length = (TRUST_CONFIGURATION_BYTES_MAX + 1) as u16;
    let mut long = [&bytes[..place - 2], &length.to_be_bytes()].concat();
    long.resize(place + usize::from(length), 0);
    let length = (long.len() - 4) as u32;
    long[1..4].copy_from_slice(&length.to_be_bytes()[1..]);
    assert_eq!(decode(&long), Err(FrameError::Malformed(CodecError::TooLong)));
}

#[test]
fn fixed_frames_read_back() {
    let stream = StreamId(0x0102_0304);
    let sequences = [Sequence(1), Sequence(u64::MAX)];
    let taken = Taken { stream, sequences: Sequences::new(&sequences) };
    for frame in [
        Frame::Open(Open { stream, incarnation: Incarnation([3; 16]), base_sequence: Sequence(9) }),
        Frame::Credit(Credit { stream, bytes_through: 1, tensors_through: 2 }),
        Frame::Taken(taken),
        Frame::End(End { stream, tensors: 3, bytes: 4 }),
        Frame::Ended(stream),
        Frame::Abort(stream),
        Frame::Placed { stream, sequence: Sequence(5) },
        Frame::Lost(taken),
    ] {
        assert_eq!(frame.subject(), Subject::Stream(stream));
        check(&encoded(&frame), &Decoded::Data(frame));
    }
}

#[test]
fn bulks_read_back_and_have_bounds() {
    let range = ByteRange { stream: StreamId(7), sequence: Sequence(8), offset: 9, length: 1 };
    for length in [1, 65_536, BULK_BYTES_MAX] {
        let range = ByteRange { length, ..range };
        assert_eq!(encoded_bulk(range).len(), BULK_FRAME_BYTES);
        check(&encoded_bulk(range), &Decoded::Bulk(range));
    }
    for (length, error) in [(0, CodecError::Value), (BULK_BYTES_MAX + 1, CodecError::TooLong)] {
        assert_eq!(encode(ByteRange { length, ..range }, &mut [0; 100]), Err(error));
        let mut bytes = encoded_bulk(range);
        let at = bytes.len() - 3;
        bytes[at..].copy_from_slice(&u32::try_from(length).unwrap().to_be_bytes()[1..]);
        assert_eq!(decode(&bytes), Err(FrameError::Malformed(error)));
    }
}

#[test]
fn frames_of_pipes_read_back() {
    let pipe = PipeId(0x0102_0304);
    for frame in [
        Frame::PipeOpen(pipe),
        Frame::PipeData { pipe, bytes: b"bytes" },
        Frame::PipeCredit { pipe, bytes_through: u64::MAX },
        Frame::PipeEnd { pipe, bytes: 5 },
        Frame::PipeReset { pipe, reason: Reason::TargetUnreachable },
    ] {
        assert_eq!(frame.subject(), Subject::Pipe(pipe));
        check(&encoded(&frame), &Decoded::Data(frame));
    }
    let unknown = [kind::PIPE_RESET, 0, 0, 6, 0, 0, 0, 1, 0xff, 0xff];
    let reset = Frame::PipeReset { pipe: PipeId(1), reason: Reason::Unspecified };
    assert_eq!(decode(&unknown).unwrap().0, Decoded::Data(reset), "a word of a newer peer");
}

#[test]
fn payload_is_never_empty() {
    let chunk = Chunk { stream: StreamId(1), sequence: Sequence(0), offset: 0, bytes: b"" };
    for empty in [Frame::Chunk(chunk), Frame::PipeData { pipe: PipeId(1), bytes: b"" }] {
        assert!(encode(&empty, &mut [0; 100]).is_err());
    }
    assert!(decode(&[kind::PIPE_DATA, 0, 0, 4, 0, 0, 0, 1]).is_err());
    assert!(decode(&[kind::PIPE_DATA, 0, 0, 5, 0, 0, 0, 1, 0]).is_ok());
}

#[test]
fn lengths_have_their_limits() {
    let too_long = [&[kind::PAD, 0, 0xff, 0xfd][..], &[0; 0xfffd]].concat();
    assert!(decode(&too_long).is_err());
    assert!(decode(&[&[kind::PAD, 0, 0xff, 0xfc][..], &[0; 0xfffc]].concat()).is_ok());
    let part = |length: usize| {
        let body = [&[0; 16][..], &vec![1; length]].concat();
        [&[kind::EVIDENCE], &(body.len() as u32).to_be_bytes()[1..], &body].concat()
    };
    assert!(decode(&part(32_768)).is_ok());
    assert!(decode(&part(32_769)).is_err());
}

#[test]
fn a_message_of_a_renewal_has_one_of_three_steps_and_fits_a_handshake() {
    let renew = |step: u8, length: usize| {
        let mut frame = vec![0x09, 0, 0, 0];
        frame.push(step);
        frame.resize(5 + length, 7);
        let body = u32::try_from(length + 1).unwrap().to_be_bytes();
        frame[1..4].copy_from_slice(&body[1..]);
        decode(&frame).map(|_| ())
    };
    for (step, length) in [(1, 1), (3, HANDSHAKE_MESSAGE_BYTES_MAX)] {
        assert_eq!(renew(step, length), Ok(()));
    }
    for (step, length) in [(0, 1), (4, 1), (1, 0), (1, HANDSHAKE_MESSAGE_BYTES_MAX + 1)] {
        assert!(renew(step, length).is_err(), "{step} {length}");
    }
}

#[test]
fn a_ticket_lasts() {
    let ticket = |seconds: u32| [&[kind::TICKET, 0, 0, 20][..], &[7; 16], &seconds.to_be_bytes()].concat();
    assert!(decode(&ticket(1)).is_ok());
    assert!(decode(&ticket(0)).is_err());
}

#[test]
fn unknown_kinds_are_refused() {
    for unknown in [0x00, 0x0b, 0x0f, 0x1d, 0x1f, 0x25, 0xff] {
        let refused = decode(&[unknown, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(refused, FrameError::UnknownKind(unknown));
    }
}

fn header<'a>(dtype: Dtype, dimensions: &'a [u64], name: &'a str, length: u64) -> TensorHeader<'a> {
    let shape = Shape::new(dimensions).unwrap();
    TensorHeader { stream: StreamId(1), sequence: Sequence(2), dtype, shape, run: false, name, length }
}

#[test]
fn impossible_tensors_are_refused_on_both_sides() {
    let long = "x".repeat(256);
    for bad in [
        header(Dtype::Float32, &[2, 3], "", 23),
        header(Dtype::Float32, &[u64::MAX, 2], "", 8),
        header(Dtype::Float64, &[u64::MAX / 4], "", 8),
        header(Dtype::Uint8, &[TENSOR_BYTES_MAX + 1], "", TENSOR_BYTES_MAX + 1),
        header(Dtype::Uint8, &[1], &long, 1),
        // What wraps around to the length that is stated.
        header(Dtype::Uint8, &[1 << 32, 1 << 32], "", 0),
        header(Dtype::Float64, &[1 << 61], "", 0),
    ] {
        assert!(bad.check().is_err());
        assert!(encode(&Frame::Tensor(bad), &mut [0; 2000]).is_err());
    }
    assert!(Shape::new(&[1; 33]).is_err());
    let run = |dimensions, length| TensorHeader { run: true, ..header(Dtype::Uint8, dimensions, "", length) };
    let last = Sequence(u64::MAX - 2);
    for bad in [
        run(&[], 1),
        run(&[0], 0),
        run(&[1, 8], 8),
        run(&[2, 0], 0),
        run(&[257], 257),
        run(&[2, RUN_BYTES_MAX / 2 + 1], RUN_BYTES_MAX + 2),
        // What cannot be numbered.
        TensorHeader { sequence: last, ..run(&[3], 3) },
    ] {
        assert_eq!(bad.check(), Err(InvalidTensor::Run));
        assert!(encode(&Frame::Tensor(bad), &mut [0; 2000]).is_err());
    }
    assert_eq!(run(&[256], 256).check(), Ok(()));
    assert_eq!(run(&[2, RUN_BYTES_MAX / 2], RUN_BYTES_MAX).check(), Ok(()));
    assert_eq!(TensorHeader { sequence: last, ..run(&[2], 2) }.last(), last.next());
    assert_eq!(header(Dtype::Uint8, &[7], "", 7).last(), Sequence(2), "one tensor, whatever its shape");
    assert_eq!(header(Dtype::Float32, &[], "scalar", 4).check(), Ok(()));
    assert_eq!(header(Dtype::Float32, &[u64::MAX, 0, u64::MAX], "", 0).check(), Ok(()));

    let good = encoded(&Frame::Tensor(header(Dtype::Float32, &[2, 3], "layer3", 24)));
    // kind and length (4), stream (4), sequence (8), length (8), dtype, rank, dimensions
    for (at, value) in [(23, 23), (24, 200), (25, 33), (25, 1), (33, 3)] {
        let mut bent = good.clone();
        bent[at] = value;
        assert!(decode(&bent).is_err(), "byte {at}");
    }
}

#[test]
fn an_acknowledgement_holds_one_to_1024_numbers() {
    let stream = StreamId(1);
    for (count, fits) in [(0, false), (1, true), (1024, true), (1025, false)] {
        let sequences = vec![Sequence(4); count];
        let frame = Frame::Taken(Taken { stream, sequences: Sequences::new(&sequences) });
        assert_eq!(encode(&frame, &mut [0; 9_000]).is_ok(), fits);
    }
    assert!(decode(&[kind::TAKEN, 0, 0, 4, 0, 0, 0, 1]).is_err());
    assert!(decode(&[kind::TAKEN, 0, 0, 5, 0, 0, 0, 1, 0]).is_err());
    let said = |count: usize| {
        let length = (4 + 8 * count).to_be_bytes();
        [&[kind::TAKEN], &length[5..], &[0; 4], &vec![0; 8 * count]].concat()
    };
    assert!(decode(&said(1024)).is_ok());
    assert!(decode(&said(1025)).is_err());
}

#[test]
fn a_chunk_is_filled_in_place() {
    let mut bytes = vec![0; 200];
    let place = (StreamId(7), Sequence(8), 9);
    let used = put_chunk(place, 5, &mut bytes, |space| {
        space.copy_from_slice(b"bytes");
        Ok::<_, ()>(())
    });
    assert_eq!(used, Ok(Ok(CHUNK_OVERHEAD_BYTES + 5)));
    bytes.truncate(CHUNK_OVERHEAD_BYTES + 5);
    let chunk = Chunk { stream: place.0, sequence: place.1, offset: 9, bytes: b"bytes" };
    assert_eq!(bytes, encoded(&Frame::Chunk(chunk)));
    check(&bytes, &Decoded::Data(Frame::Chunk(chunk)));
    assert_eq!(put_chunk(place, 5, &mut bytes, |_| Err(3)), Ok(Err(3)));
    assert!(put_chunk(place, 500, &mut bytes, |_| Ok::<_, ()>(())).is_err());
    assert!(put_chunk(place, FRAME_BODY_BYTES_MAX, &mut [0; 70_000], |_| Ok::<_, ()>(())).is_err());
}

#[test]
fn pipe_data_is_filled_in_place() {
    let mut bytes = vec![0; 200];
    // A socket has as many as it has, and rarely as many as there is room for.
    let fill = |space: &mut [u8]| {
        space[..5].copy_from_slice(b"bytes");
        Ok::<_, ()>(5)
    };
    let used = put_pipe_data(PipeId(7), 50, &mut bytes, fill);
    assert_eq!(used, Ok(Ok(PIPE_DATA_OVERHEAD_BYTES + 5)));
    bytes.truncate(PIPE_DATA_OVERHEAD_BYTES + 5);
    assert_eq!(bytes, encoded(&Frame::PipeData { pipe: PipeId(7), bytes: b"bytes" }));
    assert_eq!(put_pipe_data(PipeId(7), 5, &mut bytes, |_| Err(3)), Ok(Err(3)));
    for impossible in [0, 6] {
        assert!(put_pipe_data(PipeId(7), 5, &mut bytes, |_| Ok::<_, ()>(impossible)).is_err());
    }
    assert!(put_pipe_data(PipeId(7), 500, &mut bytes, |_| Ok::<_, ()>(1)).is_err());
}

proptest! {
    #[test]
    fn pipe_data_reads_back(pipe: u32, bytes in prop::collection::vec(any::<u8>(), 1..3000)) {
        let frame = Frame::PipeData { pipe: PipeId(pipe), bytes: &bytes };
        check(&encoded(&frame), &Decoded::Data(frame));
    }

    #[test]
    fn tensors_read_back(
        stream: u32,
        sequence: u64,
        dtype in prop::sample::select(Dtype::ALL),
        dimensions in prop::collection::vec(0..9_u64, 0..12),
        name in "\\PC{0,60}",
    ) {
        let shape = Shape::new(&dimensions).unwrap();
        let length = shape.elements().unwrap() * dtype.size_bytes();
        let header = TensorHeader {
            stream: StreamId(stream), sequence: Sequence(sequence), dtype, shape, run: false, name: &name, length,
        };
        let bytes = encoded(&Frame::Tensor(header));
        check(&bytes, &Decoded::Data(Frame::Tensor(header)));
        let run = TensorHeader { run: true, ..header };
        if run.check().is_ok() {
            check(&encoded(&Frame::Tensor(run)), &Decoded::Data(Frame::Tensor(run)));
        }
    }

    #[test]
    fn chunks_read_back(stream: u32, sequence: u64, offset: u64, bytes in prop::collection::vec(any::<u8>(), 1..3000)) {
        let chunk = Chunk { stream: StreamId(stream), sequence: Sequence(sequence), offset, bytes: &bytes };
        check(&encoded(&Frame::Chunk(chunk)), &Decoded::Data(Frame::Chunk(chunk)));
    }

    /// Whatever decodes encodes to the same bytes: there is one form only, padding apart.
    #[test]
    fn one_encoding_only(kind in 0..0x26_u8, body in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut bytes = vec![kind, 0, 0, body.len() as u8];
        bytes.extend_from_slice(&body);
        match decode(&bytes) {
            // A reason that this side does not know reads as another.
            Ok((Decoded::Data(Frame::PipeReset { .. }), _)) => {}
            Ok((Decoded::Data(frame), rest)) => {
                prop_assert!(rest.is_empty());
                prop_assert_eq!(encoded(&frame), bytes);
            }
            Ok((Decoded::Control(Control::Pad | Control::Close(_)), _)) | Err(_) => {}
            Ok((Decoded::Control(frame), _)) => prop_assert_eq!(encoded_control(&frame), bytes),
            Ok((Decoded::Bulk(range), _)) => prop_assert_eq!(encoded_bulk(range), bytes),
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 1..300)) {
        let _ = decode(&bytes);
    }
}

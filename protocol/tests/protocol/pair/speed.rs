//! How fast records are sealed and opened, against the cipher alone. Run it by name:
//! `cargo test -p sealane-protocol --test protocol pair::speed -- --ignored --nocapture`

use std::hint::black_box;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord, Sink};
use sealane_protocol::frame::{Frame, Sequence, TensorHeader};
use sealane_protocol::handshake::{KeyExchange, Suite};
use sealane_protocol::record::InputBuffer;
use sealane_types::{Cipher, Reason};

use super::support::{Pair, Recipe, STREAM};

const RECORD_BYTES: usize = 65_536;
const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(150);

/// Bytes per nanosecond of the best round: the machine is shared, and noise only ever slows down.
fn best(mut work: impl FnMut() -> usize) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < ROUND {
            bytes += work();
        }
        best = best.max(bytes as f64 / start.elapsed().as_nanos() as f64);
    }
    best
}

/// Seals and opens 64 KiB in place, with nothing around it.
fn cipher_alone(algorithm: &'static Algorithm) -> f64 {
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &[7; 32]).unwrap());
    let mut buffer = vec![1; RECORD_BYTES + 16];
    let nonce = || Nonce::assume_unique_for_key([3; 12]);
    best(|| {
        let (body, place) = buffer.split_at_mut(RECORD_BYTES);
        let tag = key.seal_in_place_separate_tag(nonce(), Aad::from([0; 4]), body).unwrap();
        place.copy_from_slice(tag.as_ref());
        black_box(key.open_in_place(nonce(), Aad::from([0; 4]), &mut buffer).unwrap());
        RECORD_BYTES
    })
}

/// An application's memory, and how many bytes came there.
struct Arena(Vec<u8>, usize);

impl Sink for Arena {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        if let Frame::Chunk(chunk) = frame {
            let at = chunk.offset as usize;
            self.0[at..at + chunk.bytes.len()].copy_from_slice(chunk.bytes);
            self.1 += chunk.bytes.len();
        }
        Ok(())
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let range = record.range();
        let at = range.offset as usize;
        let opened = record.open_into((&mut self.0[at..at + range.length]).into())?;
        self.1 += range.length;
        Ok(opened)
    }
}

/// Whole connections: tensors of `length` bytes, queued, sealed, carried by one copy, opened, handed up.
fn connection(pair: &mut Pair, length: usize) -> f64 {
    let now = pair.now;
    let source = vec![5; length];
    let mut arena = Arena(vec![0; length], 0);
    let mut input = InputBuffer::new();
    let mut sequence = 0;
    let bytes = length as u64;
    let header = |sequence| TensorHeader::of_bytes(STREAM, Sequence(sequence), &bytes);
    let (sender, receiver) = (&mut pair.initiator.connection, &mut pair.responder.connection);
    let mut offset = 0;
    best(|| {
        let before = arena.1;
        while sender.has_room() {
            if offset == 0 {
                sender.send(&Frame::Tensor(header(sequence))).unwrap();
            }
            let rest = &source[offset..];
            offset += sender.send_bytes(STREAM, Sequence(sequence), offset as u64, rest).unwrap();
            if offset == length {
                (offset, sequence) = (0, sequence + 1);
            }
        }
        loop {
            let ready = sender.poll_output(now);
            if ready.is_empty() {
                break;
            }
            let space = input.space();
            let moved = ready.len().min(space.len());
            space[..moved].copy_from_slice(&ready[..moved]);
            input.filled(moved);
            sender.output_written(moved);
            let used = receiver.handle_input(now, input.unread(), &mut arena).unwrap();
            input.consumed(used);
        }
        arena.1 - before
    })
}

#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stderr, reason = "the figures are its result")]
fn speed() {
    for (cipher, algorithm) in
        [(Cipher::Aes256Gcm, &AES_256_GCM), (Cipher::ChaCha20Poly1305, &CHACHA20_POLY1305)]
    {
        let suite = Suite::new(KeyExchange::Hybrid, cipher);
        let mut pair = Pair::connected_of(Recipe::with_suites(&[suite], false));
        let alone = cipher_alone(algorithm);
        eprintln!("{cipher}: seal and open, one core, GB/s");
        eprintln!("  cipher alone, 64 KiB            {alone:6.2}");
        for length in [1 << 20, 4096, 1536] {
            let speed = connection(&mut pair, length);
            let share = 100.0 * speed / alone;
            eprintln!("  connection, {length:7} B           {speed:6.2}  ({share:.0} % of the cipher)");
        }
    }
}

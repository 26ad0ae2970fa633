//! Our framing without sealing: the same tensors, chunks, records and batches, and no cipher. What sealing costs is the
//! difference to this, and nothing else.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::carrier::Carrier;
use crate::message::Inbox;
use crate::wire::{Open, Side, Wire};

pub(crate) const NAME: &str = "plaintext";

/// As the record layer's.
const RECORD_BYTES: usize = 65_536;
const BATCH_BYTES: usize = 4 * (RECORD_BYTES + HEADER_BYTES);
const HEADER_BYTES: usize = 4;
/// Chunks shorter than this are not begun at the end of a record that has some room left.
const CHUNK_BYTES_MIN: usize = 4_096;
/// Kind and length, then stream, number, offset or total.
const FRAME_BYTES: usize = 4 + 4 + 8 + 8;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plaintext;

pub(crate) struct Framing {
    carrier: Carrier,
    output: Vec<u8>,
    /// Where the record under way begins; nothing is under way at the end of the output.
    record: usize,
    input: Vec<u8>,
    filled: usize,
    sent: u64,
    arriving: Arriving,
}

/// The tensor whose bytes are coming.
#[derive(Debug, Default)]
struct Arriving {
    total: usize,
    arrived: usize,
}

impl Open for Plaintext {
    type Wire = Framing;

    async fn open(&self, carrier: Carrier, _: Side) -> Result<Framing> {
        Ok(Framing {
            carrier,
            output: Vec::with_capacity(BATCH_BYTES + RECORD_BYTES),
            record: 0,
            input: vec![0; 2 * BATCH_BYTES],
            filled: 0,
            sent: 0,
            arriving: Arriving::default(),
        })
    }
}

impl Wire for Framing {
    async fn put(&mut self, message: &Bytes) -> Result<()> {
        self.send(message).await
    }

    async fn flush(&mut self) -> Result<()> {
        self.end_record()?;
        self.carrier.write_all(&self.output).await?;
        self.output.clear();
        self.record = 0;
        Ok(())
    }

    async fn take(&mut self, inbox: &mut Inbox, count: u64) -> Result<()> {
        self.parse(inbox)?;
        while inbox.count() < count {
            let room = &mut self.input[self.filled..];
            let read = self.carrier.read(room).await?;
            ensure!(read > 0, "the other end is gone");
            self.filled += read;
            self.parse(inbox)?;
        }
        Ok(())
    }

    async fn echo(&mut self, inbox: &mut Inbox) -> Result<()> {
        self.take(inbox, inbox.count() + 1).await?;
        self.send(inbox.last()).await?;
        self.flush().await
    }
}

impl Framing {
    async fn send(&mut self, message: &[u8]) -> Result<()> {
        let (number, total) = (self.sent, message.len() as u64);
        self.sent += 1;
        self.begin(FRAME_BYTES)?;
        self.frame(0, number, total, 0)?;
        let mut rest = message;
        while !rest.is_empty() {
            if self.output.len() >= BATCH_BYTES {
                self.flush().await?;
            }
            let room = self.begin(FRAME_BYTES + rest.len().min(CHUNK_BYTES_MIN))? - FRAME_BYTES;
            let (chunk, after) = rest.split_at(rest.len().min(room));
            self.frame(1, number, total - rest.len() as u64, chunk.len())?;
            self.output.extend_from_slice(chunk);
            rest = after;
        }
        Ok(())
    }

    /// Room in the record under way, or in a new one when `wanted` bytes do not fit.
    fn begin(&mut self, wanted: usize) -> Result<usize> {
        let open = self.output.len() > self.record;
        if open && self.output.len() - self.record + wanted > HEADER_BYTES + RECORD_BYTES {
            self.end_record()?;
        }
        if self.output.len() == self.record {
            self.output.extend_from_slice(&[0; HEADER_BYTES]);
        }
        Ok(self.record + HEADER_BYTES + RECORD_BYTES - self.output.len())
    }

    fn end_record(&mut self) -> Result<()> {
        if let Some(body) = (self.output.len() - self.record).checked_sub(HEADER_BYTES) {
            let header = u32::try_from(body)?.to_be_bytes();
            self.output[self.record..self.record + HEADER_BYTES].copy_from_slice(&header);
        }
        self.record = self.output.len();
        Ok(())
    }

    fn frame(&mut self, kind: u8, number: u64, value: u64, body: usize) -> Result<()> {
        let length = u32::try_from(body + FRAME_BYTES - 4)?;
        self.output.extend_from_slice(&(length | u32::from(kind) << 24).to_be_bytes());
        self.output.extend_from_slice(&1_u32.to_be_bytes());
        self.output.extend_from_slice(&number.to_be_bytes());
        self.output.extend_from_slice(&value.to_be_bytes());
        Ok(())
    }

    /// Takes whole records off the input.
    fn parse(&mut self, inbox: &mut Inbox) -> Result<()> {
        let mut used = 0;
        while let Some((header, rest)) = self.input[used..self.filled].split_first_chunk::<HEADER_BYTES>() {
            let length = u32::from_be_bytes(*header) as usize;
            ensure!(length <= RECORD_BYTES, "a record is too long");
            let Some(record) = rest.get(..length) else { break };
            self.arriving.on_record(record, inbox)?;
            used += HEADER_BYTES + length;
        }
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(())
    }
}

impl Arriving {
    fn on_record(&mut self, mut record: &[u8], inbox: &mut Inbox) -> Result<()> {
        while !record.is_empty() {
            let (header, rest) = record.split_at_checked(FRAME_BYTES).context("a frame is cut")?;
            let field = |at: usize| -> Result<u64> {
                let bytes = header.get(at..at + 8).context("a frame is cut")?;
                Ok(u64::from_be_bytes(bytes.try_into()?))
            };
            let word = field(0)? >> 32;
            let (kind, length) = (word >> 24, usize::try_from(word & 0xff_ffff)?);
            let body = length.checked_sub(FRAME_BYTES - 4).context("a frame is too short")?;
            let (bytes, after) = rest.split_at_checked(body).context("a frame is cut")?;
            record = after;
            if field(8)? != inbox.count() {
                inbox.report(|| "a message is out of order".to_owned());
            }
            let value = usize::try_from(field(16)?)?;
            if kind == 0 {
                *self = Self { total: value, arrived: 0 };
                continue;
            }
            if value != self.arrived {
                inbox.report(|| "a chunk is out of order".to_owned());
            }
            inbox.put(value, bytes);
            self.arrived += bytes.len();
            if self.arrived == self.total {
                inbox.finish();
            }
        }
        Ok(())
    }
}

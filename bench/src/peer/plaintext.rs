//! Our framing without sealing: tensors and chunks behind the same headers, and no cipher. Nothing has to be cut into
//! records or copied to where it is sealed, so it is not: small messages share a batch, large ones leave from where they lie
//! and are read into where they belong. What is left between this and ours is the price of sealing.

use std::io::IoSlice;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};

use crate::carrier::Carrier;
use crate::message::Inbox;
use crate::wire::{Open, Side, Wire};

pub(crate) const NAME: &str = "plaintext";

/// As of ours.
const BATCH_BYTES: usize = 256 << 10;
/// Messages from this length on are not copied into a batch: two more buffers of a write cost less than the copy.
const LARGE_BYTES: usize = 64 << 10;
/// Kind and length, then stream, number, offset or total.
const FRAME_BYTES: usize = 4 + 4 + 8 + 8;
/// What a chunk's length has bits for.
const CHUNK_BYTES_MAX: usize = (1 << 24) - FRAME_BYTES;
/// After a large message, so much is read in the hope of the next header: what comes with it has to be copied.
const HEADER_READ_BYTES: usize = 4 << 10;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plaintext;

pub(crate) struct Framing {
    carrier: Carrier,
    output: Vec<u8>,
    /// What was read and is not parsed yet lies between the two.
    input: Vec<u8>,
    parsed: usize,
    filled: usize,
    sent: u64,
    arriving: Arriving,
}

/// The tensor whose bytes are coming.
#[derive(Debug, Default)]
struct Arriving {
    total: usize,
    arrived: usize,
    /// Bytes that are still to come of the chunk under way.
    chunk: usize,
}

impl Open for Plaintext {
    type Wire = Framing;

    async fn open(&self, carrier: Carrier, _: Side) -> Result<Framing> {
        Ok(Framing {
            carrier,
            output: Vec::with_capacity(BATCH_BYTES + LARGE_BYTES),
            input: vec![0; BATCH_BYTES],
            parsed: 0,
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
        self.carrier.write_all(&self.output).await?;
        self.output.clear();
        Ok(())
    }

    async fn take(&mut self, inbox: &mut Inbox, count: u64) -> Result<()> {
        self.parse(inbox)?;
        while inbox.count() < count {
            self.read(inbox).await?;
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
        self.frame(0, number, total, 0)?;
        let vectored = self.carrier.is_write_vectored() && message.len() >= LARGE_BYTES;
        let mut offset = 0;
        for chunk in message.chunks(if vectored { CHUNK_BYTES_MAX } else { LARGE_BYTES }) {
            self.frame(1, number, offset, chunk.len())?;
            offset += chunk.len() as u64;
            if vectored {
                self.write_with(chunk).await?;
            } else {
                self.output.extend_from_slice(chunk);
            }
            if self.output.len() >= BATCH_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Writes what has gathered and `chunk` behind it, from where they are.
    async fn write_with(&mut self, chunk: &[u8]) -> Result<()> {
        let (mut gathered, mut chunk) = (self.output.as_slice(), chunk);
        while !(gathered.is_empty() && chunk.is_empty()) {
            let slices = [IoSlice::new(gathered), IoSlice::new(chunk)];
            let written = self.carrier.write_vectored(&slices).await?;
            ensure!(written > 0, "the other end is gone");
            let of_gathered = written.min(gathered.len());
            gathered = &gathered[of_gathered..];
            chunk = &chunk[written - of_gathered..];
        }
        self.output.clear();
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

    /// Reads once: the rest of a large message's chunk into the receiver's memory, anything else into the buffer.
    async fn read(&mut self, inbox: &mut Inbox) -> Result<()> {
        let Self { carrier, input, parsed, filled, arriving, .. } = self;
        let large = arriving.total >= LARGE_BYTES;
        if large && arriving.chunk > 0 {
            let space = inbox.space(arriving.arrived);
            let rest = arriving.chunk.min(space.len());
            let read = carrier.read(&mut space[..rest]).await?;
            ensure!(read > 0, "the other end is gone");
            arriving.came(read, inbox);
            return Ok(());
        }
        input.copy_within(*parsed..*filled, 0);
        (*parsed, *filled) = (0, *filled - *parsed);
        let end = if large { HEADER_READ_BYTES } else { input.len() };
        let read = carrier.read(&mut input[*filled..end]).await?;
        ensure!(read > 0, "the other end is gone");
        *filled += read;
        Ok(())
    }

    /// Takes headers and bytes off the buffer.
    fn parse(&mut self, inbox: &mut Inbox) -> Result<()> {
        let Self { input, parsed, filled, arriving, .. } = self;
        loop {
            let unread = &input[*parsed..*filled];
            if arriving.chunk > 0 {
                let bytes = &unread[..unread.len().min(arriving.chunk)];
                if bytes.is_empty() {
                    return Ok(());
                }
                inbox.put(arriving.arrived, bytes);
                *parsed += bytes.len();
                arriving.came(bytes.len(), inbox);
                continue;
            }
            let Some((header, _)) = unread.split_first_chunk::<FRAME_BYTES>() else { return Ok(()) };
            arriving.on_frame(header, inbox)?;
            *parsed += FRAME_BYTES;
        }
    }
}

impl Arriving {
    fn on_frame(&mut self, header: &[u8; FRAME_BYTES], inbox: &mut Inbox) -> Result<()> {
        let field = |at: usize| -> Result<u64> {
            let bytes = header.get(at..at + 8).context("a frame is cut")?;
            Ok(u64::from_be_bytes(bytes.try_into()?))
        };
        let word = field(0)? >> 32;
        let (kind, length) = (word >> 24, usize::try_from(word & 0xff_ffff)?);
        let body = length.checked_sub(FRAME_BYTES - 4).context("a frame is too short")?;
        if field(8)? != inbox.count() {
            inbox.report(|| "a message is out of order".to_owned());
        }
        let value = usize::try_from(field(16)?)?;
        if kind == 0 {
            *self = Self { total: value, arrived: 0, chunk: 0 };
            return Ok(());
        }
        if value != self.arrived || body > self.total - self.arrived {
            inbox.report(|| "a chunk is out of order".to_owned());
        }
        self.chunk = body;
        Ok(())
    }

    /// `bytes` of the chunk under way are where they belong.
    fn came(&mut self, bytes: usize, inbox: &mut Inbox) {
        self.chunk -= bytes;
        self.arrived += bytes;
        if self.arrived == self.total {
            inbox.finish();
        }
    }
}

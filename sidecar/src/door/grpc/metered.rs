//! The length of a message is known before its bytes come. This looks at each length on its way to the decoder, which
//! would make room for whatever it reads there.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use sealane_types::Reason;
use tonic::Status;

use super::fault::Fault;
use super::{limits, status};
use crate::handoff::LaneError;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The prefix of every gRPC message: a flag, and the length, big-endian.
const PREFIX_BYTES: usize = 5;

/// A request body whose messages keep to a length.
#[derive(Debug)]
pub(super) struct Metered<B> {
    body: B,
    meter: Meter,
}

/// Follows message boundaries.
#[derive(Debug)]
pub(super) struct Meter {
    bytes_max: usize,
    prefix: [u8; PREFIX_BYTES],
    seen: usize,
    /// Bytes of the current message that are still to come.
    rest: usize,
}

impl Meter {
    /// For calls whose messages are small.
    pub(super) const fn small() -> Self {
        Self::new(limits::MESSAGE_BYTES_SMALL)
    }

    /// For put calls, which have paid for the longest message.
    pub(super) const fn put() -> Self {
        Self::new(limits::MESSAGE_BYTES_MAX)
    }

    const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, prefix: [0; PREFIX_BYTES], seen: 0, rest: 0 }
    }

    /// Looks at the next bytes of the body.
    fn pass(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            let (Some(place), Some((byte, after))) = (self.prefix.get_mut(self.seen), bytes.split_first())
            else {
                break;
            };
            *place = *byte;
            bytes = after;
            self.seen += 1;
            if self.seen == PREFIX_BYTES {
                self.seen = 0;
                let [_, length @ ..] = self.prefix;
                self.rest = self.admit(u32::from_be_bytes(length) as usize)?;
            }
        }
        Ok(())
    }

    fn admit(&self, length: usize) -> Result<usize, Status> {
        if length > self.bytes_max {
            let message = format!(
                "a message of {length} bytes is too long here: at most {} bytes; split tensors into chunks",
                self.bytes_max
            );
            let error = LaneError::refused(Reason::LimitExceeded, message);
            return Err(status::of(&Fault::Lane(error)));
        }
        Ok(length)
    }
}

impl<B> Metered<B> {
    pub(super) const fn new(body: B, meter: Meter) -> Self {
        Self { body, meter }
    }
}

impl<B> Body for Metered<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, meter } = self.get_mut();
        Pin::new(body).poll_frame(context).map(|frame| {
            frame.map(|frame| {
                let frame = frame.map_err(Into::into)?;
                if let Some(data) = frame.data_ref() {
                    meter.pass(data.chunk())?;
                }
                Ok(frame)
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: u32) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(length.to_be_bytes());
        bytes.resize(PREFIX_BYTES + length as usize, 7);
        bytes
    }

    #[test]
    fn lengths_are_seen_wherever_frames_are_cut() {
        let stream: Vec<u8> = [0, 1, 300, 0, 32 << 10].into_iter().flat_map(message).collect();
        for step in [1, 2, 5, 7, 4096, stream.len()] {
            let mut meter = Meter::small();
            stream.chunks(step).for_each(|part| meter.pass(part).unwrap());
            assert_eq!((meter.rest, meter.seen), (0, 0));
            let long = message((32 << 10) + 1);
            let refused = long.chunks(step).find_map(|part| meter.pass(part).err()).unwrap();
            assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        }
    }
}

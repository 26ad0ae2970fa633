//! The length of a message is known before its bytes come. This looks at each length on its way to the decoder, which
//! would make room for whatever it reads there.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use tonic::Status;

use super::fault::Fault;
use super::{limits, status};
use crate::door::budget::{Budget, Grant, Side};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The prefix of every gRPC message: a flag, and the length, big-endian.
const PREFIX_BYTES: usize = 5;

/// A request body whose messages keep to a length, and to the memory that there is.
#[derive(Debug)]
pub(super) struct Metered<B> {
    body: B,
    meter: Meter,
}

/// Follows message boundaries.
#[derive(Debug)]
pub(super) struct Meter {
    bytes_max: usize,
    /// Lengths up to this are paid for already.
    paid: usize,
    /// Who is asked for more.
    budget: Option<Arc<Budget>>,
    /// Memory for messages longer than usual, until the call ends: the decoder keeps its largest buffer.
    grants: Vec<Grant>,
    prefix: [u8; PREFIX_BYTES],
    seen: usize,
    /// Bytes of the current message that are still to come.
    rest: usize,
}

impl Meter {
    /// For calls whose messages are small.
    pub(super) const fn small() -> Self {
        Self::new(limits::MESSAGE_BYTES_SMALL, limits::MESSAGE_BYTES_SMALL, None)
    }

    /// For put calls, which have paid for messages of the usual length.
    pub(super) const fn put(budget: Arc<Budget>) -> Self {
        Self::new(limits::MESSAGE_BYTES_MAX, limits::MESSAGE_BYTES_USUAL, Some(budget))
    }

    const fn new(bytes_max: usize, paid: usize, budget: Option<Arc<Budget>>) -> Self {
        Self { bytes_max, paid, budget, grants: Vec::new(), prefix: [0; PREFIX_BYTES], seen: 0, rest: 0 }
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

    fn admit(&mut self, length: usize) -> Result<usize, Status> {
        if length > self.bytes_max {
            return Err(too_long(format!(
                "a message of {length} bytes is too long here: at most {} bytes; split tensors into chunks",
                self.bytes_max
            )));
        }
        if length > self.paid {
            let more = (length - self.paid) as u64;
            let grant = self.budget.as_ref().and_then(|budget| budget.grant(Side::Put, more));
            let grant = grant.ok_or_else(|| {
                too_long(format!(
                    "no memory for a message of {length} bytes at the moment; messages of at most {} bytes always find \
                     room: split tensors into chunks",
                    limits::MESSAGE_BYTES_USUAL
                ))
            })?;
            self.grants.push(grant);
            self.paid = length;
        }
        Ok(length)
    }
}

fn too_long(message: String) -> Status {
    let error = crate::handoff::LaneError::refused(sealane_types::Reason::LimitExceeded, message);
    status::of(&Fault::Lane(error))
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

    #[test]
    fn long_messages_are_paid_for_once_and_only_from_what_is_there() {
        let budget = Budget::new(32 << 20, crate::metrics::Door::default());
        let mut meter = Meter::put(Arc::clone(&budget));
        meter.admit(limits::MESSAGE_BYTES_USUAL).unwrap();
        assert!(budget.grant(Side::Put, 24 << 20).is_some(), "nothing is charged yet");
        meter.admit(16 << 20).unwrap();
        meter.admit(16 << 20).unwrap();
        assert!(budget.grant(Side::Put, 24 << 20).is_none());
        assert!(budget.grant(Side::Put, 11 << 20).is_some());
        assert!(meter.admit(40 << 20).is_err(), "more than there is");
        assert!(meter.admit(limits::MESSAGE_BYTES_MAX + 1).is_err());
        drop(meter);
        assert!(budget.grant(Side::Put, 24 << 20).is_some());
    }
}

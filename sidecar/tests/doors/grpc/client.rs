//! Clients as an application would write them, which look at every byte.

use std::collections::BTreeMap;

use bytes::Bytes;
use sealane_sidecar_api::door as wire;
use sealane_sidecar_api::door::door_client::DoorClient;
use sealane_sidecar_api::door::put_request::Message as PutAsk;
use sealane_sidecar_api::door::put_response::Message as PutNews;
use sealane_sidecar_api::door::take_request::Message as TakeAsk;
use sealane_sidecar_api::door::take_response::Message as TakeNews;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use crate::support::within;

/// Tensor bytes in one message.
pub(crate) const CHUNK: usize = 4 << 20;

/// Bytes that tell their tensor and their place.
pub(crate) fn bytes(sequence: u64, length: usize) -> Bytes {
    part(sequence, 0, length)
}

/// A part of [`bytes`].
pub(crate) fn part(sequence: u64, offset: usize, length: usize) -> Bytes {
    let byte =
        |index: usize| (index.wrapping_mul(31) ^ index >> 8 ^ (sequence as usize).wrapping_mul(97)) as u8;
    (offset..offset + length).map(byte).collect()
}

pub(crate) fn client(channel: &Channel) -> DoorClient<Channel> {
    DoorClient::new(channel.clone())
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX)
}

/// Checks that a call failed as it should, and that every place says why.
pub(crate) fn assert_failed(status: &Status, code: Code, reason: &str) {
    assert_eq!((status.code(), word(status)), (code, reason), "{status:?}");
    let info = status.get_details_error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, "sealane.dev"));
    assert!(!status.message().is_empty());
}

pub(crate) fn word(status: &Status) -> &str {
    status.metadata().get("sealane-reason").map_or("", |word| word.to_str().unwrap())
}

pub(crate) fn tensor(data: Bytes) -> wire::PutTensor {
    let shape = vec![data.len() as u64];
    wire::PutTensor { dtype: wire::DType::DtypeUint8 as i32, shape, data, ..Default::default() }
}

/// A put call.
pub(crate) struct Putter {
    asks: mpsc::Sender<wire::PutRequest>,
    news: Streaming<wire::PutResponse>,
    pub(crate) accepted: u64,
    /// Last word about each tensor: whether it was taken.
    pub(crate) settled: BTreeMap<u64, bool>,
    next: u64,
}

impl Putter {
    /// A call that has said nothing yet.
    pub(crate) async fn call(channel: &Channel) -> Result<Self, Status> {
        let (asks, said) = mpsc::channel(1);
        let news = within("a put call", client(channel).put(ReceiverStream::new(said))).await?.into_inner();
        Ok(Self { asks, news, accepted: 0, settled: BTreeMap::new(), next: 0 })
    }

    pub(crate) async fn open(channel: &Channel, session: &str) -> Result<Self, Status> {
        Self::open_with(channel, wire::PutOpen { session: session.to_owned(), ..Default::default() }).await
    }

    pub(crate) async fn open_with(channel: &Channel, open: wire::PutOpen) -> Result<Self, Status> {
        let mut putter = Self::call(channel).await?;
        let base = open.base;
        putter.say(PutAsk::Open(open)).await;
        let PutNews::Opened(opened) = putter.hear().await? else { panic!("not `opened`") };
        assert_eq!((opened.next, opened.incarnation.len(), opened.window), (base, 16, 1024));
        putter.next = base;
        Ok(putter)
    }

    pub(crate) async fn say(&self, message: PutAsk) {
        // A call that is over refuses it; its status says why.
        let _ = self.asks.send(wire::PutRequest { message: Some(message) }).await;
    }

    pub(crate) async fn say_nothing(&self) {
        let _ = self.asks.send(wire::PutRequest { message: None }).await;
    }

    /// The next news, noted if it is of the everyday kind.
    pub(crate) async fn hear(&mut self) -> Result<PutNews, Status> {
        let news = within("news", self.news.message()).await?.unwrap().message.unwrap();
        match &news {
            PutNews::Accepted(ranges) => self.accepted += each(ranges).count() as u64,
            PutNews::Taken(ranges) => each(ranges).for_each(|sequence| self.settle(sequence, true)),
            PutNews::Uncertain(ranges) => each(ranges).for_each(|sequence| self.settle(sequence, false)),
            _ => {}
        }
        Ok(news)
    }

    fn settle(&mut self, sequence: u64, taken: bool) {
        assert_eq!(self.settled.insert(sequence, taken), None, "the last word about {sequence} comes once");
    }

    /// Puts one tensor whose bytes tell its sequence, in chunks.
    pub(crate) async fn put(&mut self, length: usize) -> u64 {
        let sequence = self.next;
        self.next += 1;
        put(&self.asks, sequence, length).await;
        sequence
    }

    /// The half that puts, for a task of its own; the caller hears.
    pub(crate) fn asks(&self) -> mpsc::Sender<wire::PutRequest> {
        self.asks.clone()
    }

    /// Hears until everything that was put has had its last word.
    pub(crate) async fn flush(&mut self) -> u64 {
        self.say(PutAsk::Flush(wire::Flush { id: 77 })).await;
        loop {
            if let PutNews::Flushed(flushed) = self.hear().await.unwrap() {
                assert_eq!(flushed.id, 77);
                return flushed.uncertain;
            }
        }
    }

    /// Closes and hears to the end.
    pub(crate) async fn close(mut self) -> BTreeMap<u64, bool> {
        self.say(PutAsk::Close(wire::Close {})).await;
        while !matches!(self.hear().await.unwrap(), PutNews::Closed(_)) {}
        assert!(within("the end", self.news.message()).await.unwrap().is_none());
        self.settled
    }

    /// The status with which the call fails.
    pub(crate) async fn failure(&mut self) -> Status {
        loop {
            if let Err(status) = self.hear().await {
                return status;
            }
        }
    }
}

/// Puts one tensor whose bytes tell its sequence, in chunks.
pub(crate) async fn put(asks: &mpsc::Sender<wire::PutRequest>, sequence: u64, length: usize) {
    let first = length.min(CHUNK);
    let head = wire::PutTensor {
        sequence: Some(sequence),
        shape: vec![length as u64],
        name: format!("layer{sequence}"),
        ..tensor(part(sequence, 0, first))
    };
    let _ = asks.send(wire::PutRequest { message: Some(PutAsk::Tensor(head)) }).await;
    let mut offset = first;
    while offset < length {
        let data = part(sequence, offset, (length - offset).min(CHUNK));
        let chunk = wire::Chunk { offset: offset as u64, data };
        offset += chunk.data.len();
        let _ = asks.send(wire::PutRequest { message: Some(PutAsk::Chunk(chunk)) }).await;
    }
}

pub(crate) fn each(ranges: &wire::Ranges) -> impl Iterator<Item = u64> + '_ {
    ranges.ranges.iter().flat_map(|range| range.first..=range.last)
}

/// A take call.
pub(crate) struct Taker {
    asks: mpsc::Sender<wire::TakeRequest>,
    news: Streaming<wire::TakeResponse>,
}

/// What came.
#[derive(Debug, PartialEq)]
pub(crate) enum Came {
    /// Whole and looked at.
    Tensor(wire::TakenTensor),
    Interrupted(String),
    Ended,
}

impl Taker {
    pub(crate) async fn call(channel: &Channel) -> Result<Self, Status> {
        let (asks, said) = mpsc::channel(1);
        let news = within("a take call", client(channel).take(ReceiverStream::new(said))).await?.into_inner();
        Ok(Self { asks, news })
    }

    pub(crate) async fn open(channel: &Channel, session: &str) -> Result<Self, Status> {
        Self::open_with(channel, wire::TakeOpen { session: session.to_owned(), ..Default::default() }).await
    }

    pub(crate) async fn open_with(channel: &Channel, open: wire::TakeOpen) -> Result<Self, Status> {
        let mut taker = Self::call(channel).await?;
        taker.say(TakeAsk::Open(open)).await;
        let TakeNews::Opened(_) = taker.hear().await? else { panic!("not `opened`") };
        Ok(taker)
    }

    pub(crate) async fn say(&self, message: TakeAsk) {
        let _ = self.asks.send(wire::TakeRequest { message: Some(message) }).await;
    }

    pub(crate) async fn hear(&mut self) -> Result<TakeNews, Status> {
        Ok(within("news", self.news.message()).await?.unwrap().message.unwrap())
    }

    /// What comes next; the bytes of a tensor that [`put`] made are checked, chunk by chunk, and not kept.
    pub(crate) async fn next(&mut self) -> Result<Came, Status> {
        let mut tensor = match self.hear().await? {
            TakeNews::Tensor(tensor) => tensor,
            TakeNews::Interrupted(interrupted) => return Ok(Came::Interrupted(interrupted.sender)),
            TakeNews::Ended(_) => return Ok(Came::Ended),
            other => panic!("{other:?} in place of a tensor"),
        };
        let length = tensor.length as usize;
        let data = std::mem::take(&mut tensor.data);
        assert!(data == part(tensor.sequence, 0, data.len()), "tensor {}", tensor.sequence);
        let mut offset = data.len();
        while offset < length {
            let TakeNews::Chunk(chunk) = self.hear().await? else { panic!("a tensor is cut off") };
            assert_eq!(chunk.offset as usize, offset);
            assert!(chunk.data == part(tensor.sequence, offset, chunk.data.len()));
            offset += chunk.data.len();
        }
        assert_eq!(offset, length);
        Ok(Came::Tensor(tensor))
    }

    pub(crate) async fn tensor(&mut self) -> wire::TakenTensor {
        match self.next().await.unwrap() {
            Came::Tensor(tensor) => tensor,
            other => panic!("{other:?} in place of a tensor"),
        }
    }

    pub(crate) async fn take(&self, delivery: u64) {
        self.say(TakeAsk::Taken(wire::Taken { deliveries: vec![delivery] })).await;
    }

    /// Takes the next tensor; its sequence.
    pub(crate) async fn taken(&mut self) -> u64 {
        let tensor = self.tensor().await;
        self.take(tensor.delivery).await;
        tensor.sequence
    }

    /// Hears the end, and that the call ends well.
    pub(crate) async fn finish(mut self) {
        assert_eq!(self.next().await.unwrap(), Came::Ended);
        assert!(within("the end", self.news.message()).await.unwrap().is_none());
    }

    pub(crate) async fn failure(&mut self) -> Status {
        loop {
            if let Err(status) = self.hear().await {
                return status;
            }
        }
    }
}

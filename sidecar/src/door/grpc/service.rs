//! The service as tonic calls it, for one client: admits calls, and joins their streams to lanes.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use sealane_sidecar_api::door as wire;
use sealane_sidecar_api::door::door_server::{Door, DoorServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::fault::Fault;
use super::shared::Shared;
use super::{convert, limits, put, status, take};
use crate::door::budget::{Grant, Side};

/// What reflection tells.
pub(super) const DESCRIPTORS: &[u8] = wire::FILE_DESCRIPTOR_SET;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    shared: Arc<Shared>,
    lanes: Arc<Semaphore>,
    /// One too many: every call is told so.
    turned_away: bool,
}

/// What a lane occupies, beside its tensors.
struct Seat {
    _permit: OwnedSemaphorePermit,
    _memory: Grant,
}

/// The service for one connection.
pub(super) fn service(shared: Arc<Shared>, turned_away: bool) -> DoorServer<Client> {
    let lanes = Arc::new(Semaphore::new(limits::LANES_PER_CLIENT_MAX));
    // How long messages may be depends on the call, and is seen to before they get here.
    DoorServer::new(Client { shared, lanes, turned_away })
        .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
        .max_encoding_message_size(usize::MAX)
}

impl Client {
    fn admit(&self) -> Result<(), Fault> {
        if self.turned_away {
            return Err(Fault::TooMany { what: "clients", max: limits::CLIENTS_MAX });
        }
        Ok(())
    }

    fn seat(&self, side: Side, bytes: u64) -> Result<Seat, Fault> {
        self.admit()?;
        if self.shared.draining.is_cancelled() {
            return Err(Fault::Draining);
        }
        let (what, max) = ("lanes of this connection", limits::LANES_PER_CLIENT_MAX);
        let permit = Arc::clone(&self.lanes).try_acquire_owned().map_err(|_| Fault::TooMany { what, max })?;
        let memory = self.shared.budget.grant(side, bytes).ok_or(Fault::NoMemory { bytes })?;
        Ok(Seat { _permit: permit, _memory: memory })
    }
}

#[tonic::async_trait]
impl Door for Client {
    type PutStream = Answers<wire::PutResponse>;
    type TakeStream = Answers<wire::TakeResponse>;
    type SessionsStream = Answers<wire::SessionsResponse>;

    async fn put(
        &self,
        request: Request<Streaming<wire::PutRequest>>,
    ) -> Result<Response<Self::PutStream>, Status> {
        let seat = self.seat(Side::Put, limits::PUT_LANE_BYTES).map_err(|fault| status::of(&fault))?;
        let asks = request.into_inner().map(|ask| convert::put_ask(ask?));
        let (news, told) = mpsc::channel(limits::PUT_NEWS_WAITING_MAX);
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            put::serve(shared, asks, news).await;
            drop(seat);
        });
        let answer = |news: Result<_, Fault>| news.map(convert::put_news).map_err(|fault| status::of(&fault));
        Ok(Response::new(Box::pin(ReceiverStream::new(told).map(answer))))
    }

    async fn take(
        &self,
        request: Request<Streaming<wire::TakeRequest>>,
    ) -> Result<Response<Self::TakeStream>, Status> {
        let seat = self.seat(Side::Take, limits::TAKE_LANE_BYTES).map_err(|fault| status::of(&fault))?;
        let asks = request.into_inner().map(|ask| convert::take_ask(ask?));
        let (news, told) = mpsc::channel(limits::TAKE_NEWS_WAITING_MAX);
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            take::serve(shared, asks, news).await;
            drop(seat);
        });
        let answer =
            |news: Result<_, Fault>| news.map(convert::take_news).map_err(|fault| status::of(&fault));
        Ok(Response::new(Box::pin(ReceiverStream::new(told).map(answer))))
    }

    async fn note(
        &self,
        request: Request<wire::NoteRequest>,
    ) -> Result<Response<wire::NoteResponse>, Status> {
        let wire::NoteRequest { incarnation, batch } = request.into_inner();
        let noted = self
            .admit()
            .and_then(|()| convert::incarnation(&incarnation))
            .and_then(|incarnation| self.shared.notes.note(incarnation, batch));
        noted.map_err(|fault| status::of(&fault))?;
        Ok(Response::new(wire::NoteResponse {}))
    }

    async fn sessions(
        &self,
        request: Request<wire::SessionsRequest>,
    ) -> Result<Response<Self::SessionsStream>, Status> {
        self.admit().map_err(|fault| status::of(&fault))?;
        let listing = &self.shared.listing;
        if request.into_inner().watch {
            let views = listing.watch(self.shared.draining.clone());
            Ok(Response::new(Box::pin(views.map(|views| Ok(convert::sessions(views))))))
        } else {
            let sessions = convert::sessions(listing.now());
            Ok(Response::new(Box::pin(futures::stream::iter([Ok(sessions)]))))
        }
    }

    async fn health(
        &self,
        _: Request<wire::HealthRequest>,
    ) -> Result<Response<wire::HealthResponse>, Status> {
        self.admit().map_err(|fault| status::of(&fault))?;
        let draining = self.shared.draining.is_cancelled();
        Ok(Response::new(convert::health(draining, self.shared.process)))
    }
}

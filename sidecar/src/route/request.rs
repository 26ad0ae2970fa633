//! Lanes that clients ask for: each waits until its session is ready, at most until its deadline.

use std::sync::Arc;

use sealane_types::Reason;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};

use super::Router;
use super::side::Stream;
use crate::desired::{Direction, SessionKey};
use crate::handoff::{LaneError, LaneRequest, ReceiverRequest, SenderRequest};
use crate::session::life::count_failed;
use crate::session::readiness::Readiness;

/// Requests that wait at once.
const WAITING_MAX: usize = 1024;

/// Serves requests until the door is gone.
pub(super) async fn serve(router: Arc<Router>, mut requests: mpsc::Receiver<LaneRequest>) {
    let waiting = Arc::new(Semaphore::new(WAITING_MAX));
    while let Some(request) = requests.recv().await {
        let Ok(permit) = Arc::clone(&waiting).try_acquire_owned() else {
            refuse(
                &router,
                request,
                LaneError::not_ready(Reason::LimitExceeded, "too many lanes are being opened at once"),
            );
            continue;
        };
        let router = Arc::clone(&router);
        tokio::spawn(async move {
            wait(&router, request).await;
            drop(permit);
        });
    }
}

async fn wait(router: &Router, request: LaneRequest) {
    let (key, deadline) = describe(&request);
    let mut changes = router.changes();
    let mut standing = router.context.policy.subscribe();
    loop {
        changes.mark_unchanged();
        standing.mark_unchanged();
        let stream = router.stream(&key);
        let mut news = stream.as_ref().ok().map(Stream::changes);
        let readiness = stream.as_ref().map_or_else(Clone::clone, Stream::readiness);
        let error = match (readiness, stream) {
            (Readiness::Ready, Ok(stream)) => return open(router, &stream, request),
            (refused @ Readiness::Refused { .. }, _) => {
                if let Some(error) = refused.error() {
                    refuse(router, request, error);
                }
                return;
            }
            (waiting, _) => waiting.error(),
        };
        let news = async {
            match &mut news {
                // An error means that the session is gone, which the router's changes tell too.
                Some(news) => drop(news.changed().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = sleep_until(deadline) => {
                if let Some(error) = error {
                    refuse(router, request, error);
                }
                return;
            }
            () = news => {}
            _ = changes.changed() => {}
            _ = standing.changed() => {}
        }
        if is_abandoned(&request) {
            return;
        }
    }
}

fn describe(request: &LaneRequest) -> (SessionKey, Instant) {
    match request {
        LaneRequest::Sender(SenderRequest { session, deadline, .. }) => {
            (SessionKey { name: session.clone(), direction: Direction::Sending }, *deadline)
        }
        LaneRequest::Receiver(ReceiverRequest { session, deadline, .. }) => {
            (SessionKey { name: session.clone(), direction: Direction::Receiving }, *deadline)
        }
    }
}

fn is_abandoned(request: &LaneRequest) -> bool {
    match request {
        LaneRequest::Sender(request) => request.answer.is_closed(),
        LaneRequest::Receiver(request) => request.answer.is_closed(),
    }
}

fn open(router: &Router, stream: &Stream, request: LaneRequest) {
    match (stream, request) {
        (Stream::Sending(sending), LaneRequest::Sender(request)) => sending.open(request),
        (Stream::Receiving(receiving), LaneRequest::Receiver(request)) => receiving.open(request),
        // Sessions are found by direction, so this cannot come about; the client is told all the same.
        (_, request) => refuse(router, request, LaneError::gone()),
    }
}

/// A client that went away needs no answer.
fn refuse(router: &Router, request: LaneRequest, error: LaneError) {
    count_failed(&router.context, describe(&request).0.direction, error.reason);
    match request {
        LaneRequest::Sender(request) => drop(request.answer.send(Err(error))),
        LaneRequest::Receiver(request) => drop(request.answer.send(Err(error))),
    }
}

//! What is on its way to sidecars. A change of the policy goes to all of them at one moment, and to those of an older release
//! the whole: what is encoded and not sent yet is bounded, whatever the number of sidecars.

use std::sync::{Arc, Mutex, PoisonError};

use futures::Stream;
use sealane_sidecar_api::control::FromOperator;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use super::feed::Feed;
use super::registry::Outgoing;
use crate::limits::{SENDING_KIB_MAX, SENDING_TIME};

/// Room for messages that are being sent, in KiB.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SENDING_KIB_MAX as usize)))
    }
}

impl Room {
    /// Waits for room; none when the room was closed, which nobody does.
    async fn enter(&self, bytes: usize) -> Option<Place> {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).clamp(1, SENDING_KIB_MAX);
        let permit = Arc::clone(&self.0).acquire_many_owned(kib).await.ok()?;
        Some(Place(Arc::new(Mutex::new(Some(permit)))))
    }
}

/// The room of one message. It is given back when the stream asks for the next one, because the transport does so when
/// it has sent this one, or after a while: a sidecar that reads nothing must not keep others waiting.
#[derive(Debug)]
struct Place(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Place {
    fn leave_in_time(&self) {
        let permit = Arc::clone(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(SENDING_TIME).await;
            permit.lock().unwrap_or_else(PoisonError::into_inner).take();
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The configurations of one sidecar: always the newest there is when there is room for it, as changes if it understands
/// them.
pub(super) fn configurations(
    outgoing: Outgoing,
    room: Room,
    deltas: bool,
) -> impl Stream<Item = Result<FromOperator, Status>> + Send {
    let state = (outgoing, room, Feed::new(deltas), None::<Place>);
    futures::stream::unfold(state, |(mut outgoing, room, mut feed, sent)| async move {
        drop(sent);
        loop {
            if !feed.is_under_way() {
                outgoing.changed().await.ok()?;
            }
            let Some(told) = outgoing.borrow().clone() else { continue };
            let place = room.enter(feed.next_bytes(&told)).await?;
            let told = if feed.is_under_way() { Some(told) } else { outgoing.borrow_and_update().clone() };
            let Some(message) = told.and_then(|told| feed.next(&told)) else { continue };
            place.leave_in_time();
            return Some((Ok(FromOperator { message: Some(message) }), (outgoing, room, feed, Some(place))));
        }
    })
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};
    use sealane_sidecar_api::control::from_operator;
    use tokio::sync::watch;

    use super::super::registry::Told;
    use super::super::rendered::Renderings;
    use super::super::rendered::tests::with_chain;
    use super::*;

    /// A configuration that takes `kib`.
    fn told(generation: u64, kib: u32) -> Option<Told> {
        let desired = with_chain(&"x".repeat(kib as usize * 1024));
        Some(Told { generation, asked: 0, rendered: Renderings::default().of("demo", &desired) })
    }

    fn generation(item: Option<Option<Result<FromOperator, Status>>>) -> Option<u64> {
        match item??.unwrap().message? {
            from_operator::Message::Configuration(configuration) => Some(configuration.generation),
            from_operator::Message::Delta(delta) => Some(delta.generation),
            from_operator::Message::Refusal(_) => None,
        }
    }

    #[tokio::test]
    async fn what_is_on_its_way_is_bounded_and_the_newest_goes_next() {
        let room = Room::default();
        let (first, outgoing) = watch::channel(None);
        let mut one = Box::pin(configurations(outgoing, room.clone(), false));
        let (second, outgoing) = watch::channel(None);
        let mut other = Box::pin(configurations(outgoing, room, false));
        first.send_replace(told(1, SENDING_KIB_MAX));
        second.send_replace(told(1, SENDING_KIB_MAX));
        assert_eq!(generation(one.next().now_or_never()), Some(1));
        assert!(other.next().now_or_never().is_none(), "there is no room for it");
        second.send_replace(told(2, SENDING_KIB_MAX));
        assert!(one.next().now_or_never().is_none(), "the transport has sent the first and asks for more");
        assert_eq!(generation(other.next().now_or_never()), Some(2), "the older was never encoded");
    }

    #[tokio::test]
    async fn a_configuration_larger_than_the_room_goes_alone() {
        let (sender, outgoing) = watch::channel(None);
        let mut stream = Box::pin(configurations(outgoing, Room::default(), false));
        sender.send_replace(told(1, SENDING_KIB_MAX + 9));
        assert_eq!(generation(stream.next().now_or_never()), Some(1));
        drop(sender);
        assert!(stream.next().await.is_none(), "the stream ends with its sidecar");
    }
}

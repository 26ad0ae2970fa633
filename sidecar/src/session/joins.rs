//! Further links that remotes join to their connections: each brings bytes of large tensors, in a task of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sealane_protocol::connection::{Fail, JoinRequest, LINK_GREETING_BYTES, LinkReceiver, LinkTerms, Sink};
use sealane_protocol::record::{InputBuffer, Rekey};
use sealane_protocol::transfer::Stripe;
use sealane_types::Reason;
use tokio::sync::watch;
use tokio::time::Instant;

use super::stop::Stop;
use crate::context::{Context, SystemRandom};
use crate::link::gate::Admission;
use crate::link::tcp::{Link, Moved};

/// How long somebody may take to greet and to take the answer.
const GREETING: Duration = Duration::from_secs(10);
/// How long links of earlier keys may take to finish the tensors that they bring.
const ENDING: Duration = Duration::from_secs(60);
/// Reads before other tasks get their turn.
const ROUNDS_MAX: u32 = 32;

/// What a joined link brings bytes to.
pub(crate) trait Carry: Send + Sync {
    /// Where the records of one link go.
    fn sink(self: Arc<Self>, stripe: Stripe) -> Box<dyn Carried>;
}

/// Where the records of one link go.
pub(crate) trait Carried: Sink + Send {
    /// Whether no tensor is there in part.
    fn is_between(&self) -> bool;
}

/// A connection that further links can be joined to.
pub(crate) struct Joinable {
    terms: Arc<LinkTerms>,
    rekey: Rekey,
    carry: Arc<dyn Carry>,
    /// Of the connection.
    stop: Stop,
    /// When its links have to be over, once that is known.
    end: watch::Sender<Option<End>>,
}

/// Until when links may bring something.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Their connection is over: they are, too.
    Now,
    /// Others took their place.
    At(Instant),
}

impl Joinable {
    pub(crate) fn new(terms: Arc<LinkTerms>, rekey: Rekey, carry: Arc<dyn Carry>, stop: Stop) -> Self {
        Self { terms, rekey, carry, stop, end: watch::Sender::new(None) }
    }
}

/// Connections by what their further links are known by.
#[derive(Default)]
pub(crate) struct Joins {
    joinable: Mutex<HashMap<[u8; 16], Weak<Joinable>>>,
    /// Numbers for links.
    stripes: std::sync::atomic::AtomicU64,
}

impl Joins {
    pub(crate) fn register(self: Arc<Self>, joinable: Joinable) -> Registered {
        let joinable = Arc::new(joinable);
        self.lock().insert(joinable.terms.name(), Arc::downgrade(&joinable));
        Registered { joins: self, joinable }
    }

    fn find(&self, name: [u8; 16]) -> Option<Arc<Joinable>> {
        self.lock().get(&name).and_then(Weak::upgrade)
    }

    fn next_stripe(&self) -> Stripe {
        Stripe(self.stripes.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 16], Weak<Joinable>>> {
        self.joinable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Joins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joins").field("joinable", &self.lock().len()).finish_non_exhaustive()
    }
}

/// Links can be joined until it is dropped; those that were have some time to finish then.
pub(crate) struct Registered {
    joins: Arc<Joins>,
    joinable: Arc<Joinable>,
}

impl Registered {
    /// The connection is over, and its links with it.
    pub(crate) fn end(self) {
        self.joinable.end.send_replace(Some(End::Now));
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.joins.lock().remove(&self.joinable.terms.name());
        self.joinable.end.send_modify(|end| {
            end.get_or_insert_with(|| End::At(Instant::now() + ENDING));
        });
    }
}

/// Runs a link whose remote greets as one that joins a connection.
pub(crate) async fn accept(context: Arc<Context>, link: Link, admission: Admission) {
    let admitted = tokio::time::timeout(GREETING, admit(&context, &link)).await;
    let (mut receiver, joinable) = match admitted {
        Ok(Ok(admitted)) => admitted,
        Ok(Err(refused)) => return tracing::debug!("a further link was refused: {refused}"),
        Err(_) => return tracing::debug!("a further link did not greet in time"),
    };
    // It is the remote of a connection that has an admission of its own.
    drop(admission);
    let mut carried = Arc::clone(&joinable.carry).sink(context.joins.next_stripe());
    let received = receive(&context, &link, &mut receiver, &joinable, &mut *carried).await;
    let is_over = matches!(*joinable.end.borrow(), Some(End::Now));
    // Somebody may have repeated the greeting, who has no keys: that is nobody's fault.
    if let Err(reason) = received
        && receiver.is_proved()
        && !is_over
    {
        tracing::warn!(%reason, "a further link broke, and its connection with it");
        joinable.stop.ask(reason);
    }
}

async fn admit(context: &Context, link: &Link) -> Result<(LinkReceiver, Arc<Joinable>), Fail> {
    let mut greeting = [0; LINK_GREETING_BYTES];
    let mut filled = 0;
    while filled < greeting.len() {
        match link.take(&mut greeting[filled..]) {
            Moved::Bytes(bytes) => filled += bytes,
            Moved::Blocked => link.ready(false).await.map(drop).map_err(|_| Fail::Closed)?,
            Moved::Over => return Err(Fail::Closed),
        }
    }
    let request = JoinRequest::parse(&greeting)?;
    let joinable = context.joins.find(request.name).ok_or(Fail::Order("no such connection"))?;
    if request.link() >= context.links {
        return Err(Fail::Limit("links"));
    }
    let now = context.clock.moment();
    let (receiver, answer) = joinable.terms.admit(&request, joinable.rekey, &mut SystemRandom, now)?;
    let mut left = &answer[..];
    while !left.is_empty() {
        match link.put(left) {
            Moved::Bytes(bytes) => left = &left[bytes..],
            Moved::Blocked => link.writable().await.map_err(|_| Fail::Closed)?,
            Moved::Over => return Err(Fail::Closed),
        }
    }
    Ok((receiver, joinable))
}

/// Opens what comes until the link is over. An error ends the connection.
async fn receive(
    context: &Context,
    link: &Link,
    receiver: &mut LinkReceiver,
    joinable: &Joinable,
    carried: &mut dyn Carried,
) -> Result<(), Reason> {
    let mut input = InputBuffer::new();
    input.widen();
    let mut end = joinable.end.subscribe();
    loop {
        let mut blocked = false;
        for _ in 0..ROUNDS_MAX {
            match link.take(input.space()) {
                Moved::Bytes(bytes) => input.filled(bytes),
                Moved::Blocked => {
                    blocked = true;
                    break;
                }
                // Between two tensors it wants for nothing; otherwise its connection cannot go on.
                Moved::Over => {
                    let is_between =
                        carried.is_between() && receiver.is_between() && input.unread().is_empty();
                    return if is_between { Ok(()) } else { Err(Reason::LinkLost) };
                }
            }
            match receiver.handle_input(context.clock.moment(), input.unread(), carried) {
                Ok(used) => input.consumed(used),
                Err(fail) => return Err(fail.reason()),
            }
        }
        if blocked {
            input.release();
        }
        let until = *end.borrow_and_update();
        let over = async {
            match until {
                Some(End::Now) => return Ok(()),
                Some(End::At(until)) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
            // What may still lie in the socket is lost.
            Err(Reason::LinkLost)
        };
        tokio::select! {
            biased;
            over = over => return over,
            _ = end.changed() => {}
            () = tokio::task::yield_now(), if !blocked => {}
            ready = link.ready(false), if blocked => if ready.is_err() { return Err(Reason::LinkLost) },
        }
    }
}

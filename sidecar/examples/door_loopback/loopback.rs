//! Sessions that end where they begin: what one client of the door puts, another client of the same door takes.
//! Nothing is attested or encrypted; tests of the door and of its clients use it in place of a second sidecar.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_sidecar::handoff::receiver::{self, Outlet};
use sealane_sidecar::handoff::sender::{self, News, Wish};
use sealane_sidecar::handoff::{
    Delivery, DeliveryId, LaneError, LaneRequest, NoSlot, Parcel, ReceiverRequest, ReplicaId, SenderEvent,
    SenderRequest, SlotId, Span, TakeArena, Turn,
};
use sealane_types::{Reason, SessionName};
use tokio::sync::{Notify, mpsc};

/// A session of this name is never ready.
pub(crate) const NEVER_READY: &str = "never-ready";
/// A session of this name is refused.
pub(crate) const REFUSED: &str = "refused";
/// What moves at once, like a record.
const CHUNK_BYTES: u64 = 64 << 10;

type Sessions = Arc<Mutex<HashMap<SessionName, Arc<Session>>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the door's wishes until the door is gone. `process` stands for the receiving sidecar.
pub(crate) async fn serve(mut requests: mpsc::Receiver<LaneRequest>, process: ReplicaId) {
    let sessions = Sessions::default();
    while let Some(request) = requests.recv().await {
        let name = match &request {
            LaneRequest::Sender(request) => &request.session,
            LaneRequest::Receiver(request) => &request.session,
        };
        let session = locked(&sessions).entry(name.clone()).or_default().clone();
        match request {
            LaneRequest::Sender(request) => drop(tokio::spawn(sending(request, session, process))),
            LaneRequest::Receiver(request) => drop(tokio::spawn(receiving(request, session))),
        }
    }
}

#[derive(Debug, Default)]
struct Session {
    state: Mutex<State>,
    /// Told when receivers come or go.
    changed: Notify,
    deliveries: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    receivers: VecDeque<Arc<Taker>>,
    /// Senders that are open.
    open: usize,
    ended: bool,
}

impl Session {
    fn admit(&self, taker: &Arc<Taker>) {
        let mut state = locked(&self.state);
        if state.ended && state.open == 0 {
            // The task that relays turns is not gone: it has not begun.
            let _ = taker.turns.send(Turn::End);
        }
        state.receivers.push_back(taker.clone());
        self.changed.notify_waiters();
    }

    fn tell(&self, turn: &Turn) {
        for taker in &locked(&self.state).receivers {
            let _ = taker.turns.send(turn.clone());
        }
    }
}

/// A receiver lane.
#[derive(Debug)]
struct Taker {
    arena: Arc<dyn TakeArena>,
    turns: mpsc::UnboundedSender<Turn>,
    /// What it was given and has not taken: whose it is.
    held: Mutex<HashMap<DeliveryId, (Arc<Putter>, Span)>>,
}

/// A sender lane.
#[derive(Debug)]
struct Putter {
    news: Mutex<News>,
    untaken: AtomicU64,
    settled: Notify,
}

impl Putter {
    fn settle(&self, event: SenderEvent) {
        locked(&self.news).tell(event);
        self.untaken.fetch_sub(1, Ordering::SeqCst);
        self.settled.notify_waiters();
    }

    async fn flushed(&self) {
        loop {
            let settled = self.settled.notified();
            if self.untaken.load(Ordering::SeqCst) == 0 {
                return;
            }
            settled.await;
        }
    }

    /// Returns when the client knows what was told so far.
    async fn passed_on(&self) {
        let (mark, mut passed) = {
            let news = locked(&self.news);
            (news.mark(), news.passed())
        };
        // An error means that the client is gone.
        let _ = passed.wait_for(|passed| *passed >= mark).await;
    }
}

fn refusal(session: &SessionName) -> Option<LaneError> {
    match session.as_str() {
        NEVER_READY => Some(LaneError::not_ready(Reason::NoReplicas, "no replica of the peer is connected")),
        REFUSED => Some(LaneError::refused(Reason::PeerNotInPolicy, "the policy does not name the peer")),
        _ => None,
    }
}

async fn sending(request: SenderRequest, session: Arc<Session>, process: ReplicaId) {
    if let Some(error) = refusal(&request.session) {
        if request.session.as_str() == NEVER_READY {
            tokio::time::sleep_until(request.deadline).await;
        }
        let _ = request.answer.send(Err(error));
        return;
    }
    let (lane, events, intake) = sender::lane(request.incarnation, request.base);
    let (mut wishes, news) = intake.split();
    let putter =
        Arc::new(Putter { news: Mutex::new(news), untaken: AtomicU64::new(0), settled: Notify::new() });
    locked(&session.state).open += 1;
    if request.answer.send(Ok((lane, events))).is_err() {
        return interrupted(&session, request.incarnation.0);
    }
    while let Some(wish) = wishes.recv().await {
        match wish {
            Wish::Parcel(parcel) => {
                // Receivers share what was put together, as replicas do behind the real door.
                let shared = parcel.assigned.is_empty() && locked(&session.state).receivers.len() > 1;
                let parcels = if shared { parcel.parts().collect() } else { vec![parcel] };
                putter.untaken.fetch_add(parcels.len() as u64, Ordering::SeqCst);
                let handing_over = async {
                    for parcel in parcels {
                        hand_over(parcel, &session, &putter, process, request.incarnation.0).await;
                    }
                };
                // A client that leaves takes what it has not handed over with it.
                tokio::select! {
                    () = handing_over => {}
                    () = gone(&putter) => break,
                }
            }
            Wish::Flush(answer) => {
                let putter = putter.clone();
                tokio::spawn(async move {
                    putter.flushed().await;
                    let _ = answer.send(Ok(()));
                });
            }
            Wish::Close(answer) => {
                putter.flushed().await;
                let mut state = locked(&session.state);
                state.open -= 1;
                state.ended = state.open == 0;
                let ended = state.ended;
                drop(state);
                if ended {
                    session.tell(&Turn::End);
                }
                let _ = answer.send(Ok(()));
                return;
            }
        }
    }
    interrupted(&session, request.incarnation.0);
}

async fn gone(putter: &Putter) {
    let mut passed = locked(&putter.news).passed();
    while passed.changed().await.is_ok() {}
}

fn interrupted(session: &Session, incarnation: [u8; 16]) {
    locked(&session.state).open -= 1;
    session.tell(&Turn::Interrupted { sender: name(incarnation) });
}

fn name(incarnation: [u8; 16]) -> String {
    format!("loopback/{:02x}{:02x}", incarnation[0], incarnation[1])
}

async fn hand_over(
    parcel: Parcel,
    session: &Session,
    putter: &Arc<Putter>,
    process: ReplicaId,
    incarnation: [u8; 16],
) {
    let span = parcel.span();
    let uncertain = SenderEvent::Uncertain { first: span.first, last: span.last };
    if !parcel.assigned.is_empty() && parcel.assigned != [process] {
        return putter.settle(uncertain);
    }
    let (taker, slot) = place(session, parcel.length).await;
    locked(&putter.news).tell(SenderEvent::Assigned { span, replicas: vec![process] });
    putter.passed_on().await;
    if copy(&parcel, &taker, slot).is_err() {
        taker.arena.release(slot);
        return putter.settle(uncertain);
    }
    let id = DeliveryId(session.deliveries.fetch_add(span.tensors(), Ordering::SeqCst));
    locked(&taker.held).insert(id, (putter.clone(), span));
    let Parcel { header, length, sequence, .. } = parcel;
    let delivery = Delivery { id, slot, length, header, sender: name(incarnation), sequence };
    if taker.turns.send(Turn::Tensor(delivery)).is_err() {
        forget(&taker);
    }
}

/// The next receiver with room, in turn.
async fn place(session: &Session, length: u64) -> (Arc<Taker>, SlotId) {
    loop {
        let changed = session.changed.notified();
        let takers: Vec<_> = locked(&session.state).receivers.iter().cloned().collect();
        let freed: Vec<_> = takers.iter().map(|taker| taker.arena.freed()).collect();
        let mut freed: Vec<_> = freed.iter().map(|freed| Box::pin(freed.notified())).collect();
        for notified in &mut freed {
            notified.as_mut().enable();
        }
        for taker in takers {
            match taker.arena.reserve(length) {
                Ok(slot) => {
                    locked(&session.state).receivers.rotate_left(1);
                    return (taker, slot);
                }
                Err(NoSlot::Full | NoSlot::TooLarge) => {}
            }
        }
        if freed.is_empty() {
            changed.await;
        } else {
            tokio::select! {
                () = changed => {}
                _ = futures::future::select_all(freed) => {}
            }
        }
    }
}

fn copy(parcel: &Parcel, taker: &Taker, slot: SlotId) -> std::io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES.min(parcel.length) as usize];
    let mut done = 0;
    while done < parcel.length {
        let part = &mut chunk[..CHUNK_BYTES.min(parcel.length - done) as usize];
        let bytes = parcel.source.bytes(parcel.offset + done, part.len())?;
        bytes.copy_to(part).map_err(std::io::Error::other)?;
        taker.arena.write_at(slot, done, part)?;
        done += part.len() as u64;
    }
    Ok(())
}

/// What a lost receiver held can have been taken or not.
fn forget(taker: &Taker) {
    for (_, (putter, Span { first, last })) in locked(&taker.held).drain() {
        putter.settle(SenderEvent::Uncertain { first, last });
    }
}

async fn receiving(request: ReceiverRequest, session: Arc<Session>) {
    if let Some(error) = refusal(&request.session) {
        if request.session.as_str() == NEVER_READY {
            tokio::time::sleep_until(request.deadline).await;
        }
        let _ = request.answer.send(Err(error));
        return;
    }
    let (lane, deliveries, outlet) = receiver::lane();
    let (turns, waiting) = mpsc::unbounded_channel();
    let taker = Arc::new(Taker { arena: request.arena, turns, held: Mutex::default() });
    session.admit(&taker);
    if request.answer.send(Ok((lane, deliveries))).is_ok() {
        relay(&taker, outlet, waiting).await;
    }
    locked(&session.state).receivers.retain(|other| !Arc::ptr_eq(other, &taker));
    forget(&taker);
}

/// Turns go out, taken ids come back, until the client is gone.
async fn relay(taker: &Taker, mut outlet: Outlet, mut turns: mpsc::UnboundedReceiver<Turn>) {
    loop {
        tokio::select! {
            Some(turn) = turns.recv() => {
                if outlet.give(turn).is_err() {
                    return;
                }
            }
            taken = outlet.taken() => {
                let Some(taken) = taken else { return };
                let held = locked(&taker.held).remove(&taken);
                if let Some((putter, Span { first, last })) = held {
                    putter.settle(SenderEvent::Taken { first, last });
                }
            }
        }
    }
}

//! One client's sending lane: takes parcels, decides where each goes, and tells the client what became of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sealane_protocol::frame::StreamId;
use sealane_types::{Delivery, Reason};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::Sending;
use super::association::{LaneLink, Refusal};
use super::generations::Generations;
use super::ledger::{Ledger, Settled, ranges, tensors};
use super::news::{LaneNews, Serial};
use super::refusals::RefusalWatch;
use super::schedule::{Choice, Promised, Schedule, drop_stalled};
use super::stream::StreamKey;
use crate::handoff::sender::{Intake, News, PARCELS_WAITING_MAX, Wish};
use crate::handoff::{LaneError, Parcel, SenderEvent, Span};
use crate::session::life::LaneLife;

/// Starts the task of a lane.
pub(super) fn start(
    sending: &Arc<Sending>,
    id: StreamId,
    intake: Intake,
    link: LaneLink,
    inbox: mpsc::UnboundedReceiver<LaneNews>,
) {
    let (wishes, client) = intake.split();
    let lane = Lane {
        sending: Arc::clone(sending),
        id,
        link,
        passed: client.passed(),
        client,
        schedule: Schedule::default(),
        ledger: Ledger::default(),
        wished: VecDeque::new(),
        next: VecDeque::new(),
        awaiting: VecDeque::new(),
        flushes: Vec::new(),
        generations: Generations::default(),
        uncertain: false,
        refusals: RefusalWatch::default(),
        stage: Stage::Open,
        life: LaneLife::begin(&sending.context, &sending.key),
    };
    tokio::spawn(lane.run(wishes, inbox));
}

/// How long ends may take to be confirmed when everything was taken: longer than receivers wait for a sender that was
/// cut off, so that one which has not answered by then is gone for good or was told of an interruption.
const END_WAIT_MAX: Duration = Duration::from_secs(20);

/// How far a lane has come.
#[derive(Debug)]
enum Stage {
    Open,
    /// The client asked to close; everything has to be taken first.
    Closing(oneshot::Sender<Result<(), LaneError>>),
    /// The ends were sent.
    Ending {
        answer: oneshot::Sender<Result<(), LaneError>>,
        left: usize,
        deadline: Instant,
    },
    /// The client is gone; what it handed over is still delivered, then the stream is dropped.
    Abandoned,
}

/// A tensor whose replicas were chosen, until the client knows which.
#[derive(Debug)]
struct Awaiting {
    mark: u64,
    parcel: Parcel,
    promised: Vec<Promised>,
}

struct Lane {
    sending: Arc<Sending>,
    id: StreamId,
    link: LaneLink,
    client: News,
    passed: watch::Receiver<u64>,
    schedule: Schedule,
    ledger: Ledger,
    /// What the client asked for and nobody has looked at.
    wished: VecDeque<Wish>,
    /// Tensors that no replica was chosen for, with the generation of their stream.
    next: VecDeque<(Parcel, u8)>,
    awaiting: VecDeque<Awaiting>,
    flushes: Vec<oneshot::Sender<Result<(), LaneError>>>,
    generations: Generations,
    /// A tensor became uncertain since the last flush.
    uncertain: bool,
    refusals: RefusalWatch,
    stage: Stage,
    life: LaneLife,
}

/// Why a lane's task ends.
enum Over {
    /// Closed, and every receiver recorded it.
    Well,
    /// Closed, and a receiver has not recorded it in time. It will, if it comes back.
    Unconfirmed,
    /// The client is gone and nothing of its is left.
    Abandoned,
    Failed(LaneError),
}

impl Lane {
    async fn run(mut self, mut wishes: mpsc::Receiver<Wish>, mut inbox: mpsc::UnboundedReceiver<LaneNews>) {
        let mut room = self.sending.changes();
        let mut wished = Vec::new();
        let over = loop {
            room.mark_unchanged();
            self.release();
            if let Some(over) = self.proceed() {
                break over;
            }
            let deadline = self.end_deadline();
            let is_waiting = self.is_waiting();
            tokio::select! {
                news = inbox.recv() => match news {
                    Some(LaneNews::Failed(error)) => break Over::Failed(error),
                    Some(news) => self.on_news(news),
                    None => break Over::Failed(LaneError::gone()),
                },
                changed = self.passed.changed(), if !self.awaiting.is_empty() => if changed.is_err() {
                    // The client is gone: nobody will remember where its tensors went, and nobody will ask.
                    self.release_all();
                },
                changed = room.changed(), if !self.next.is_empty() => if changed.is_err() {
                    break Over::Failed(LaneError::gone());
                },
                count = wishes.recv_many(&mut wished, PARCELS_WAITING_MAX), if self.is_hungry() => {
                    self.wished.extend(wished.drain(..));
                    if count == 0 {
                        self.stage = Stage::Abandoned;
                    }
                }
                () = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {}
                () = self.refusals.due(is_waiting) => {
                    if self.sending.delivery() == Delivery::Broadcast && !self.next.is_empty() {
                        drop_stalled(&self.sending.entries());
                    }
                    if let Some(error) = self.refusals.look(self.sending.readiness()) {
                        break Over::Failed(error);
                    }
                }
            }
        };
        self.finish(over);
    }

    /// Whether something depends on a replica.
    fn is_waiting(&self) -> bool {
        !(self.next.is_empty() && self.ledger.is_empty())
    }

    /// Whether the client's next wish can be looked at: everything before it has found its place or its answer.
    fn is_hungry(&self) -> bool {
        self.next.is_empty() && self.flushes.is_empty() && matches!(self.stage, Stage::Open)
    }

    /// Does what can be done of what the client asked for, in order; Some when the lane is over.
    fn proceed(&mut self) -> Option<Over> {
        loop {
            self.place();
            if let Some(over) = self.advance() {
                return Some(over);
            }
            if !self.is_hungry() || self.wished.is_empty() {
                return None;
            }
            while self.flushes.is_empty()
                && matches!(self.stage, Stage::Open)
                && let Some(wish) = self.wished.pop_front()
            {
                match wish {
                    Wish::Parcel(parcel) if self.shares(&parcel) => {
                        self.next.extend(parcel.parts().map(|part| (part, 0)));
                    }
                    Wish::Parcel(parcel) => self.next.push_back((parcel, 0)),
                    Wish::Flush(answer) => self.flushes.push(answer),
                    Wish::Close(answer) => self.stage = Stage::Closing(answer),
                }
            }
        }
    }

    /// Whether replicas share the tensors of a run among them. One that some replica may have part of goes there again.
    fn shares(&self, parcel: &Parcel) -> bool {
        let several = || self.sending.entries().iter().any(|entry| entry.associations.len() > 1);
        parcel.header.run
            && parcel.assigned.is_empty()
            && self.sending.delivery() == Delivery::RoundRobin
            && several()
    }

    fn on_news(&mut self, news: LaneNews) {
        match news {
            LaneNews::Taken { association, sequences } => {
                let settled = self.ledger.taken(association, &sequences);
                self.settle(settled);
            }
            LaneNews::Lost { association, sequences } => {
                let settled = self.ledger.lost(association, &sequences);
                self.settle(settled);
            }
            LaneNews::Stalled { association, dropped } => {
                let settled = self.ledger.dropped(association, &dropped.sequences);
                self.settle(settled);
                self.ends_less(dropped.ends);
            }
            LaneNews::Ended => self.ends_less(1),
            LaneNews::Gone { association, remains } => {
                let settled = self.ledger.lost(association, &remains.uncertain);
                self.settle(settled);
                self.redirect(association, remains.untouched);
                self.ends_less(remains.ends);
            }
            // Handled where the task ends.
            LaneNews::Failed(_) => {}
        }
    }

    /// Tensors of which nothing was sent to a process that is gone find another one, in a stream of their own.
    fn redirect(&mut self, association: Serial, untouched: Vec<Parcel>) {
        let broadcast = self.sending.delivery() == Delivery::Broadcast;
        for parcel in untouched {
            let sequence = parcel.sequence;
            // A tensor that others got too must not reach them twice.
            let alone = !broadcast && !self.ledger.is_shared(sequence);
            if let Some(generation) = alone.then(|| self.generations.redirect(sequence)).flatten() {
                self.ledger.withdraw(sequence);
                self.next.push_back((parcel, generation));
            } else {
                let settled = self.ledger.lost(association, &[sequence]);
                self.settle(settled);
            }
        }
    }

    fn settle(&mut self, settled: Settled) {
        let Settled { taken, uncertain, bytes } = settled;
        self.sending.count(tensors(&taken), bytes);
        if !uncertain.is_empty() {
            self.uncertain = true;
            self.sending.count_uncertain(tensors(&uncertain));
        }
        let events = ranges(taken, |Span { first, last }| SenderEvent::Taken { first, last });
        let uncertain = ranges(uncertain, |Span { first, last }| SenderEvent::Uncertain { first, last });
        for event in events.into_iter().chain(uncertain) {
            // A client that is gone is noticed where its wishes end.
            self.client.tell(event);
        }
    }

    /// Chooses replicas for waiting tensors, in order, while there is room.
    fn place(&mut self) {
        if self.next.is_empty() {
            return;
        }
        let (entries, delivery) = (self.sending.entries(), self.sending.delivery());
        while let Some((parcel, generation)) = self.next.pop_front() {
            match self.schedule.choose(delivery, &entries, &parcel, generation, &self.ledger) {
                Choice::To(promised) => self.assign(parcel, promised),
                Choice::Wait => {
                    self.next.push_front((parcel, generation));
                    return;
                }
                Choice::Uncertain => {
                    let settled = Settled { uncertain: vec![parcel.span()], ..Settled::default() };
                    self.settle(settled);
                }
            }
        }
    }

    fn assign(&mut self, parcel: Parcel, promised: Vec<Promised>) {
        let given =
            promised.iter().map(|Promised { association, .. }| (association.serial(), association.peer()));
        self.ledger.assign(parcel.span(), parcel.length, given);
        for Promised { route, .. } in &promised {
            self.generations.carried(route.generation, parcel.sequence);
        }
        let replicas = promised.iter().map(|promised| promised.route.id()).collect();
        self.client.tell(SenderEvent::Assigned { span: parcel.span(), replicas });
        let awaiting = Awaiting { mark: self.client.mark(), parcel, promised };
        self.awaiting.push_back(awaiting);
        self.release();
    }

    /// Hands over tensors whose replicas the client knows by now.
    fn release(&mut self) {
        let passed = *self.passed.borrow_and_update();
        while let Some(awaiting) = self.awaiting.pop_front_if(|awaiting| awaiting.mark <= passed) {
            self.hand_over(awaiting);
        }
    }

    fn release_all(&mut self) {
        while let Some(awaiting) = self.awaiting.pop_front() {
            self.hand_over(awaiting);
        }
    }

    fn hand_over(&mut self, awaiting: Awaiting) {
        let Awaiting { parcel, promised, .. } = awaiting;
        let started = !parcel.assigned.is_empty();
        let broadcast = self.sending.delivery() == Delivery::Broadcast;
        for Promised { association, route } in promised {
            let key = StreamKey { lane: self.id, generation: route.generation };
            let pushed = association.push(route.process, key, &self.link, parcel.clone(), started);
            let Err(refusal) = pushed else { continue };
            // The replica ended or was dropped between choice and hand-over. What an earlier life of this sidecar may
            // have sent is not sent elsewhere; anything else finds another replica.
            if broadcast && refusal == Refusal::Dropped {
                let settled = self.ledger.dropped(association.serial(), &[parcel.sequence]);
                self.settle(settled);
            } else if started {
                let settled = self.ledger.lost(association.serial(), &[parcel.sequence]);
                self.settle(settled);
            } else {
                self.redirect(association.serial(), vec![parcel.clone()]);
            }
        }
    }

    /// What can be answered now; Some when the lane is over.
    fn advance(&mut self) -> Option<Over> {
        let settled = self.next.is_empty() && self.awaiting.is_empty() && self.ledger.is_empty();
        if !settled {
            return None;
        }
        for flush in std::mem::take(&mut self.flushes) {
            // A client that does not wait any more needs no answer.
            let _ = flush.send(self.verdict());
        }
        let stage = match std::mem::replace(&mut self.stage, Stage::Abandoned) {
            Stage::Closing(answer) => {
                Stage::Ending { answer, left: self.send_ends(), deadline: Instant::now() + END_WAIT_MAX }
            }
            other => other,
        };
        match stage {
            Stage::Ending { answer, left: 0, .. } => {
                let _ = answer.send(self.verdict());
                Some(Over::Well)
            }
            Stage::Ending { answer, left, deadline } if deadline <= Instant::now() => {
                let _ = answer.send(self.verdict().and(Err(unconfirmed(left))));
                Some(Over::Unconfirmed)
            }
            Stage::Abandoned => Some(Over::Abandoned),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// When ends are not waited for any longer.
    fn end_deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Ending { deadline, .. } => Some(*deadline),
            _ => None,
        }
    }

    /// What a flush or close is told, once.
    fn verdict(&mut self) -> Result<(), LaneError> {
        if std::mem::take(&mut self.uncertain) { Err(unknown()) } else { Ok(()) }
    }

    fn send_ends(&self) -> usize {
        let associations = self.sending.entries().into_iter().flat_map(|entry| entry.associations);
        associations.map(|association| association.finish(self.id, &self.link)).sum()
    }

    fn ends_less(&mut self, ends: usize) {
        if let Stage::Ending { left, .. } = &mut self.stage {
            *left = left.saturating_sub(ends);
        }
    }

    fn finish(mut self, over: Over) {
        for association in self.sending.entries().iter().flat_map(|entry| &entry.associations) {
            match over {
                Over::Well | Over::Unconfirmed => association.forget(self.id),
                Over::Abandoned | Over::Failed(_) => association.abort(self.id),
            }
        }
        let well = matches!(over, Over::Well);
        for awaiting in self.awaiting.drain(..) {
            for promised in awaiting.promised {
                promised.association.forgo(awaiting.parcel.length);
            }
        }
        if let Over::Failed(error) = over {
            self.life.fail(error.reason);
            for flush in self.flushes.drain(..) {
                let _ = flush.send(Err(error.clone()));
            }
            if let Stage::Closing(answer) | Stage::Ending { answer, .. } = self.stage {
                let _ = answer.send(Err(error.clone()));
            }
            self.client.tell(SenderEvent::Failed(error));
        }
        self.sending.lane_over(self.id, well);
    }
}

fn unknown() -> LaneError {
    LaneError::closed(Reason::LinkLost, "it cannot be known whether some tensors were taken; see Uncertain")
}

fn unconfirmed(ends: usize) -> LaneError {
    let message = format!(
        "everything was taken, but {ends} receiving replicas have not confirmed the end of the stream within {} s; \
         they hear of it when they are back",
        END_WAIT_MAX.as_secs()
    );
    LaneError::closed(Reason::LinkLost, message)
}

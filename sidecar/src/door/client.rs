//! One client: its packets in order, its segments and its lanes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_types::{Reason, SessionName};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Shared;
use super::budget::{Asker, Budget, Side};
use super::codec::{Failure, PutEntry, Reply, Request};
use super::convert;
use super::fault::Fault;
use super::limits::{self, MORE_MEMORY};
use super::receiver::{self, Receiving};
use super::segment::{Segment, SegmentIds, rounded};
use super::sender::{self, Sending};
use super::socket::Socket;
use super::take::TakeSegments;
use crate::metrics::labels::KindLabel;

/// Serves a client until it leaves or breaks a rule. Dropping the future ends its lanes as its crash would.
pub(super) async fn serve(socket: Arc<Socket>, shared: Arc<Shared>) {
    let metrics = shared.metrics.clone();
    let budget = shared.budget.clone();
    let mut client = Client::new(socket.clone(), shared);
    // Dropped before the client's segments are.
    let here = Here { budget, over: false };
    let Err(fault) = client.run().await;
    here.ends();
    // Nothing follows the last word.
    client.tasks.shutdown().await;
    match fault {
        Fault::Gone | Fault::Socket(_) => {
            tracing::debug!(client = client.name, %fault, "a client left the door")
        }
        fault => {
            tracing::warn!(client = client.name, %fault, "a client broke a rule of the door");
            metrics.faults.get_or_create(&KindLabel { kind: fault.kind() }).inc();
            last_word(&socket, Failure::Misuse, convert::reason(&fault), &fault.to_string());
        }
    }
}

/// A client that is connected. When this goes without its end, the sidecar ends, and the client keeps its memory: what
/// it views, and what it puts again.
struct Here {
    budget: Arc<Budget>,
    over: bool,
}

impl Here {
    /// The client left, or was turned out.
    fn ends(mut self) {
        self.over = true;
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if !self.over {
            self.budget.end();
        }
    }
}

/// Tells a client that the door is full.
pub(super) fn turn_away(socket: &Socket) {
    let message = format!("the door serves {} clients already; close some", limits::CLIENTS_MAX);
    last_word(socket, Failure::NotReady, Reason::LimitExceeded, &message);
}

fn last_word(socket: &Socket, failure: Failure, reason: Reason, message: &str) {
    let mut packet = Vec::new();
    Reply::Failed { lane: 0, failure, reason, message }.encode(&mut packet);
    // Whoever does not listen is not waited for.
    let _ = socket.send_now(&packet);
}

/// The put segments of a client, shared with the task that makes them.
#[derive(Debug, Default)]
struct PutSegments(Mutex<HashMap<u32, Arc<Segment>>>);

impl PutSegments {
    fn all(&self) -> MutexGuard<'_, HashMap<u32, Arc<Segment>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Want {
    lane: u32,
    bytes: u64,
}

#[derive(Debug)]
enum Lane {
    Sending(Sending),
    Receiving(Receiving),
}

impl Lane {
    fn finished(&self) -> bool {
        match self {
            Self::Sending(lane) => lane.finished(),
            Self::Receiving(lane) => lane.finished(),
        }
    }
}

struct Client {
    socket: Arc<Socket>,
    shared: Arc<Shared>,
    name: String,
    segments: Arc<PutSegments>,
    ids: Arc<SegmentIds>,
    wants: mpsc::Sender<Want>,
    lanes: HashMap<u32, Lane>,
    last_lane: u32,
    /// Every task of this client; dropping it ends them.
    tasks: JoinSet<()>,
}

/// `run` ends with a fault only; leaving is one too.
type Never = std::convert::Infallible;

impl Client {
    fn new(socket: Arc<Socket>, shared: Arc<Shared>) -> Self {
        let (wants, waiting) = mpsc::channel(limits::WANTS_WAITING_MAX);
        let segments = Arc::new(PutSegments::default());
        let ids = Arc::new(SegmentIds::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(make_segments(waiting, socket.clone(), shared.clone(), segments.clone(), ids.clone()));
        let (name, lanes) = (String::new(), HashMap::new());
        Self { socket, shared, name, segments, ids, wants, lanes, last_lane: 0, tasks }
    }

    async fn run(&mut self) -> Result<Never, Fault> {
        let mut buffer = Box::new([0; limits::MESSAGE_BYTES_MAX]);
        let first = timeout(limits::HELLO_SECONDS, self.receive(&mut buffer));
        let Request::Hello { name } = first.await.map_err(|_| Fault::HelloTimeout)?? else {
            return Err(Fault::NoHello);
        };
        self.name = name;
        self.welcome().await?;
        self.tasks.spawn(ask_for_idle(self.socket.clone(), self.shared.clone(), asker(&self.ids)));
        loop {
            // Nothing below waits for this client, so its packets are always read and it cannot lock itself up.
            let request = self.receive(&mut buffer).await?;
            let is_lone = matches!(&request, Request::Put { lane, .. } if self.is_idle(*lane));
            self.handle(request)?;
            if is_lone {
                // It leaves before more is read: what follows is as a rule what nobody waits for, and takes as long.
                tokio::task::yield_now().await;
            }
            while self.tasks.try_join_next().is_some() {}
        }
    }

    async fn receive(&self, buffer: &mut [u8; limits::MESSAGE_BYTES_MAX]) -> Result<Request, Fault> {
        let actual = self.socket.receive(buffer).await?;
        if actual == 0 {
            return Err(Fault::Gone);
        }
        let packet = buffer.get(..actual).ok_or(Fault::TooLong { actual, max: limits::MESSAGE_BYTES_MAX })?;
        Request::parse(packet)
    }

    async fn welcome(&self) -> Result<(), Fault> {
        let put_bytes_max = self.shared.budget.side_bytes_max();
        let mut packet = Vec::new();
        Reply::Welcome { put_bytes_max, process: self.shared.process }.encode(&mut packet);
        Ok(self.socket.send(&packet).await?)
    }

    fn handle(&mut self, request: Request) -> Result<(), Fault> {
        match request {
            Request::Hello { .. } => Err(Fault::SecondHello),
            Request::Want { lane, bytes } => self.want(Want { lane, bytes }),
            Request::OpenSender { lane, session, incarnation, base, timeout, resume } => {
                let deadline = Instant::now() + timeout;
                let Some(session) = self.admit(lane, session)? else { return Ok(()) };
                tracing::debug!(client = self.name, lane, %session, resume, "opening a lane that sends");
                let opening = sender::Opening { lane, session, incarnation, base, deadline };
                let (lanes, socket) = (self.shared.lanes.clone(), self.socket.clone());
                let metrics = self.shared.metrics.clone();
                let sending = Sending::start(opening, lanes, socket, metrics, &mut self.tasks);
                self.lanes.insert(lane, Lane::Sending(sending));
                Ok(())
            }
            Request::OpenReceiver { lane, session, timeout } => {
                let deadline = Instant::now() + timeout;
                let Some(session) = self.admit(lane, session)? else { return Ok(()) };
                tracing::debug!(client = self.name, lane, %session, "opening a lane that receives");
                let arena = TakeSegments::new(&self.shared.budget, self.ids.clone());
                let (lanes, socket) = (self.shared.lanes.clone(), self.socket.clone());
                let opening = receiver::Opening { lane, session, arena, deadline };
                let receiving = Receiving::start(opening, lanes, socket, &mut self.tasks);
                self.lanes.insert(lane, Lane::Receiving(receiving));
                Ok(())
            }
            Request::Put { lane, entries } => self.put(lane, entries),
            Request::Close { lane, abandon } => self.close(lane, abandon),
            Request::Took { lane, deliveries, partly } => match self.lane(lane)? {
                Some(Lane::Receiving(receiving)) => receiving.took(&deliveries, partly),
                Some(Lane::Sending(_)) => Err(Fault::WrongLane(lane)),
                None => Ok(()),
            },
            Request::Release { lane, deliveries, taken } => match self.lane(lane)? {
                Some(Lane::Receiving(receiving)) => {
                    if taken {
                        receiving.took(&deliveries, false)?;
                    }
                    receiving.release(&deliveries)
                }
                Some(Lane::Sending(_)) => Err(Fault::WrongLane(lane)),
                None => Ok(()),
            },
            Request::Drop { segment } => {
                let dropped = self.segments.all().remove(&segment);
                dropped.map(drop).ok_or(Fault::UnknownSegment(segment))
            }
        }
    }

    /// Checks the number and session of a new lane. None when it was refused: what is wrong with one lane ends no other.
    fn admit(&mut self, lane: u32, session: String) -> Result<Option<SessionName>, Fault> {
        if lane <= self.last_lane {
            return Err(Fault::LaneNumber(lane));
        }
        if self.lanes.len() >= limits::LANES_PER_CLIENT_MAX {
            self.lanes.retain(|_, lane| !lane.finished());
        }
        self.last_lane = lane;
        if self.lanes.len() >= limits::LANES_PER_CLIENT_MAX {
            self.refuse(lane, &Fault::TooMany { what: "lanes", max: limits::LANES_PER_CLIENT_MAX });
            return Ok(None);
        }
        let Ok(name) = SessionName::new(session.as_str()) else {
            self.refuse(lane, &Fault::SessionName(session));
            return Ok(None);
        };
        Ok(Some(name))
    }

    fn refuse(&mut self, lane: u32, fault: &Fault) {
        self.shared.metrics.faults.get_or_create(&KindLabel { kind: fault.kind() }).inc();
        let (mut packet, message) = (Vec::new(), fault.to_string());
        let (failure, reason) = (Failure::Refused, convert::reason(fault));
        Reply::Failed { lane, failure, reason, message: &message }.encode(&mut packet);
        let socket = self.socket.clone();
        // A client that is gone by then is noticed by whoever reads.
        self.tasks.spawn(async move { drop(socket.send(&packet).await) });
    }

    /// The lane, or None for one that is over and forgotten: the client may not know yet.
    fn lane(&mut self, lane: u32) -> Result<Option<&mut Lane>, Fault> {
        if lane == 0 || lane > self.last_lane {
            return Err(Fault::WrongLane(lane));
        }
        Ok(self.lanes.get_mut(&lane))
    }

    /// Whether nothing that was put into the lane is under way.
    fn is_idle(&self, lane: u32) -> bool {
        matches!(self.lanes.get(&lane), Some(Lane::Sending(sending)) if sending.is_idle())
    }

    fn put(&mut self, lane: u32, entries: Vec<PutEntry>) -> Result<(), Fault> {
        let segments = self.segments.clone();
        let find = |id: u32| segments.all().get(&id).cloned();
        let parcels: Result<Vec<_>, Fault> =
            entries.into_iter().map(|entry| convert::parcel(entry, find)).collect();
        let parcels = parcels?;
        match self.lane(lane)? {
            Some(Lane::Sending(sending)) => sending.put(parcels),
            Some(Lane::Receiving(_)) => Err(Fault::WrongLane(lane)),
            None => Ok(()),
        }
    }

    fn close(&mut self, number: u32, abandon: bool) -> Result<(), Fault> {
        match self.lane(number)? {
            Some(Lane::Sending(lane)) if abandon => lane.abandon(),
            Some(Lane::Sending(lane)) => return lane.close(),
            Some(Lane::Receiving(lane)) if abandon => lane.abandon(),
            Some(Lane::Receiving(lane)) => lane.close(),
            None => {}
        }
        Ok(())
    }

    fn want(&self, want: Want) -> Result<(), Fault> {
        if want.bytes == 0 {
            return Err(Fault::EmptySegment);
        }
        let too_many = |_| Fault::TooMany { what: "unanswered WANTs", max: limits::WANTS_WAITING_MAX };
        self.wants.try_send(want).map_err(too_many)
    }
}

/// Makes put segments one after the other: filling them with pages takes milliseconds.
async fn make_segments(
    mut wants: mpsc::Receiver<Want>,
    socket: Arc<Socket>,
    shared: Arc<Shared>,
    segments: Arc<PutSegments>,
    ids: Arc<SegmentIds>,
) {
    while let Some(want) = wants.recv().await {
        let made = if segments.all().len() < limits::SEGMENTS_PER_CLIENT_MAX {
            make_segment(want.bytes, &shared, &ids).await
        } else {
            Err("this client has as many segments as it may; it should drop idle ones".to_owned())
        };
        let mut packet = Vec::new();
        let lane = want.lane;
        let sent = match made {
            Ok(segment) => {
                let segment = Arc::new(segment);
                segments.all().insert(segment.id, segment.clone());
                Reply::Segment { lane, segment: segment.id, bytes: segment.bytes, take: false }
                    .encode(&mut packet);
                socket.send_with(&packet, segment.descriptor()).await
            }
            Err(message) => {
                shared.budget.ask(Some(asker(&ids)));
                let (bytes, reason) = (want.bytes, Reason::LimitExceeded);
                Reply::NoSegment { lane, bytes, reason, message: &message }.encode(&mut packet);
                socket.send(&packet).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn asker(ids: &Arc<SegmentIds>) -> Asker {
    Asker(Arc::as_ptr(ids).addr())
}

/// Asks the client for the put segments in which nothing lies, when others of the pod want memory that there is not.
async fn ask_for_idle(socket: Arc<Socket>, shared: Arc<Shared>, own: Asker) {
    let mut asked = shared.budget.asked();
    while asked.changed().await.is_ok() {
        if *asked.borrow_and_update() == Some(own) {
            continue;
        }
        let mut packet = Vec::new();
        let message = "others of this pod want memory; drop the segments in which nothing lies";
        Reply::NoSegment { lane: 0, bytes: 0, reason: Reason::LimitExceeded, message }.encode(&mut packet);
        if socket.send(&packet).await.is_err() {
            return;
        }
        sleep(limits::IDLE_ASK_PAUSE).await;
    }
}

async fn make_segment(bytes: u64, shared: &Shared, ids: &SegmentIds) -> Result<Segment, String> {
    let full = || {
        let side = shared.budget.side_bytes_max() >> 20;
        format!(
            "{bytes} bytes do not fit: the tensors that this pod puts may take {side} MiB together, and less \
             beside large ones; {MORE_MEMORY}"
        )
    };
    let size = rounded(bytes).ok_or_else(full)?;
    let grant = shared.budget.grant(Side::Put, size).ok_or_else(full)?;
    let id = ids.next().ok_or_else(|| "this client used up all segment numbers; connect again".to_owned())?;
    match tokio::task::spawn_blocking(move || Segment::create(id, size, grant)).await {
        Ok(Ok(segment)) => Ok(segment),
        Ok(Err(error)) => Err(format!("the kernel gave no memory: {error}")),
        Err(_) => Err("the sidecar is ending".to_owned()),
    }
}

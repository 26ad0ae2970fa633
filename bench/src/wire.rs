//! What every contender can do, and the thread in which one end of it does it.
//!
//! Each end has a thread and a single-threaded runtime of its own, as the two sidecars of a connection have: nothing
//! moves between cores because a scheduler felt like it, and all contenders are treated alike.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::carrier::{Carrier, Plug};
use crate::message::{Inbox, Payloads};
use crate::steady::SteadyFlow;

/// One end of a connection that carries messages.
pub(crate) trait Wire {
    /// Queues a message; it may leave later.
    async fn put(&mut self, message: &Bytes) -> Result<()>;
    /// Returns when everything that was put has left.
    async fn flush(&mut self) -> Result<()>;
    /// Takes messages until `inbox` has counted up to `count`.
    async fn take(&mut self, inbox: &mut Inbox, count: u64) -> Result<()>;
    /// Takes the next message and sends it back.
    async fn echo(&mut self, inbox: &mut Inbox) -> Result<()>;
}

/// Which end of a connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Dials, and sends where bytes go one way.
    Dialler,
    Accepter,
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Dialler => Self::Accepter,
            Self::Accepter => Self::Dialler,
        }
    }
}

/// Makes an end of a contender out of bytes.
pub(crate) trait Open: Clone + Send + 'static {
    type Wire: Wire;

    /// What has to be there before an end is made and is no part of making it. Not timed.
    async fn prepare(&self) -> Result<()> {
        Ok(())
    }

    async fn open(&self, carrier: Carrier, side: Side) -> Result<Self::Wire>;
}

/// Makes an end of a contender out of what connects it with the other one, whatever that is.
pub(crate) trait Start: Clone + Send + 'static {
    type Wire: Wire;
    /// Whether it moves bytes in tasks of its own, which have to run while the end waits for orders.
    const BACKGROUND: bool = false;

    async fn start(&self, plug: Plug, side: Side) -> Result<Self::Wire>;
}

impl<O: Open> Start for O {
    type Wire = O::Wire;

    async fn start(&self, plug: Plug, side: Side) -> Result<O::Wire> {
        self.open(plug.open()?, side).await
    }
}

/// What an end is to do next, with messages from number `first` on.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Order {
    Put { first: u64, count: u64 },
    Take { count: u64, thorough: bool },
    Ask { first: u64, count: u64, thorough: bool },
    Echo { count: u64, thorough: bool },
}

/// What an end of this process can be told.
#[derive(Debug)]
enum Task {
    Order(Order),
    /// Messages from number `first` on until the flow is over.
    Send {
        flow: Arc<SteadyFlow>,
        first: u64,
    },
    Receive {
        flow: Arc<SteadyFlow>,
    },
}

/// How an order went.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// Microseconds of each round trip, for the end that asked.
    pub(crate) latencies: Vec<f64>,
    pub(crate) wrong: Option<String>,
}

/// A thread with one end.
#[derive(Debug)]
pub(crate) struct End {
    tasks: Option<Sender<Task>>,
    done: Receiver<Result<Done>>,
    thread: Option<JoinHandle<()>>,
}

impl End {
    pub(crate) fn start<S: Start>(starter: S, plug: Plug, side: Side, payloads: Payloads) -> Result<Self> {
        let (tasks, incoming) = mpsc::channel();
        let (outgoing, done) = mpsc::channel();
        let work = move || {
            let mut runtime = if S::BACKGROUND {
                tokio::runtime::Builder::new_multi_thread()
            } else {
                tokio::runtime::Builder::new_current_thread()
            };
            let runtime = runtime.worker_threads(1).enable_all().build();
            let result = runtime.map_err(Into::into).and_then(|runtime| {
                runtime.block_on(serve(&starter, plug, side, payloads, &incoming, &outgoing))
            });
            if let Err(error) = result {
                // Whoever waits for the end learns why it is gone; nobody waits any more when the run is over.
                let _ = outgoing.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name(format!("{side:?}")).spawn(work)?;
        Ok(Self { tasks: Some(tasks), done, thread: Some(thread) })
    }

    pub(crate) fn order(&self, order: Order) {
        self.tell(Task::Order(order));
    }

    /// Sends messages from number `first` on until the flow is over.
    pub(crate) fn send(&self, flow: Arc<SteadyFlow>, first: u64) {
        self.tell(Task::Send { flow, first });
    }

    pub(crate) fn receive(&self, flow: Arc<SteadyFlow>) {
        self.tell(Task::Receive { flow });
    }

    fn tell(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            // An end that is gone has left its reason in `done`.
            let _ = tasks.send(task);
        }
    }

    /// Fails where the end is done although nobody stopped it.
    pub(crate) fn is_at_work(&self) -> Result<()> {
        match self.done.try_recv() {
            Err(TryRecvError::Empty) => Ok(()),
            Ok(Err(error)) => Err(error),
            Ok(Ok(_)) | Err(TryRecvError::Disconnected) => Err(anyhow!("an end stopped without a reason")),
        }
    }

    pub(crate) fn done(&self) -> Result<Done> {
        self.done.recv().map_err(|_| anyhow!("an end stopped without a reason"))?
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

/// Opens the end and does its tasks until there are no more. Tasks are awaited by blocking: the runtime has nothing else to do
/// then.
async fn serve<S: Start>(
    starter: &S,
    plug: Plug,
    side: Side,
    payloads: Payloads,
    tasks: &Receiver<Task>,
    done: &Sender<Result<Done>>,
) -> Result<()> {
    let began = Instant::now();
    let mut wire = starter.start(plug, side).await?;
    let mut inbox = Inbox::new(payloads.clone());
    let opened = Done { began, ended: Instant::now(), latencies: Vec::new(), wrong: None };
    done.send(Ok(opened))?;
    for task in tasks {
        let began = Instant::now();
        let latencies = match task {
            Task::Order(order) => follow(&mut wire, order, &payloads, &mut inbox).await?,
            Task::Send { flow, first } => {
                flow.put(&mut wire, &payloads, first).await?;
                Vec::new()
            }
            Task::Receive { flow } => {
                flow.take(&mut wire, &mut inbox).await?;
                Vec::new()
            }
        };
        let ended = Instant::now();
        done.send(Ok(Done { began, ended, latencies, wrong: inbox.take_wrong() }))?;
    }
    Ok(())
}

async fn follow(
    wire: &mut impl Wire,
    order: Order,
    payloads: &Payloads,
    inbox: &mut Inbox,
) -> Result<Vec<f64>> {
    let mut latencies = Vec::new();
    match order {
        Order::Put { first, count } => {
            for number in first..first + count {
                wire.put(payloads.message(number)).await?;
            }
            wire.flush().await?;
        }
        Order::Take { count, thorough } => {
            inbox.be_thorough(thorough);
            wire.take(inbox, count).await?;
        }
        Order::Ask { first, count, thorough } => {
            inbox.be_thorough(thorough);
            latencies.reserve(usize::try_from(count)?);
            for number in first..first + count {
                let began = Instant::now();
                wire.put(payloads.message(number)).await?;
                wire.flush().await?;
                wire.take(inbox, number + 1).await?;
                latencies.push(began.elapsed().as_secs_f64() * 1e6);
            }
        }
        Order::Echo { count, thorough } => {
            inbox.be_thorough(thorough);
            for _ in 0..count {
                wire.echo(inbox).await?;
            }
        }
    }
    Ok(latencies)
}

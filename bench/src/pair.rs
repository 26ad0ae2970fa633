//! Both ends of a contender, wherever the accepting one is.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};

use crate::carrier::{Path, Plug};
use crate::message::Payloads;
use crate::remote::{self, Remote, Server};
use crate::steady::SteadyFlow;
use crate::wire::{Done, End, Order, Side, Start};

/// Both ends of a contender.
#[derive(Debug)]
pub(crate) struct Pair {
    dialler: End,
    accepter: Accepter,
    next: u64,
}

/// Where the accepting end is.
#[derive(Debug)]
enum Accepter {
    Here(End),
    There(Remote),
}

impl Pair {
    /// Connects both ends over `path`.
    pub(crate) fn connect<S: Start>(starter: &S, path: Path, payloads: &Payloads) -> Result<Self> {
        Self::between(starter, path.connect().context("connecting two ends")?, payloads)
    }

    /// Connects both ends by what is there already.
    pub(crate) fn between<S: Start>(
        starter: &S,
        (one, other): (Plug, Plug),
        payloads: &Payloads,
    ) -> Result<Self> {
        let dialler = End::start(starter.clone(), one, Side::Dialler, payloads.clone());
        let accepter = End::start(starter.clone(), other, Side::Accepter, payloads.clone());
        Self::of(dialler?, Accepter::Here(accepter?))
    }

    /// The same with the accepting end on a server.
    pub(crate) fn reach<S: Start>(
        starter: &S,
        server: &Server,
        contender: remote::Contender,
        payloads: &Payloads,
    ) -> Result<Self> {
        let (accepter, data) = server.meet(contender, payloads.length())?;
        let dialler = End::start(starter.clone(), data, Side::Dialler, payloads.clone())?;
        Self::of(dialler, Accepter::There(accepter))
    }

    fn of(dialler: End, mut accepter: Accepter) -> Result<Self> {
        dialler.done().context("the dialling end")?;
        accepter.done().context("the accepting end")?;
        Ok(Self { dialler, accepter, next: 0 })
    }

    /// Sends `count` messages one way. The time runs from the first put until the last message is in memory.
    pub(crate) fn burst(&mut self, count: u64, thorough: bool) -> Result<Done> {
        let first = self.advance(count);
        self.accepter.order(Order::Take { count: self.next, thorough });
        self.dialler.order(Order::Put { first, count });
        let put = self.dialler.done()?;
        let taken = self.accepter.done()?;
        Ok(Done { began: put.began, ..taken })
    }

    /// Sends `count` messages there and back, one after the other.
    pub(crate) fn round_trips(&mut self, count: u64, thorough: bool) -> Result<Done> {
        let first = self.advance(count);
        self.accepter.order(Order::Echo { count, thorough });
        self.dialler.order(Order::Ask { first, count, thorough });
        let asked = self.dialler.done()?;
        let echoed = self.accepter.done()?;
        Ok(Done { wrong: asked.wrong.clone().or(echoed.wrong), ..asked })
    }

    /// Lets messages flow one way from now on. Both ends have to be here.
    pub(crate) fn flow(self) -> Result<FlowingPair> {
        let Accepter::Here(accepter) = self.accepter else { bail!("the other end is elsewhere") };
        let flow = Arc::new(SteadyFlow::new(self.next));
        accepter.receive(Arc::clone(&flow));
        self.dialler.send(Arc::clone(&flow), self.next);
        Ok(FlowingPair { dialler: self.dialler, accepter, flow })
    }

    const fn advance(&mut self, count: u64) -> u64 {
        let first = self.next;
        self.next += count;
        first
    }
}

/// A pair over which messages flow without an end.
#[derive(Debug)]
pub(crate) struct FlowingPair {
    dialler: End,
    accepter: End,
    flow: Arc<SteadyFlow>,
}

impl FlowingPair {
    /// Messages in the receiver's memory so far.
    pub(crate) fn arrived(&self) -> Result<u64> {
        self.dialler.is_at_work().context("the sending end")?;
        self.accepter.is_at_work().context("the receiving end")?;
        Ok(self.flow.arrived())
    }

    /// Breaks it off; yields what was wrong with it.
    pub(crate) fn end(self) -> Result<Option<String>> {
        self.flow.stop();
        self.dialler.done()?;
        Ok(self.accepter.done()?.wrong)
    }
}

impl Drop for FlowingPair {
    /// Threads of ends that nobody stops would never end.
    fn drop(&mut self) {
        self.flow.stop();
    }
}

impl Accepter {
    fn order(&mut self, order: Order) {
        match self {
            Self::Here(end) => end.order(order),
            Self::There(remote) => remote.order(order),
        }
    }

    fn done(&mut self) -> Result<Done> {
        match self {
            Self::Here(end) => end.done(),
            Self::There(remote) => remote.done(),
        }
    }
}

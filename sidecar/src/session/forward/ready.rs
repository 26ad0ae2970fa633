//! Tells the task of a connection which of its pipes have something to do, without a task for each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use sealane_protocol::frame::PipeId;
use tokio::sync::Notify;

use super::socket::Socket;

/// What happened to the local sockets of one connection.
#[derive(Debug)]
pub(super) struct Ready {
    inner: Mutex<News>,
    /// Of the connection's task.
    wake: Arc<Notify>,
}

/// Since the last look. Bounded by the pipes: each is woken once for each time that it waits.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) readable: Vec<PipeId>,
    pub(super) writable: Vec<PipeId>,
    /// With what a person should know of a server that was not.
    pub(super) reached: Vec<(PipeId, Result<Socket, String>)>,
}

/// Which attempt is worth making again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Take,
    Put,
}

struct PipeWaker {
    pipe: PipeId,
    attempt: Attempt,
    ready: Arc<Ready>,
}

impl Wake for PipeWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut news = self.ready.lock();
        match self.attempt {
            Attempt::Take => news.readable.push(self.pipe),
            Attempt::Put => news.writable.push(self.pipe),
        }
        drop(news);
        self.ready.wake.notify_one();
    }
}

impl Ready {
    pub(super) fn new(wake: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), wake })
    }

    /// Wakers for taking from and putting into the socket of `pipe`.
    pub(super) fn wakers(self: &Arc<Self>, pipe: PipeId) -> (Waker, Waker) {
        let waker = |attempt| Waker::from(Arc::new(PipeWaker { pipe, attempt, ready: Arc::clone(self) }));
        (waker(Attempt::Take), waker(Attempt::Put))
    }

    /// The target of `pipe` was reached, or not.
    pub(super) fn reached(&self, pipe: PipeId, socket: Result<Socket, String>) {
        self.lock().reached.push((pipe, socket));
        self.wake.notify_one();
    }

    pub(super) fn news(&self) -> News {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, News> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The socket of one pod: who connects is identified, asked what it wants, and answered once.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sealane_types::Digest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::caller::Caller;
use super::identity::{Claim, Identity};
use super::kubelet::ListPods;
use super::quoter::Quoter;
use super::refusal::Refusal;
use super::runtime::AskRuntime;
use crate::evidence::node_message::{Answer, MessageError, Question, QuoteQuestion, send};
use crate::rate::{RateLimit, SharedBucket};

/// From connect to the last byte of the answer; a sidecar waits a little longer.
const DEADLINE: Duration = Duration::from_secs(7);
/// To know the answer. What takes longer is told, and asked for again.
const ANSWER_DEADLINE: Duration = Duration::from_millis(6_500);
/// Questions of one pod: a burst, then so many per second. A pair of sidecars quotes once per re-attestation.
const POD: RateLimit = RateLimit::per_second(16, 2);
/// Quotes of the whole node, for sidecars that were identified: nobody else takes any of them.
const NODE: RateLimit = RateLimit::per_second(128, 32);
/// Connections of one pod at a time; more wait to be accepted.
const POD_CONNECTIONS: usize = 4;

/// What all sockets of a node share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) kubelet: Arc<dyn ListPods>,
    pub(super) runtime: Arc<dyn AskRuntime>,
    pub(super) quoter: Quoter,
    /// Digests of the images that the operator injects.
    pub(super) sidecars: BTreeSet<Digest>,
    /// The process file system of the node.
    pub(super) proc: PathBuf,
    quotes: SharedBucket,
}

impl Desk {
    pub(super) fn new(
        kubelet: Arc<dyn ListPods>,
        runtime: Arc<dyn AskRuntime>,
        quoter: Quoter,
        sidecars: BTreeSet<Digest>,
        proc: PathBuf,
    ) -> Self {
        Self { kubelet, runtime, quoter, sidecars, proc, quotes: SharedBucket::full(NODE) }
    }

    /// Whose sidecar `caller` is, if it is one and asks through its own pod's socket.
    async fn identify(&self, caller: &Caller, pod_uid: &str) -> Result<Identity, Refusal> {
        let container = caller.container(&self.proc)?;
        if container.pod_uid != pod_uid {
            return Err(Refusal::OtherPod);
        }
        let (pods, containers) = tokio::join!(self.kubelet.pods(), self.runtime.containers(pod_uid));
        let containers = containers?;
        let claim = Claim::of(&container, &pods?, &containers, &self.sidecars)?;
        // Asked for pods with a sidecar alone: images are many.
        let identity = claim.confirmed(&containers, &self.runtime.images(&containers).await?)?;
        // What was looked up is about the process that waits for the answer, not about one that had its number.
        caller.lives()?;
        Ok(identity)
    }

    async fn quote(
        &self,
        caller: &Caller,
        pod_uid: &str,
        question: &QuoteQuestion,
    ) -> Result<Answer, Refusal> {
        let identity = self.identify(caller, pod_uid).await?;
        if !self.quotes.take() {
            return Err(Refusal::Busy);
        }
        let evidence = self.quoter.quote(question, &identity).await?;
        tracing::info!(pod = %identity.pod, leaves = question.leaves, "quoted");
        Ok(Answer::Quote(Box::new((evidence, identity.workload))))
    }
}

/// What is read of a question, more of it than there should be included, so that whoever asks wrongly hears of it.
const QUESTION_BYTES_MAX: usize = 4096;

/// One pod's socket, served until it is stopped.
#[derive(Debug)]
pub(super) struct Served(JoinHandle<()>);

impl Served {
    /// Serves `listener` for the pod with `pod_uid`.
    pub(super) fn start(
        desk: Arc<Desk>,
        pod_uid: String,
        listener: std::os::unix::net::UnixListener,
    ) -> std::io::Result<Self> {
        let listener = UnixListener::from_std(listener)?;
        let rate = SharedBucket::full(POD);
        let socket = Arc::new(Socket { desk, pod_uid, rate });
        Ok(Self(tokio::spawn(socket.serve(listener))))
    }

    pub(super) fn stop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
struct Socket {
    desk: Arc<Desk>,
    pod_uid: String,
    rate: SharedBucket,
}

impl Socket {
    async fn serve(self: Arc<Self>, listener: UnixListener) {
        let places = Arc::new(Semaphore::new(POD_CONNECTIONS));
        loop {
            // Never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let socket = Arc::clone(&self);
                    tokio::spawn(async move {
                        socket.attend(stream).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(uid = self.pod_uid, "no connection could be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn attend(&self, mut stream: UnixStream) {
        match tokio::time::timeout(DEADLINE, self.converse(&mut stream)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(uid = self.pod_uid, "a caller went away: {error}"),
            Err(_) => tracing::warn!(uid = self.pod_uid, "a caller was not answered in time"),
        }
    }

    async fn converse(&self, stream: &mut UnixStream) -> Result<(), MessageError> {
        let answer = tokio::time::timeout(ANSWER_DEADLINE, self.answer(stream)).await;
        let answer = match answer.unwrap_or(Err(Refusal::TooSlow)) {
            Ok(answer) => answer,
            Err(refusal) => {
                let words = refusal.words();
                if refusal.passes() {
                    tracing::debug!(uid = self.pod_uid, "not yet: {words}");
                    Answer::NotYet(words)
                } else {
                    tracing::warn!(uid = self.pod_uid, "refused: {words}");
                    Answer::Refused(words)
                }
            }
        };
        send(stream, &answer.encode()?).await?;
        // A socket that is closed with bytes unread takes the answer with it.
        stream.shutdown().await?;
        let mut rest = [0; 512];
        let mut left = QUESTION_BYTES_MAX;
        while left > 0 {
            match stream.read(&mut rest).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        Ok(())
    }

    async fn answer(&self, stream: &mut UnixStream) -> Result<Answer, Refusal> {
        if !self.rate.take() {
            return Err(Refusal::TooOften);
        }
        let caller = Caller::of(stream)?;
        match Question::read(stream).await.map_err(|error| Refusal::Malformed(error.to_string()))? {
            // No secret, and nothing is signed.
            Question::Platform => Ok(Answer::Platform(self.desk.quoter.format().await?)),
            Question::Quote(question) => self.desk.quote(&caller, &self.pod_uid, &question).await,
        }
    }
}

#[cfg(test)]
mod tests;

//! One audit: drives the protocol over a stream, and asks the caller about policies and evidence.
//!
//! Bounds are the protocol's own: a handshake is over in ten seconds, and until the verdict no more than
//! [`EVIDENCE_BYTES_MAX`](sealane_protocol::limits::EVIDENCE_BYTES_MAX) and one policy are taken.

use std::time::{Duration, Instant};

use sealane_attestation::VerifiedPeer;
use sealane_protocol::Moment;
use sealane_protocol::connection::{
    ClosedBy, Connection, Event, EvidenceReceived, Introduction, PolicyView, Setup, Sink, StartError,
};
use sealane_protocol::frame::Frame;
use sealane_protocol::handshake::Suite;
use sealane_protocol::limits::RECORD_WIRE_BYTES_MAX;
use sealane_types::Reason;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::auditor::SystemRandom;

/// A remote that takes or gives nothing at all is left after this; the handshake's own deadline comes first.
const DEADLINE: Duration = Duration::from_secs(15);

/// Who answers what the protocol asks.
pub(super) trait Desk {
    /// The policy to hand to a replica that is behind: its epoch, and the JSON of its chain.
    fn policy(&mut self) -> Result<(u64, Vec<u8>), Reason>;

    /// A replica is ahead: what of its policy holds.
    fn adopt(&mut self, chain: &[u8]) -> Result<PolicyView, Reason>;

    fn judge(&mut self, received: &EvidenceReceived) -> Result<VerifiedPeer, Reason>;
}

/// What an audit heard, whatever came of it.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) introduction: Option<Introduction>,
    pub(super) suite: Option<Suite>,
    pub(super) ended: Ended,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) by: ClosedBy,
    pub(super) reason: Reason,
    /// What this side saw, where that says more than the word.
    pub(super) words: Option<String>,
}

/// In an audit there are no frames of streams or pipes.
struct Nothing;

impl Sink for Nothing {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        Err(Reason::FrameMalformed)
    }
}

struct Audit<'a> {
    connection: Connection,
    desk: &'a mut dyn Desk,
    began: Instant,
    words: Option<String>,
    ended: Option<(ClosedBy, Reason)>,
    introduction: Option<Introduction>,
    suite: Option<Suite>,
}

/// Runs one audit to its end.
///
/// # Errors
/// [`StartError`] when the policy permits no suite, or the machine has no randomness.
pub(super) async fn audit<S>(mut stream: S, setup: Setup, desk: &mut dyn Desk) -> Result<Heard, StartError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let connection = Connection::initiate(setup, &mut SystemRandom, Moment::default())?;
    let mut audit = Audit {
        connection,
        desk,
        began: Instant::now(),
        words: None,
        ended: None,
        introduction: None,
        suite: None,
    };
    let over = tokio::time::timeout(DEADLINE, audit.run(&mut stream)).await;
    let (by, reason) = audit.ended.unwrap_or((ClosedBy::Cut, Reason::LinkLost));
    let reason = if over.is_err() { Reason::HandshakeTimeout } else { reason };
    let Audit { words, introduction, suite, .. } = audit;
    Ok(Heard { introduction, suite, ended: Ended { by, reason, words } })
}

impl Audit<'_> {
    fn now(&self) -> Moment {
        Moment::from_micros(u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    async fn run<S>(&mut self, stream: &mut S)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut input = vec![0; RECORD_WIRE_BYTES_MAX];
        let mut filled = 0;
        loop {
            self.answer();
            if self.put(stream).await.is_err() {
                self.connection.handle_cut();
                self.answer();
            }
            if self.ended.is_some() {
                return;
            }
            let wait = self
                .connection
                .poll_timeout()
                .map_or(DEADLINE, |moment| Duration::from_micros(moment.micros_since(self.now())));
            let Some(room) = input.get_mut(filled..) else { return };
            match tokio::time::timeout(wait, stream.read(room)).await {
                Err(_) => self.connection.handle_timeout(self.now()),
                Ok(Ok(0) | Err(_)) => self.connection.handle_cut(),
                Ok(Ok(bytes)) => filled = self.take(&mut input, filled + bytes),
            }
        }
    }

    /// Hands the first `filled` bytes of `input` to the protocol; how many of them are left.
    fn take(&mut self, input: &mut [u8], filled: usize) -> usize {
        let now = self.now();
        let bytes = input.get_mut(..filled).unwrap_or_default();
        match self.connection.handle_input(now, bytes, &mut Nothing) {
            Ok(used) => {
                input.copy_within(used..filled, 0);
                filled - used
            }
            Err(fail) => {
                self.words.get_or_insert(fail.to_string());
                0
            }
        }
    }

    async fn put<S: AsyncWrite + Unpin>(&mut self, stream: &mut S) -> std::io::Result<()> {
        loop {
            let now = self.now();
            let output = self.connection.poll_output(now);
            let bytes = output.len();
            if bytes == 0 {
                return stream.flush().await;
            }
            stream.write_all(output).await?;
            self.connection.output_written(bytes);
        }
    }

    /// Answers everything that the protocol asks.
    fn answer(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.suite = self.suite.or(self.connection.suite());
            match event {
                Event::Introduced(introduction) => self.introduction = Some(introduction),
                Event::PolicyWanted => {
                    let handed = self.desk.policy().and_then(|(epoch, chain)| {
                        self.connection.supply_policy(epoch, &chain).map_err(|_| Reason::LimitExceeded)
                    });
                    self.or_close(handed);
                }
                Event::PolicyOffered { chain, .. } => match self.desk.adopt(&chain) {
                    Ok(view) => self.connection.policy_adopted(view),
                    Err(reason) => self.connection.close(reason),
                },
                Event::EvidenceReceived(received) => {
                    let verdict = self.desk.judge(&received);
                    let judged = self.connection.judged(verdict).map_err(|_| Reason::PeerUnknown);
                    self.or_close(judged);
                }
                // There is nothing more to it, and the other side knows the verdict.
                Event::Established { .. } => self.connection.close(Reason::Finished),
                Event::Closed { by, reason } => self.ended = self.ended.or(Some((by, reason))),
                // Asked of responders, or of connections that carry data.
                Event::AuditorIntroduced
                | Event::EvidenceWanted(_)
                | Event::TicketPresented(_)
                | Event::ResumptionOffered(_)
                | Event::TicketReceived(_)
                | Event::ReattestationAsked
                | Event::Reattested => self.connection.close(Reason::FrameMalformed),
            }
        }
    }

    fn or_close(&mut self, done: Result<(), Reason>) {
        if let Err(reason) = done {
            self.connection.close(reason);
        }
    }
}

//! The agent of the pod's node, by the socket that the CSI volume `csi.sealane.dev` brings.
//!
//! It composes the report data from what it found out about this pod, so that nothing but static key, policy and tree go
//! there; what comes back names the workload.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use sealane_attestation::Format;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::sync::OnceCell;

use crate::evidence::node_message::{Answer, MessageError, Question, QuoteQuestion};
use crate::evidence::provider::{Provider, ProviderError, Quote, QuoteRequest};

/// Where the webhook mounts the volume.
pub(super) const SOCKET: &str = "/run/sealane-agent/agent.sock";
/// Between two questions while the kubelet learns of a pod that has just started.
const PAUSE: Duration = Duration::from_millis(700);
/// Questions in all: a little less than what the prover waits.
const ATTEMPTS: u32 = 9;

#[derive(Debug)]
pub(super) struct NodeAgent {
    socket: PathBuf,
    pause: Duration,
    format: OnceCell<Format>,
}

impl NodeAgent {
    pub(super) fn new(socket: impl AsRef<Path>) -> Self {
        Self { socket: socket.as_ref().to_owned(), pause: PAUSE, format: OnceCell::const_new() }
    }

    async fn known(&self) -> Result<Format, ProviderError> {
        let asked = || async {
            match self.ask(&Question::Platform).await? {
                Answer::Platform(format) => Ok(format),
                Answer::NotYet(words) | Answer::Refused(words) => Err(refused(words)),
                Answer::Quote(_) => Err(ProviderError::Malformed("the node agent answered another question")),
            }
        };
        self.format.get_or_try_init(asked).await.copied()
    }

    async fn ask(&self, question: &Question) -> Result<Answer, ProviderError> {
        let mut stream = UnixStream::connect(&self.socket).await.map_err(failed)?;
        stream.write_all(&question.encode()).await.map_err(failed)?;
        Answer::read(&mut stream).await.map_err(|error| match error {
            MessageError::Io(error) => failed(error),
            MessageError::Malformed(_) => ProviderError::Malformed("the node agent's answer cannot be read"),
        })
    }

    async fn quoted(&self, request: QuoteRequest) -> Result<Quote, ProviderError> {
        let known = self.known().await?;
        let QuoteRequest { report_data: _, tree_root, own_static, policy, trust, leaves } = request;
        let question = Question::Quote(QuoteQuestion { own_static, policy, trust, leaves, tree_root });
        let mut attempts = 1..=ATTEMPTS;
        loop {
            let last = attempts.next().is_none_or(|attempt| attempt == ATTEMPTS);
            match self.ask(&question).await? {
                Answer::Quote(quote) => {
                    let (evidence, workload) = *quote;
                    if evidence.format != known {
                        return Err(ProviderError::Malformed("the node agent changed its platform"));
                    }
                    let (report, certificates) = (evidence.report, evidence.certificates);
                    return Ok(Quote { report, certificates, workload: Some(workload) });
                }
                Answer::NotYet(words) if last => return Err(refused(words)),
                Answer::NotYet(words) => tracing::debug!("the node agent cannot answer yet: {words}"),
                Answer::Refused(words) => return Err(refused(words)),
                Answer::Platform(_) => {
                    return Err(ProviderError::Malformed("the node agent answered another question"));
                }
            }
            tokio::time::sleep(self.pause).await;
        }
    }
}

impl Provider for NodeAgent {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        self.known().boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        self.quoted(request).boxed()
    }
}

fn failed(source: io::Error) -> ProviderError {
    ProviderError::Device {
        what: "the node agent (agent.enabled in the chart, and the volume csi.sealane.dev in the pod)",
        source,
    }
}

fn refused(words: String) -> ProviderError {
    ProviderError::Refused(Box::new(io::Error::other(words)))
}

#[cfg(test)]
mod tests {
    use sealane_attestation::{Evidence, StatedWorkload};
    use sealane_types::Digest;
    use tokio::net::UnixListener;

    use super::*;

    const REQUEST: QuoteRequest = QuoteRequest {
        report_data: [7; 64],
        tree_root: [8; 32],
        own_static: [9; 32],
        policy: Digest::new([1; 32]),
        trust: Digest::new([1; 32]),
        leaves: 2,
    };

    fn quote(format: Format) -> Answer {
        let images = [("sealane".to_owned(), Digest::new([6; 32]))];
        let workload = StatedWorkload::new("embedder".to_owned(), images.into()).unwrap();
        Answer::Quote(Box::new((Evidence { format, report: vec![5; 9], certificates: vec![] }, workload)))
    }

    /// An agent that gives these answers, one per connection, and what it was asked.
    async fn with(answers: Vec<Answer>) -> (Result<Quote, ProviderError>, Vec<Question>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let agent = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                asked.push(Question::read(&mut stream).await.unwrap());
                stream.write_all(&answer.encode().unwrap()).await.unwrap();
            }
            asked
        });
        let provider = NodeAgent { pause: Duration::ZERO, ..NodeAgent::new(&path) };
        let outcome = provider.quote(REQUEST).await;
        (outcome, agent.await.unwrap())
    }

    #[tokio::test]
    async fn an_agent_is_asked_until_it_knows_the_pod() {
        let not_yet = || Answer::NotYet("container `app` has not started".to_owned());
        let answers = vec![Answer::Platform(Format::Tdx), not_yet(), not_yet(), quote(Format::Tdx)];
        let (outcome, asked) = with(answers).await;
        let quote = outcome.unwrap();
        assert_eq!((quote.report, quote.workload.unwrap().service_account()), (vec![5; 9], "embedder"));
        let Question::Quote(question) = asked[3] else { panic!("{asked:?}") };
        assert_eq!((question.own_static, question.leaves, question.tree_root), ([9; 32], 2, [8; 32]));
        let mut never = vec![Answer::Platform(Format::Tdx)];
        never.extend((0..ATTEMPTS).map(|_| not_yet()));
        let (outcome, _) = with(never).await;
        assert!(matches!(outcome, Err(ProviderError::Refused(_))), "{outcome:?}");
    }

    #[tokio::test]
    async fn a_refusal_and_another_platform_end_it() {
        let (outcome, _) = with(vec![Answer::Platform(Format::Tdx), Answer::Refused("no".to_owned())]).await;
        assert!(matches!(outcome, Err(ProviderError::Refused(_))), "{outcome:?}");
        let (outcome, _) = with(vec![Answer::Platform(Format::Tdx), quote(Format::SevSnp)]).await;
        assert!(matches!(outcome, Err(ProviderError::Malformed(_))), "{outcome:?}");
    }

    #[tokio::test]
    async fn without_an_agent_the_chart_s_value_is_named() {
        let missing = NodeAgent::new("/nonexistent/agent.sock").format().await.unwrap_err();
        assert!(missing.to_string().contains("agent.enabled"), "{missing}");
    }
}

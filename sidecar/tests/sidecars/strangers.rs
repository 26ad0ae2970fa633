//! Replicas that nobody configured: what they claim, and how far they get.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::{Collateral, TrustConfiguration, VerifiedPeer, judge};
use sealane_policy::{VerifiedPolicy, digest_of, verify};
use sealane_protocol::Moment;
use sealane_protocol::connection::{
    Connection, Event, EvidenceReceived, Local, Places, PolicyView, Setup, Sink, Timing,
};
use sealane_protocol::frame::Frame;
use sealane_protocol::handshake::{Floor, Kind, Suite};
use sealane_protocol::keys::{MlKem768, Random, RandomFailed, StaticKey};
use sealane_protocol::limits::LIFE_MICROS;
use sealane_protocol::record::Rekey;
use sealane_types::{Cipher, Digest, PodIdentity, PublicKey, Reason, RootSource, SignedChain};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::sender;
use crate::support::{Plan, Sidecar, clock, document, roots, signed, until, within};

pub(crate) struct Os;

impl Random for Os {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        aws_lc_rs::rand::fill(bytes).map_err(|_| RandomFailed)
    }
}

struct Nothing;

impl Sink for Nothing {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        Err(Reason::FrameMalformed)
    }
}

/// What a stranger claims: to be an embedder that sends `activations`, unless a test says otherwise.
#[derive(Clone)]
struct Stranger {
    kind: Kind,
    key: Arc<StaticKey>,
    namespace: &'static str,
    peer: &'static str,
    session: &'static str,
    epoch: u64,
    digest: Digest,
    /// What it holds evidence against.
    policy: VerifiedPolicy,
}

impl Stranger {
    /// Under the policy that everybody has.
    fn under(chain: &SignedChain) -> Self {
        Self {
            kind: Kind::Full,
            key: Arc::new(StaticKey::generate(&mut Os).unwrap()),
            namespace: "demo",
            peer: "embedder",
            session: "activations",
            epoch: 1,
            digest: digest_of(&STANDARD.decode(&chain.document).unwrap()),
            policy: verify(chain, &roots(), clock(), None).unwrap(),
        }
    }

    fn setup(&self) -> Setup {
        let floor = Floor { post_quantum: true, ciphers: vec![Cipher::Aes256Gcm] };
        let local = Local {
            static_key: Arc::clone(&self.key),
            peer: self.peer.parse().unwrap(),
            pod: PodIdentity::new(self.namespace, "stranger-0", "s").unwrap(),
            policy: PolicyView { epoch: self.epoch, digest: self.digest, floor, life_micros: LIFE_MICROS },
            trust: Arc::new(TrustConfiguration {
                source: RootSource::File,
                roots: roots(),
                simulation: true,
            }),
            suites: Suite::offer(&[Cipher::Aes256Gcm], false),
            rekey: Rekey::default(),
            timing: Timing::default(),
            kem: Arc::new(MlKem768),
            links: false,
            places: Places::new(1),
        };
        let (expected, session) = ("ranker".parse().unwrap(), self.session.parse().unwrap());
        Setup { local, kind: self.kind, expected, session }
    }

    fn judges(&self, received: &EvidenceReceived) -> Result<VerifiedPeer, Reason> {
        let (policies, peer) = ([self.policy.digest()], &received.introduction.peer);
        let collateral = Collateral::empty().allowing_simulated();
        let expected = received.expected(&policies);
        judge(&received.message, &expected, peer, &self.policy, &collateral, clock().unix())
            .map_err(|rejection| rejection.reason())
    }

    /// Calls until something happens that it waits for, and keeps the line; or says why it was hung up on.
    async fn calls(&self, to: SocketAddr, awaited: fn(&Event) -> bool) -> Result<TcpStream, Reason> {
        let now = Moment::default();
        let mut connection = Connection::initiate(self.setup(), &mut Os, now).unwrap();
        let mut stream = TcpStream::connect(to).await.unwrap();
        let (mut input, mut filled) = (vec![0; 100_000], 0);
        loop {
            let output = connection.poll_output(now).to_vec();
            stream.write_all(&output).await.unwrap();
            connection.output_written(output.len());
            while let Some(event) = connection.poll_event() {
                match &event {
                    Event::Closed { reason, .. } => return Err(*reason),
                    Event::EvidenceReceived(received) => {
                        connection.judged(self.judges(received)).unwrap();
                    }
                    _ => {}
                }
                if awaited(&event) {
                    stream.write_all(connection.poll_output(now)).await.unwrap();
                    return Ok(stream);
                }
            }
            if output.is_empty() {
                let bytes = stream.read(&mut input[filled..]).await.unwrap();
                assert_ne!(bytes, 0, "cut without a word");
                filled += bytes;
                // What is wrong with it, the connection tells as it ends.
                let used = connection.handle_input(now, &mut input[..filled], &mut Nothing).unwrap_or(filled);
                input.copy_within(used..filled, 0);
                filled -= used;
            }
        }
    }

    /// Calls a sidecar that hangs up, and says why.
    async fn is_refused(&self, by: SocketAddr) -> Reason {
        within("a refusal", self.calls(by, |_| false)).await.map(drop).unwrap_err()
    }
}

fn is_asked_for_evidence(event: &Event) -> bool {
    matches!(event, Event::EvidenceWanted(_))
}

fn is_established(event: &Event) -> bool {
    matches!(event, Event::Established { .. })
}

fn is_shown_evidence(event: &Event) -> bool {
    matches!(event, Event::EvidenceReceived(_))
}

fn is_asked_for_its_policy(event: &Event) -> bool {
    matches!(event, Event::PolicyWanted)
}

#[tokio::test]
async fn a_pod_of_another_namespace_is_refused() {
    let receiver = Plan::receiver().start();
    let stranger = Stranger::under(&receiver.plan.chain);
    within("a question", stranger.calls(receiver.address, is_asked_for_evidence)).await.unwrap();
    let elsewhere = Stranger { namespace: "elsewhere", ..stranger };
    assert_eq!(elsewhere.is_refused(receiver.address).await, Reason::PeerUnknown);
}

#[tokio::test]
async fn a_peer_that_the_session_does_not_name_is_refused() {
    let receiver = Plan::receiver().start();
    let stranger = Stranger::under(&receiver.plan.chain);
    let ranker = Stranger { peer: "ranker", ..stranger.clone() };
    assert_eq!(ranker.is_refused(receiver.address).await, Reason::PeerUnknown);
    let elsewhere = Stranger { session: "gradients", ..stranger };
    assert_eq!(elsewhere.is_refused(receiver.address).await, Reason::SessionUnknown);
}

#[tokio::test]
async fn an_auditor_that_the_policy_does_not_list_gets_no_quote() {
    let listed = Stranger { kind: Kind::Audit, ..Stranger::under(&signed(&document(1), &[1, 2])) };
    let receiver = Plan::receiver().start();
    assert_eq!(listed.is_refused(receiver.address).await, Reason::AuditorUnknown, "nobody audits here");

    let mut audited = document(1);
    audited["auditors"] = json!({"publicKeys": [PublicKey::new(*listed.key.public()).to_string()]});
    let chain = signed(&audited, &[1, 2]);
    let receiver = Plan { chain: chain.clone(), ..Plan::receiver() }.start();
    let other = Stranger { kind: Kind::Audit, ..Stranger::under(&chain) };
    assert_eq!(other.is_refused(receiver.address).await, Reason::AuditorUnknown);
    let listed = Stranger { digest: other.digest, policy: other.policy, ..listed };
    within("evidence", listed.calls(receiver.address, is_shown_evidence)).await.unwrap();
}

/// An auditor that the policy of a receiver lists, and the receiver.
fn audited() -> (Stranger, Sidecar) {
    let auditor = Stranger { kind: Kind::Audit, ..Stranger::under(&signed(&document(1), &[1, 2])) };
    let mut audited = document(1);
    audited["auditors"] = json!({"publicKeys": [PublicKey::new(*auditor.key.public()).to_string()]});
    let chain = signed(&audited, &[1, 2]);
    let auditor = Stranger { kind: auditor.kind, key: auditor.key, ..Stranger::under(&chain) };
    (auditor, Plan { chain, ..Plan::receiver() }.start())
}

#[tokio::test]
async fn an_auditor_that_asks_too_often_waits() {
    let (auditor, receiver) = audited();
    let mut answered = 0;
    let refused = within("a refusal", async {
        loop {
            match auditor.calls(receiver.address, is_shown_evidence).await {
                Ok(_) => answered += 1,
                Err(reason) => return reason,
            }
        }
    })
    .await;
    assert_eq!(refused, Reason::LimitExceeded);
    assert!(answered >= 4, "{answered}");
}

#[tokio::test]
async fn an_audit_ends_even_if_its_auditor_stays() {
    let (auditor, receiver) = audited();
    let mut line = within("the audit", auditor.calls(receiver.address, is_established)).await.unwrap();
    let mut rest = Vec::new();
    within("the end", line.read_to_end(&mut rest)).await.unwrap();
    // Ended by the receiver, not by the silence of the auditor.
    until("it counts as answered and over", || {
        receiver.node.render_metrics().unwrap().contains(r#"outcome="audited",reason="Finished""#)
    })
    .await;
}

#[tokio::test]
async fn strangers_that_claim_newer_policies_are_heard_two_at_a_time() {
    let receiver = Plan::receiver().start();
    let to = receiver.address;
    let stranger =
        Stranger { epoch: 9, digest: Digest::new([9; 32]), ..Stranger::under(&receiver.plan.chain) };
    let claim = || stranger.calls(to, is_asked_for_its_policy);
    let first = within("the first", claim()).await.unwrap();
    let _second = within("the second", claim()).await.unwrap();
    let third = within("the third", claim()).await;
    assert_eq!(third.unwrap_err(), Reason::LimitExceeded);
    // Those who need no place are not kept out.
    let from = Plan::sender(&[to]).start();
    let _lane = sender(&from.lanes).await;
    drop(first);
    // Slower than the gate lets strangers in.
    let mut pace = tokio::time::interval(Duration::from_millis(150));
    within("room again", async {
        while claim().await.is_err() {
            pace.tick().await;
        }
    })
    .await;
}

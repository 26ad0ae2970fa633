//! Verdicts that come when the policy is another one already.

use sealane_attestation::binding::{ReportSubject, Tree, report_data};
use sealane_attestation::{Evidence, EvidenceMessage, Format, KEY_PAYLOAD_TYPE, key_report};
use sealane_policy::{SigningKey, VerifiedPolicy};
use sealane_protocol::connection::{AcceptSetup, Introduction, Setup, Sink};
use sealane_protocol::frame::Frame;
use sealane_protocol::handshake::Kind;
use sealane_types::Platform;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;
use crate::context::Wish;
use crate::context::tests::{context, permit};
use crate::desired::{Direction, Rekey, TransportChoice};

/// Traffic that anybody may bring, and that counts who did.
#[derive(Default)]
struct Counted {
    verified: usize,
}

impl Sink for Counted {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        Err(Reason::FrameMalformed)
    }
}

impl Traffic for Counted {
    fn role(&self) -> &'static str {
        "responder"
    }

    fn direction(&self) -> Direction {
        Direction::Receiving
    }

    fn introduced(&mut self, _: &Introduction) -> Result<(), Reason> {
        Ok(())
    }

    fn permitted(&self, _: &VerifiedPolicy, _: &Introduction) -> Result<(), Reason> {
        Ok(())
    }

    fn transport(&self) -> TransportChoice {
        TransportChoice::ANY
    }

    fn verified(&mut self, _: &VerifiedPeer) {
        self.verified += 1;
    }

    fn established(&mut self, _: &Established<'_>) -> Result<(), Reason> {
        Ok(())
    }

    fn degraded(&mut self, _: &[Reason]) {}

    fn fill(&mut self, _: &mut Connection) -> Result<(), Reason> {
        Ok(())
    }

    fn wake(&self) -> Arc<Notify> {
        Arc::default()
    }
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32]).unwrap()
}

/// Peers whose replicas hold these keys.
fn peers(embedder: u8, ranker: u8) -> Value {
    let entry =
        |seed| json!({"entries": [{"kind": "Key", "publicKeys": [key(seed).public_key().to_string()]}]});
    json!({"embedder": entry(embedder), "ranker": entry(ranker)})
}

/// A handshake between an embedder and a ranker, as far as it has come.
struct Handshake<'a> {
    embedder: (&'a Context, Connection),
    ranker: Connection,
    trust: Trust<'a>,
    traffic: Counted,
}

impl<'a> Handshake<'a> {
    fn begin(embedder: &'a Context, ranker: &'a Context) -> Self {
        let local = |context: &Context| {
            let standing = context.policy.standing();
            let own = context.own_peer().unwrap();
            context.local(standing.held().unwrap(), own, Wish::default(), Rekey::default())
        };
        let (expected, session) = ("ranker".parse().unwrap(), "activations".parse().unwrap());
        let setup = Setup { local: local(embedder), kind: Kind::Full, expected, session };
        let dialled = Connection::initiate(setup, &mut SystemRandom, embedder.clock.moment()).unwrap();
        let setup = AcceptSetup { local: local(ranker), audit: false };
        let accepted = Connection::accept(setup, &mut SystemRandom, ranker.clock.moment()).unwrap();
        let trace = ranker.tracer.connection("responder", None);
        let trust = Trust::new(ranker, Way::Stream(None), trace, None, false);
        Self { embedder: (embedder, dialled), ranker: accepted, trust, traffic: Counted::default() }
    }

    /// Until the ranker has the embedder's evidence, which is signed by `signer` and not judged yet.
    fn until_evidence(&mut self, signer: &SigningKey) {
        let mut received = false;
        while !received {
            let (context, embedder) = &mut self.embedder;
            while let Some(event) = embedder.poll_event() {
                if let Event::EvidenceWanted(wanted) = event {
                    let tree = Tree::new(&[wanted.leaf]).unwrap();
                    let policy = context.policy.standing().held().unwrap().policy.digest();
                    let subject = ReportSubject {
                        platform: Platform::Key,
                        pod: &context.pod,
                        own_static: context.static_key.public(),
                        policy: &policy,
                        trust: &wanted.trust,
                        workload: None,
                    };
                    let data = report_data(&subject, 1, tree.root());
                    let signature = signer.sign_as(KEY_PAYLOAD_TYPE, &data);
                    let report = key_report(&signer.public_key(), &data, &signature);
                    let evidence = Evidence { format: Format::Key, report, certificates: vec![] };
                    let (pod, path) = (context.pod.clone(), tree.path(0).unwrap());
                    let message = EvidenceMessage { pod, policy, path, evidence, workload: None };
                    embedder.supply_evidence(&message).unwrap();
                }
            }
            pass(embedder, &mut self.ranker, context, &mut self.traffic);
            while let Some(event) = self.ranker.poll_event() {
                received |= matches!(event, Event::EvidenceReceived(_));
                assert!(self.trust.on_event(event, &mut self.ranker, &mut self.traffic).is_none());
            }
            pass(&mut self.ranker, embedder, context, &mut self.traffic);
        }
    }
}

fn pass(from: &mut Connection, to: &mut Connection, context: &Context, sink: &mut Counted) {
    let now = context.clock.moment();
    let mut bytes = from.poll_output(now).to_vec();
    from.output_written(bytes.len());
    let mut begin = 0;
    while begin < bytes.len() {
        let used = to.handle_input(now, &mut bytes[begin..], sink).unwrap();
        assert_ne!(used, 0, "whole records are passed");
        begin += used;
    }
}

#[tokio::test]
async fn a_verdict_under_a_policy_that_was_replaced_since_admits_nobody() {
    let sessions = json!([{"from": "embedder", "to": "ranker", "stream": {}}]);
    let (embedder, ranker) = (context(Some("embedder")), context(Some("ranker")));
    for (replaced, admitted) in [(peers(2, 3), 1), (peers(4, 3), 0)] {
        let epoch = ranker.policy.standing().held().map_or(1, |held| held.policy.epoch() + 1);
        for context in [&embedder, &ranker] {
            permit(context, epoch, &peers(2, 3), &sessions);
        }
        let mut handshake = Handshake::begin(&embedder, &ranker);
        handshake.until_evidence(&key(2));
        permit(&ranker, epoch + 1, &replaced, &sessions);
        let Handshake { ranker: connection, trust, traffic, .. } = &mut handshake;
        while traffic.verified == 0 && !connection.is_closed() {
            let news = trust.news().await;
            trust.on_news(news, connection, traffic);
        }
        assert_eq!(traffic.verified, admitted);
        let mut closed = std::iter::from_fn(|| connection.poll_event()).filter_map(|event| match event {
            Event::Closed { reason, .. } => Some(reason),
            _ => None,
        });
        assert_eq!(closed.next(), (admitted == 0).then_some(Reason::KeyMismatch));
    }
}

/// What a session rests on may expire at any time: it outlives that by no more than this.
#[tokio::test(start_paused = true)]
async fn stored_claims_are_judged_again_every_five_seconds() {
    let sessions = json!([{"from": "embedder", "to": "ranker", "stream": {}}]);
    let (embedder, ranker) = (context(Some("embedder")), context(Some("ranker")));
    for context in [&embedder, &ranker] {
        permit(context, 1, &peers(2, 3), &sessions);
    }
    let trust = &mut Handshake::begin(&embedder, &ranker).trust;
    let began = tokio::time::Instant::now();
    let mut times = Vec::new();
    while times.len() < 4 {
        if matches!(trust.news().await, News::Time) {
            times.push(began.elapsed().as_secs());
        }
    }
    assert_eq!(times, [0, 5, 10, 15]);
}

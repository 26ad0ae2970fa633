//! What goes next on one stream, from what went before. The messages of a stream arrive in order or not at all, so that what
//! was sent last is what the sidecar holds, or it says so.

use std::sync::Arc;

use sealane_sidecar_api::control::Delta;
use sealane_sidecar_api::control::from_operator::Message;
use sealane_sidecar_api::delta::{PART_BYTES_MAX, Part};

use super::registry::Told;
use super::rendered::{Change, Rendered};
use crate::desired::{Desired, Session};

/// The messages of one stream.
#[derive(Debug)]
pub(super) struct Feed {
    /// The sidecar understands changes.
    deltas: bool,
    sent: Option<Sent>,
    /// Of a change of which a part was sent.
    rest: Option<Rest>,
}

#[derive(Debug)]
struct Sent {
    rendered: Arc<Rendered>,
    asked: u64,
    whole: bool,
}

#[derive(Debug)]
struct Rest {
    generation: u64,
    change: Arc<Change>,
    next: usize,
}

impl Feed {
    pub(super) const fn new(deltas: bool) -> Self {
        Self { deltas, sent: None, rest: None }
    }

    /// Whether a change is under way, which no newer one interrupts.
    pub(super) const fn is_under_way(&self) -> bool {
        self.rest.is_some()
    }

    /// About how long the next message is.
    pub(super) fn next_bytes(&self, told: &Told) -> usize {
        if self.deltas && told.rendered.is_divisible() {
            PART_BYTES_MAX
        } else {
            encoded_bytes(told.rendered.desired())
        }
    }

    /// The next message; none when the sidecar asks for the whole and has just been sent it.
    pub(super) fn next(&mut self, told: &Told) -> Option<Message> {
        if self.rest.is_none() {
            let Told { generation, asked, rendered } = told;
            let (generation, asked) = (*generation, *asked);
            let sent = self.sent.take();
            let is_asked = sent.as_ref().is_some_and(|sent| sent.asked != asked);
            let is_held =
                sent.as_ref().is_some_and(|sent| sent.whole && Arc::ptr_eq(&sent.rendered, rendered));
            if is_asked && is_held {
                self.sent = sent.map(|sent| Sent { asked, ..sent });
                return None;
            }
            let base = sent.filter(|_| !is_asked).map(|sent| sent.rendered);
            let change = if self.deltas { rendered.change(base.as_deref()) } else { None };
            let whole = change.as_ref().is_none_or(|change| change.base.is_empty());
            self.sent = Some(Sent { rendered: Arc::clone(rendered), asked, whole });
            let Some(change) = change else {
                return Some(Message::Configuration(rendered.configuration(generation)));
            };
            self.rest = Some(Rest { generation, change, next: 0 });
        }
        self.part().map(Message::Delta)
    }

    fn part(&mut self) -> Option<Delta> {
        let Rest { generation, change, next } = self.rest.take()?;
        let Part { changes, offset, more } = change.parts.get(next)?.clone();
        let (base, digest) = (change.base.clone(), change.digest.clone());
        if more {
            self.rest = Some(Rest { generation, change, next: next + 1 });
        }
        Some(Delta { generation, base, digest, changes, offset, more })
    }
}

/// About how long a whole configuration is.
fn encoded_bytes(desired: &Desired) -> usize {
    const SESSION: usize = 256;
    const REPLICA: usize = 192;
    let Desired::Member(member) = desired else { return SESSION };
    let policy = member.policy.as_ref().map_or(0, |(_, wire)| wire.chain.len() + wire.roots.len());
    let session = |session: &Session| {
        let replicas: usize = session.remotes.iter().map(|(_, replicas)| replicas.len()).sum();
        SESSION + replicas * REPLICA
    };
    policy + member.sessions.iter().map(session).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use sealane_sidecar_api::control::Configuration;
    use sealane_sidecar_api::delta::Follower;

    use super::super::rendered::Renderings;
    use super::super::rendered::tests::with_chain;
    use super::*;

    /// A stream, and the sidecar at its other end.
    struct Stream {
        renderings: Renderings,
        feed: Feed,
        follower: Follower,
        told: u64,
        asked: u64,
    }

    impl Stream {
        fn new(deltas: bool) -> Self {
            let (renderings, feed, follower) =
                (Renderings::default(), Feed::new(deltas), Follower::default());
            Self { renderings, feed, follower, told: 0, asked: 0 }
        }

        /// What is sent when this is told, and what comes of it.
        fn tell(&mut self, chain: &str) -> (Vec<Message>, Option<Configuration>) {
            let rendered = self.renderings.of("demo", &with_chain(chain));
            self.told += 1;
            let told = Told { generation: self.told, asked: self.asked, rendered };
            let (mut sent, mut taken) = (Vec::new(), None);
            loop {
                let Some(message) = self.feed.next(&told) else { break };
                taken = match message.clone() {
                    Message::Configuration(whole) => Some(whole),
                    Message::Delta(delta) => self.follower.take(delta).unwrap_or_default(),
                    Message::Refusal(_) => panic!("nothing is refused"),
                };
                sent.push(message);
                if !self.feed.is_under_way() {
                    break;
                }
            }
            (sent, taken)
        }
    }

    fn chain(configuration: Option<Configuration>) -> Option<String> {
        configuration?.policy.map(|policy| policy.chain)
    }

    #[test]
    fn who_understands_changes_is_sent_changes() {
        let mut stream = Stream::new(true);
        let long = "x".repeat(3 * PART_BYTES_MAX);
        let (sent, taken) = stream.tell(&long);
        assert!(sent.len() > 3, "no message is longer than a part: {}", sent.len());
        assert_eq!(chain(taken), Some(long));
        let (sent, taken) = stream.tell("2");
        assert!(matches!(&sent[..], [Message::Delta(delta)] if !delta.base.is_empty()), "{sent:?}");
        assert_eq!(taken.as_ref().map(|taken| taken.generation), Some(2));
        assert_eq!(chain(taken), Some("2".to_owned()));
    }

    #[test]
    fn an_older_sidecar_is_sent_the_whole_each_time() {
        let mut stream = Stream::new(false);
        for text in ["1", "2"] {
            let (sent, taken) = stream.tell(text);
            assert!(matches!(&sent[..], [Message::Configuration(_)]), "{sent:?}");
            assert_eq!(chain(taken), Some(text.to_owned()));
        }
    }

    #[test]
    fn who_lost_the_base_is_sent_the_whole_once_it_asks() {
        let mut stream = Stream::new(true);
        stream.tell("1");
        stream.follower.forget();
        let (_, taken) = stream.tell("2");
        assert!(taken.is_none() && stream.follower.wants_whole(), "it takes nothing of what it cannot apply");
        stream.asked += 1;
        let (sent, taken) = stream.tell("2");
        assert!(matches!(&sent[..], [Message::Delta(delta)] if delta.base.is_empty()), "{sent:?}");
        assert_eq!(chain(taken), Some("2".to_owned()));
        // Asking again brings nothing that it does not have.
        stream.asked += 1;
        assert!(stream.tell("2").0.is_empty());
        assert_eq!(chain(stream.tell("3").1), Some("3".to_owned()));
    }
}

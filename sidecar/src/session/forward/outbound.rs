//! What the listening side puts on a connection.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use sealane_attestation::VerifiedPeer;
use sealane_policy::VerifiedPolicy;
use sealane_protocol::connection::{Connection, Introduction, Sink};
use sealane_protocol::frame::Frame;
use sealane_types::{PeerName, PodIdentity, Reason};
use tokio::sync::Notify;

use super::listening::Listening;
use super::pipes::Pipes;
use super::replica::Replica;
use crate::desired::{Direction, Session, TransportChoice};
use crate::session::dialer::{Keep, Purpose};
use crate::session::phase::Phase;
use crate::session::traffic::{Established, Traffic};

/// How the dialler sees a replica that TCP connections are given to.
pub(super) struct Kept {
    pub(super) listening: Weak<Listening>,
    pub(super) replica: Arc<Replica>,
}

impl Keep for Kept {
    fn peer(&self) -> &PeerName {
        self.replica.peer()
    }

    fn id(&self) -> &str {
        self.replica.id()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.replica.addresses()
    }

    fn is_leaving(&self) -> bool {
        self.replica.is_leaving()
    }

    fn moved(&self) -> &Notify {
        &self.replica.moved
    }

    fn session(&self) -> Option<Session> {
        self.listening.upgrade().map(|listening| listening.session())
    }

    fn traffic(&self, purpose: Purpose) -> Option<Box<dyn Traffic>> {
        let replica = Arc::clone(&self.replica);
        let pipes = self.listening.upgrade()?.pipes(Arc::clone(&replica.wake));
        Some(Box::new(Outbound { replica, purpose, pipes: Some(pipes) }))
    }

    fn detach(&self, problem: (Reason, String)) {
        self.replica.detach(Some(problem));
    }

    fn end(&self) {
        self.replica.end();
    }
}

/// TCP connections towards one replica.
struct Outbound {
    replica: Arc<Replica>,
    purpose: Purpose,
    /// None once the connection is over.
    pipes: Option<Pipes>,
}

impl Sink for Outbound {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        self.pipes.as_mut().map_or(Ok(()), |pipes| pipes.on_frame(frame))
    }
}

impl Traffic for Outbound {
    fn role(&self) -> &'static str {
        "initiator"
    }

    fn direction(&self) -> Direction {
        Direction::Sending
    }

    fn introduced(&mut self, introduction: &Introduction) -> Result<(), Reason> {
        self.purpose.is_met_by(introduction)?;
        // A port of its own leads to this pod of the set and to no other, whatever the configuration says of it. The
        // evidence is bound to the identity.
        match self.replica.ordinal() {
            Some(ordinal) if !has_ordinal(&introduction.pod, ordinal) => Err(Reason::PeerUnknown),
            _ => Ok(()),
        }
    }

    fn permitted(&self, policy: &VerifiedPolicy, _: &Introduction) -> Result<(), Reason> {
        self.purpose.permitted(policy)
    }

    fn transport(&self) -> TransportChoice {
        self.purpose.transport()
    }

    fn verified(&mut self, _: &VerifiedPeer) {}

    fn established(&mut self, connection: &Established<'_>) -> Result<(), Reason> {
        self.replica.attach(Phase::of(connection));
        Ok(())
    }

    fn degraded(&mut self, reasons: &[Reason]) {
        self.replica.judged_again(reasons);
    }

    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        let Some(pipes) = &mut self.pipes else { return Ok(()) };
        while let Some(accepted) = self.replica.next_arrival() {
            let place = Box::new(accepted.place);
            if !pipes.begin(accepted.socket, accepted.permit, place)? {
                self.replica.spend();
            }
        }
        pipes.fill(connection)?;
        if self.replica.is_done() { Err(Reason::Finished) } else { Ok(()) }
    }

    fn over(&mut self) {
        self.pipes = None;
        self.replica.detach(None);
    }

    fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.replica.wake)
    }
}

/// Pods of a StatefulSet are named by their ordinals.
fn has_ordinal(pod: &PodIdentity, ordinal: u32) -> bool {
    pod.pod().rsplit_once('-').is_some_and(|(_, number)| number == ordinal.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_ordinal_of_its_name() {
        let has = |pod, ordinal| has_ordinal(&PodIdentity::new("demo", pod, "u").unwrap(), ordinal);
        assert!(has("ranker-0", 0) && has("a-1-12", 12));
        assert!(!has("ranker-1", 0) && !has("ranker-01", 1) && !has("ranker", 0) && !has("ranker-10", 0));
    }
}

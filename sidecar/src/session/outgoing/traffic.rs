//! What the sending side puts on a connection.

use std::sync::{Arc, Weak};

use sealane_attestation::VerifiedPeer;
use sealane_policy::VerifiedPolicy;
use sealane_protocol::connection::{Connection, Introduction, LinkTerms, Sink};
use sealane_protocol::frame::Frame;
use sealane_types::Reason;
use tokio::sync::Notify;

use super::Sending;
use super::association::Association;
use super::links::{Links, Remote};
use crate::context::process;
use crate::desired::{Direction, TransportChoice};
use crate::session::dialer::Purpose;
use crate::session::phase::Phase;
use crate::session::traffic::{Established, Traffic};

/// Tensors of one session towards one replica.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) sending: Weak<Sending>,
    pub(super) association: Arc<Association>,
    pub(super) purpose: Purpose,
}

impl Sink for Outbound {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        self.association.on_frame(&frame)
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
        self.purpose.is_met_by(introduction)
    }

    fn permitted(&self, policy: &VerifiedPolicy, _: &Introduction) -> Result<(), Reason> {
        self.purpose.permitted(policy)
    }

    fn transport(&self) -> TransportChoice {
        self.purpose.transport()
    }

    fn verified(&mut self, _: &VerifiedPeer) {}

    fn established(&mut self, connection: &Established<'_>) -> Result<(), Reason> {
        self.association.attach(process(&connection.introduction.static_key), Phase::of(connection));
        Ok(())
    }

    fn degraded(&mut self, reasons: &[Reason]) {
        self.association.judged_again(reasons);
    }

    fn link(&mut self, terms: Option<Arc<LinkTerms>>) {
        let Some(sending) = self.sending.upgrade() else { return };
        let (reports, from) = self.association.further_links();
        let remote = Remote {
            reports,
            from,
            sent: sending.context.metrics.traffic.striped.get_or_create(&sending.labels()).clone(),
            context: Arc::clone(&sending.context),
            addresses: self.association.addresses(),
            rekey: sending.session().rekey.into(),
            wake: self.wake(),
        };
        self.association.link(terms.map(|terms| Links::new(terms, remote)));
    }

    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        self.association.fill(connection)?;
        if self.association.is_done() { Err(Reason::Finished) } else { Ok(()) }
    }

    fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.association.wake)
    }
}

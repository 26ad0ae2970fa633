//! What a connection carries, as far as the driver has to know.

use std::sync::Arc;
use std::time::Duration;

use sealane_attestation::VerifiedPeer;
use sealane_policy::VerifiedPolicy;
use sealane_protocol::connection::{Connection, Introduction, LinkTerms, Sink};
use sealane_protocol::handshake::Suite;
use sealane_protocol::record::Rekey;
use sealane_types::Reason;
use tokio::sync::Notify;

use super::carried::Carried;
use crate::desired::{Direction, TransportChoice};

/// What a connection carries.
pub(crate) trait Traffic: Sink + Send {
    /// The label of metrics and logs: `initiator` or `responder`.
    fn role(&self) -> &'static str;

    /// Which side of its session this is.
    fn direction(&self) -> Direction;

    /// Whether the remote may go on with what it claims to be; names only, nothing is proved yet.
    fn introduced(&mut self, introduction: &Introduction) -> Result<(), Reason>;

    /// Whether the policy permits what this connection is for.
    fn permitted(&self, policy: &VerifiedPolicy, introduction: &Introduction) -> Result<(), Reason>;

    /// The remote's evidence was accepted. Its frames may come as soon as it has accepted ours, in the same bytes that
    /// tell of it and so before [`Traffic::established`].
    fn verified(&mut self, peer: &VerifiedPeer);

    /// Both sides are verified; tensors may flow.
    fn established(&mut self, connection: &Established<'_>) -> Result<(), Reason>;

    /// The remote was judged again, and something else is degraded about it than before: this.
    fn degraded(&mut self, reasons: &[Reason]);

    /// What further links begin with from now on, where there may be some: when the connection is established, and whenever
    /// its keys are those of another handshake.
    fn link(&mut self, _terms: Option<Arc<LinkTerms>>) {}

    /// What its session, if it has one, asks to be carried by; of one that was dialled, what it was dialled by.
    fn transport(&self) -> TransportChoice;

    /// When the session of a connection that was accepted wants keys replaced; one that was dialled began with it.
    fn rekey(&self) -> Option<Rekey> {
        None
    }

    /// Queues what is ready to go, until the output is full or nothing is left.
    fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason>;

    /// The connection is over: what it carried ends now, before the remote is told why.
    fn over(&mut self) {}

    /// Told when [`Traffic::fill`] has something new to do.
    fn wake(&self) -> Arc<Notify>;
}

/// A connection that has just been established.
#[derive(Debug)]
pub(crate) struct Established<'a> {
    pub(crate) introduction: &'a Introduction,
    pub(crate) peer: &'a VerifiedPeer,
    pub(crate) carried: Carried,
    pub(crate) suite: Suite,
    /// From the first byte, evidence included.
    pub(crate) handshake: Duration,
}

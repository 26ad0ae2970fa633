//! Accepts connections, as far as the gate lets them in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sealane_protocol::connection::{AcceptSetup, Connection};
use sealane_types::Reason;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::driver::drive;
use super::inbound::{FindSession, Inbound};
use crate::context::{Context, SystemRandom, Wish};
use crate::desired::Rekey;
use crate::link::gate::{Admission, Gate};
use crate::link::tcp::Link;
use crate::metrics::labels::TurnedAwayLabels;

/// Wait after the kernel gave no connection, which it does when descriptors run out.
const PAUSE: Duration = Duration::from_millis(100);

/// What accepting needs.
pub(crate) struct Acceptor {
    pub(crate) context: Arc<Context>,
    pub(crate) sessions: Arc<dyn FindSession>,
    pub(crate) gate: Arc<Gate>,
    /// A value ends accepting; connections that are there see to themselves.
    pub(crate) draining: watch::Receiver<bool>,
}

impl Acceptor {
    /// Accepts until draining.
    pub(crate) async fn run(self, listener: TcpListener) {
        let mut draining = self.draining.clone();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, source)) => self.admit(stream, source),
                    Err(error) => {
                        tracing::warn!(%error, "no connection can be accepted");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                () = drained(&mut draining) => return,
            }
        }
    }

    fn admit(&self, stream: TcpStream, source: SocketAddr) {
        match self.gate.admit(source.ip(), self.context.clock.moment()) {
            Ok(admission) => {
                let (context, sessions) = (Arc::clone(&self.context), Arc::clone(&self.sessions));
                tokio::spawn(async move { serve(&context, sessions, stream, admission).await });
            }
            Err(refused) => {
                tracing::debug!(%source, "connection refused: {refused}");
                let labels = TurnedAwayLabels::new(Reason::LimitExceeded, refused.as_str());
                self.context.metrics.handshakes.turned_away.get_or_create(&labels).inc();
            }
        }
    }
}

/// An error means that the node itself is gone.
async fn drained(draining: &mut watch::Receiver<bool>) {
    let _ = draining.wait_for(|draining| *draining).await;
}

/// Runs one accepted connection. Without a policy or a Peer there is nothing that it could be verified against.
async fn serve(context: &Context, sessions: Arc<dyn FindSession>, stream: TcpStream, admission: Admission) {
    let standing = context.policy.standing();
    let (Ok(held), Some(own)) = (standing.held(), context.own_peer()) else {
        let labels = TurnedAwayLabels::new(Reason::NotConfigured, "");
        context.metrics.handshakes.turned_away.get_or_create(&labels).inc();
        return;
    };
    let mut local = context.local(held, own.clone(), Wish::default(), Rekey::default());
    if !admission.is_known() {
        local.places = context.places_of_strangers.clone();
    }
    let setup = AcceptSetup { local, audit: held.policy.document().auditors.is_some() };
    drop(standing);
    let (Ok(link), Ok(connection)) =
        (Link::new(stream), Connection::accept(setup, &mut SystemRandom, context.clock.moment()))
    else {
        return;
    };
    let (stop, stopped) = watch::channel(None);
    let namespace = context.pod.namespace().to_owned();
    let mut traffic = Inbound::new(sessions, own, namespace, admission, stop);
    let ended = drive(context, link, connection, &mut traffic, None, stopped).await;
    tracing::info!(reason = %ended.reason, established = ended.established, "an accepted connection is over");
}

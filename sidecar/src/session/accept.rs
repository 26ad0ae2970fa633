//! Accepts connections, as far as the gate lets them in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sealane_protocol::connection::{AcceptSetup, Connection, joins as greets_further_link};
use sealane_protocol::datagram::{Beginning, Engine};
use sealane_types::{PeerName, Reason};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::driver::drive;
use super::inbound::{FindSession, Inbound};
use super::joins;
use super::stop::Stop;
use super::wire::{Datagrams, Stream, Wire, tuning};
use crate::context::{Context, SystemRandom, Wish};
use crate::desired::Rekey;
use crate::link::endpoint::{Endpoint, Inlet};
use crate::link::gate::{Admission, Gate};
use crate::link::tcp::Link;
use crate::metrics::labels::TurnedAwayLabels;

/// Wait after the kernel gave no connection, which it does when descriptors run out.
const PAUSE: Duration = Duration::from_millis(100);

/// What accepting needs.
#[derive(Clone)]
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

    /// Greets whoever sends datagrams to one inlet until draining, and then gives connections what is theirs until none is
    /// left.
    pub(crate) async fn run_datagrams(self, endpoint: Arc<Endpoint>, inlet: Inlet) {
        let mut draining = self.draining.clone();
        let mut greets = true;
        loop {
            tokio::select! {
                ready = endpoint.ready(inlet) => match ready {
                    Ok(()) => {
                        self.receive(&endpoint, inlet, greets);
                        // A socket that always has something would never let others have their turn.
                        tokio::task::yield_now().await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "no datagrams can be received");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                () = drained(&mut draining), if greets => greets = false,
                () = endpoint.deserted(), if !greets => return,
            }
        }
    }

    fn receive(&self, endpoint: &Endpoint, inlet: Inlet, greets: bool) {
        let now = self.context.clock.moment();
        let begin = greets.then_some(|beginning: Beginning, first| {
            let source = beginning.source();
            let begun = self.gate(source).and_then(|admission| Begun::new(&self.context, admission));
            let Some(begun) = begun else { return };
            let Ok(engine) = Engine::accept(&beginning, tuning(source), &mut SystemRandom) else { return };
            let engine = engine.ended_by(endpoint.greeter());
            // At once, so that the rest of its flight finds it.
            let subscription = endpoint.subscribe(&beginning, engine.id(), first);
            let wire = Wire::Datagrams(Box::new(Datagrams::accepted(engine, subscription, endpoint)));
            self.spawn(wire, Begun { connection: begun.connection.over_datagrams(), ..begun });
        });
        endpoint.receive(inlet, now, begin);
    }

    fn admit(&self, stream: TcpStream, source: SocketAddr) {
        let begun = self.gate(source).and_then(|admission| Begun::new(&self.context, admission));
        let (Some(begun), Ok(link)) = (begun, Link::new(stream)) else { return };
        if self.context.links == 1 {
            return self.spawn(Wire::Stream(Stream::new(link, None)), begun);
        }
        let acceptor = self.clone();
        tokio::spawn(async move {
            if link.is_greeted_by(greets_further_link).await {
                joins::accept(acceptor.context, link, begun.admission).await;
            } else {
                acceptor.spawn(Wire::Stream(Stream::new(link, None)), begun);
            }
        });
    }

    /// Runs one accepted connection. It comes in a box, because a task keeps room for what it is given beside what that is moved into, for as long as it lives.
    fn spawn(&self, wire: Wire, begun: Begun) {
        let (context, sessions, given) =
            (Arc::clone(&self.context), Arc::clone(&self.sessions), Box::new((wire, begun)));
        tokio::spawn(async move {
            // A box that is taken apart stays until its scope ends.
            let (wire, Begun { connection, own, admission }) = {
                let given = given;
                *given
            };
            let stop = Stop::default();
            let namespace = context.pod.namespace().to_owned();
            let mut traffic = Inbound::new(sessions, own, namespace, admission, stop.clone());
            let ended = drive(&context, wire, connection, &mut traffic, None, stop).await;
            tracing::info!(reason = %ended.reason, established = ended.established, "an accepted connection is over");
        });
    }

    fn gate(&self, source: SocketAddr) -> Option<Admission> {
        let admitted = self.gate.admit(source.ip(), self.context.clock.moment());
        admitted
            .inspect_err(|refused| {
                tracing::debug!(%source, "connection refused: {refused}");
                let labels = TurnedAwayLabels::new(Reason::LimitExceeded, refused.as_str());
                self.context.metrics.handshakes.turned_away.get_or_create(&labels).inc();
            })
            .ok()
    }
}

/// An error means that the node itself is gone.
async fn drained(draining: &mut watch::Receiver<bool>) {
    let _ = draining.wait_for(|draining| *draining).await;
}

/// A connection that is accepted, and by the Peer that this pod is.
struct Begun {
    connection: Connection,
    own: PeerName,
    admission: Admission,
}

impl Begun {
    /// Without a policy or a Peer there is nothing that it could be verified against.
    fn new(context: &Context, admission: Admission) -> Option<Self> {
        let standing = context.policy.standing();
        let (Ok(held), Some(own)) = (standing.held(), context.own_peer()) else {
            let labels = TurnedAwayLabels::new(Reason::NotConfigured, "");
            context.metrics.handshakes.turned_away.get_or_create(&labels).inc();
            return None;
        };
        let mut local = context.local(held, own.clone(), Wish::default(), Rekey::default());
        if !admission.is_known() {
            local.places = context.places_of_strangers.clone();
        }
        let setup = AcceptSetup { local, audit: held.policy.document().auditors.is_some() };
        let connection = Connection::accept(setup, &mut SystemRandom, context.clock.moment()).ok()?;
        Some(Self { connection, own, admission })
    }
}

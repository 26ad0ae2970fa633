//! The gRPC door: the same lanes for every language that has gRPC. `GRPC.md` says what users may expect.
//!
//! Invariant: as at the door beside it, a client can hurt nobody but itself. Every length is looked at before there is
//! room for it, tensors lie in the pod's one memory budget, and lanes that stand still hold up no others.
//! Deliberately absent: TLS and credentials (the socket is reachable within the pod only), and any way to the network.

mod connection;
mod convert;
mod fault;
mod ledger;
mod limits;
mod listener;
mod listing;
mod memory;
mod metered;
mod notes;
mod put;
mod remedy;
mod service;
mod shared;
mod status;
mod take;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use self::listener::Listener;
use self::listing::Listing;
use self::shared::Shared;
use super::DoorError;
use super::budget::Budget;
use super::limits::ACCEPT_PAUSE;
use crate::handoff::{Lanes, Sessions};
use crate::metrics::Door as Metrics;
use crate::metrics::labels::DoorLabel;

/// The service's name, for health checks.
const SERVICE: &str = "sealane.door.v1.Door";
/// This door, among those of the pod.
const LABEL: DoorLabel = DoorLabel { door: "grpc" };

/// What the gRPC door shares with the door beside it.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) lanes: Lanes,
    pub(super) budget: Arc<Budget>,
    pub(super) process: [u8; 16],
    pub(super) metrics: Metrics,
}

/// The listening gRPC door. Clients are served by [`GrpcDoor::serve`].
#[derive(Debug)]
pub struct GrpcDoor {
    listener: Listener,
    beside: Beside,
    sessions: Arc<dyn Sessions>,
    /// Services that are the same for every client: health and reflection.
    common: Routes,
    health: HealthReporter,
}

impl GrpcDoor {
    pub(super) fn bind(path: &Path, beside: Beside, sessions: Arc<dyn Sessions>) -> Result<Self, DoorError> {
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(service::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .map_err(DoorError::Description)?;
        let (health, service) = tonic_health::server::health_reporter();
        let common = Routes::new(service).add_service(reflection);
        Ok(Self { listener: Listener::bind(path)?, beside, sessions, common, health })
    }

    /// Serves clients. After `drain` no new lane is admitted, and the call returns when the last client has left; drop
    /// the future to end those that stay, as a crash would.
    pub async fn serve(self, drain: CancellationToken) {
        let Self { listener, beside, sessions, common, health } = self;
        let Beside { lanes, budget, process, metrics } = beside;
        let (listing, notes, draining) = (Listing::new(sessions), Arc::default(), drain.clone());
        let shared = Arc::new(Shared { lanes, budget, process, listing, notes, metrics, draining });
        let calls = Calls { common, health, shared: Arc::clone(&shared) };
        tokio::select! {
            () = calls.serve(listener, drain) => {}
            () = shared.listing.look() => {}
        }
    }
}

/// What connections are served with.
struct Calls {
    common: Routes,
    health: HealthReporter,
    shared: Arc<Shared>,
}

impl Calls {
    async fn serve(self, listener: Listener, drain: CancellationToken) {
        let Self { common, health, shared } = self;
        let metrics = &shared.metrics;
        health.set_service_status(SERVICE, ServingStatus::Serving).await;
        let mut clients = JoinSet::new();
        loop {
            metrics.clients.get_or_create(&LABEL).set(i64::try_from(clients.len()).unwrap_or(i64::MAX));
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = clients.join_next() => continue,
                () = drain.cancelled() => break,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    // Out of descriptors or memory: pausing lets clients leave; a busy loop would not.
                    tracing::warn!(%error, "cannot accept a client at the gRPC door");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let turned_away = clients.len() >= limits::CLIENTS_MAX;
            if turned_away {
                metrics.turned_away.get_or_create(&LABEL).inc();
                if clients.len() >= limits::CLIENTS_MAX + limits::TURNED_AWAY_MAX {
                    // Hung up without a word: saying one would take what there is too little of.
                    continue;
                }
            }
            let service = service::service(Arc::clone(&shared), turned_away);
            let calls = common.clone().add_service(service).prepare().into_axum_router();
            let stay = if turned_away { limits::TURNED_AWAY_STAY } else { Duration::MAX };
            let connection = connection::serve(stream, calls, drain.clone());
            clients.spawn(async move { drop(timeout(stay, connection).await) });
        }
        drop(listener);
        health.set_service_status("", ServingStatus::NotServing).await;
        health.set_service_status(SERVICE, ServingStatus::NotServing).await;
        while clients.join_next().await.is_some() {}
    }
}

//! The door: where the applications of this pod put tensors and take them.
//!
//! Invariant: a client can hurt nobody but itself. Nothing that it sends is believed: every message is copied first,
//! parsed with checked arithmetic and measured against [`limits`]; its memory is copied once, to or from files that this
//! process created and sealed (`sealane_arena`). What breaks the rules of `DOOR.md` ends the connection, and with it the
//! client's lanes, as a crash of the client would.
//! Deliberately absent: sockets to anywhere else, record buffers, and any knowledge of who the other side is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::handoff::{Lanes, Sessions};
use crate::metrics::Door as Metrics;
use crate::metrics::labels::DoorLabel;

mod budget;
mod client;
pub mod codec;
mod convert;
mod extents;
mod fault;
mod grpc;
mod limits;
mod receiver;
mod segment;
mod sender;
mod socket;
mod take;

pub use grpc::GrpcDoor;

pub use fault::Fault;

use budget::Budget;
use socket::Listener;

/// This door, among those of the pod.
const LABEL: DoorLabel = DoorLabel { door: "socket" };

/// Why the door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    #[error("another sidecar listens on {0}; stop it or set SEALANE_DOOR or SEALANE_GRPC to another path")]
    Taken(PathBuf),
    #[error(
        "{path} exists and is not a socket; remove it or set SEALANE_DOOR or SEALANE_GRPC to another path"
    )]
    NotASocket { path: PathBuf },
    #[error("cannot listen on {path}; its directory must exist and be writable")]
    Listen {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no random bytes for the identity of this process")]
    Random,
    #[error("the gRPC door cannot describe itself")]
    Description(#[source] tonic_reflection::server::Error),
}

/// What every client shares.
#[derive(Debug)]
struct Shared {
    lanes: Lanes,
    budget: Arc<Budget>,
    process: [u8; 16],
    metrics: Metrics,
}

/// The listening door. Clients are served by [`Door::serve`].
#[derive(Debug)]
pub struct Door {
    listener: Listener,
    shared: Arc<Shared>,
}

impl Door {
    /// Listens on `path`. All segments of all clients together take at most `arena_bytes`.
    ///
    /// # Errors
    /// When the path is in use or cannot be written.
    pub fn bind(path: &Path, arena_bytes: u64, lanes: Lanes) -> Result<Self, DoorError> {
        Self::counting(path, arena_bytes, lanes, Metrics::default())
    }

    /// As [`Door::bind`], counting in `metrics`.
    ///
    /// # Errors
    /// As [`Door::bind`].
    pub(crate) fn counting(
        path: &Path,
        arena_bytes: u64,
        lanes: Lanes,
        metrics: Metrics,
    ) -> Result<Self, DoorError> {
        let mut process = [0; 16];
        aws_lc_rs::rand::fill(&mut process).map_err(|_| DoorError::Random)?;
        let listener = Listener::bind(path)?;
        let budget = Budget::new(arena_bytes, metrics.clone());
        Ok(Self { listener, shared: Arc::new(Shared { lanes, budget, process, metrics }) })
    }

    /// Listens on `path` for gRPC clients, which share the lanes and the memory of this door.
    ///
    /// # Errors
    /// As [`Door::bind`].
    pub fn grpc(&self, path: &Path, sessions: Arc<dyn Sessions>) -> Result<GrpcDoor, DoorError> {
        let Shared { lanes, budget, process, metrics } = &*self.shared;
        let beside = grpc::Beside {
            lanes: lanes.clone(),
            budget: Arc::clone(budget),
            process: *process,
            metrics: metrics.clone(),
        };
        GrpcDoor::bind(path, beside, sessions)
    }

    /// Serves clients. After `drain` no new one is admitted, and the call returns when the last has left; drop the
    /// future to end those that stay, as a crash would.
    pub async fn serve(self, drain: CancellationToken) {
        let Self { listener, shared } = self;
        let mut clients = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = clients.join_next() => {
                    shared.metrics.clients.get_or_create(&LABEL).set(counted(clients.len()));
                    continue;
                }
                () = drain.cancelled() => break,
            };
            match accepted {
                Ok(socket) if clients.len() < limits::CLIENTS_MAX => {
                    clients.spawn(client::serve(Arc::new(socket), shared.clone()));
                    shared.metrics.clients.get_or_create(&LABEL).set(counted(clients.len()));
                }
                Ok(socket) => {
                    shared.metrics.turned_away.get_or_create(&LABEL).inc();
                    client::turn_away(&socket);
                }
                Err(error) => {
                    // Out of descriptors or memory: pausing lets clients leave; a busy loop would not.
                    tracing::warn!(%error, "cannot accept a client at the door");
                    tokio::time::sleep(limits::ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        while clients.join_next().await.is_some() {}
    }
}

fn counted(clients: usize) -> i64 {
    i64::try_from(clients).unwrap_or(i64::MAX)
}

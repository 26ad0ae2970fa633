//! Doors to test against.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use sealane_sidecar::desired::Direction;
use sealane_sidecar::door::Door;
use sealane_sidecar::handoff::{self, LaneError, Lanes, ReplicaId, SessionKind, SessionView, Sessions};
use sealane_types::Reason;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::loopback;
use crate::support::{LIMIT, Plan, Sidecar, within};

pub(crate) const MIB: u64 = 1 << 20;

/// Both doors of a sidecar, on a runtime of their own, so that a kill ends every task and socket of theirs.
pub(crate) struct Served {
    folder: tempfile::TempDir,
    pub(crate) drain: CancellationToken,
    kill: CancellationToken,
    thread: Option<JoinHandle<()>>,
    pub(crate) sidecar: Option<Sidecar>,
}

/// What `Sessions` tells of a door that loops back.
#[derive(Debug)]
struct Fixed;

impl Sessions for Fixed {
    fn list(&self) -> Vec<SessionView> {
        let expired = LaneError::refused(Reason::PolicyExpired, "the policy expired");
        let view = |name: &str, direction, standing| SessionView {
            name: name.parse().unwrap(),
            direction,
            kind: SessionKind::Stream,
            standing,
        };
        vec![
            view("activations", Direction::Receiving, Ok(())),
            view("refused", Direction::Sending, Err(expired)),
        ]
    }
}

impl Served {
    /// A door whose sessions end where they begin.
    pub(crate) fn looping(arena_bytes: u64) -> Self {
        let (lanes, requests) = handoff::lanes();
        let also = async move { loopback::serve(requests, ReplicaId([7; 16])).await };
        Self::serve(arena_bytes, lanes, Arc::new(Fixed), also, None)
    }

    /// The doors of a real sidecar.
    pub(crate) fn real(plan: Plan, arena_bytes: u64) -> Self {
        let sidecar = plan.start();
        let (lanes, sessions) = (sidecar.lanes.clone(), sidecar.node.sessions());
        Self::serve(arena_bytes, lanes, sessions, async {}, Some(sidecar))
    }

    /// A receiving sidecar and one that sends to it.
    pub(crate) fn pair() -> (Self, Self) {
        let receiver = Self::real(Plan::receiver(), 512 * MIB);
        let address = receiver.sidecar.as_ref().unwrap().address;
        (Self::real(Plan::sender(&[address]), 512 * MIB), receiver)
    }

    fn serve(
        arena_bytes: u64,
        lanes: Lanes,
        sessions: Arc<dyn Sessions>,
        also: impl Future<Output = ()> + Send + 'static,
        sidecar: Option<Sidecar>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (door, grpc) = (folder.path().join("door.sock"), folder.path().join("grpc.sock"));
        let (drain, kill) = (CancellationToken::new(), CancellationToken::new());
        let (draining, killed) = (drain.clone(), kill.clone());
        let (ready, listening) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let door = Door::bind(&door, arena_bytes, lanes).unwrap();
                let grpc = door.grpc(&grpc, sessions).unwrap();
                tokio::spawn(also);
                ready.send(()).unwrap();
                let served =
                    async { tokio::join!(door.serve(draining.clone()), grpc.serve(draining.clone())) };
                tokio::select! {
                    _ = served => {}
                    () = killed.cancelled() => {}
                }
            });
            runtime.shutdown_timeout(LIMIT);
        });
        listening.recv().unwrap();
        Self { folder, drain, kill, thread: Some(thread), sidecar }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("grpc.sock")
    }

    /// A connection of its own.
    pub(crate) async fn channel(&self) -> Channel {
        self.try_channel().await.unwrap()
    }

    /// A connection, unless the door hangs up on it.
    pub(crate) async fn try_channel(&self) -> Result<Channel, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", self.path().display())).unwrap();
        let endpoint = endpoint.initial_stream_window_size(8 << 20).initial_connection_window_size(16 << 20);
        within("a connection", endpoint.connect()).await
    }

    /// Kills the sidecar with its doors, and tells how to start it again.
    pub(crate) fn kill(mut self) -> Plan {
        self.stop();
        self.sidecar.take().unwrap().kill()
    }

    fn stop(&mut self) {
        self.kill.cancel();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
        assert!(!self.path().exists(), "the socket goes with the door");
    }
}

//! The container runtime of this node, asked by its own interface (CRI, runtime.v1) what runs in a pod.
//!
//! What the kubelet lists of a pod's containers has passed through the API server, where whoever may write `pods/status`
//! can change it. The runtime says what it started itself.
//!
//! Invariant: nothing is asked for that changes anything, since the runtime's socket is worth as much as root on the node.

pub(super) mod container;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use sealane_sidecar_api::cri::image_service_client::ImageServiceClient;
use sealane_sidecar_api::cri::runtime_service_client::RuntimeServiceClient;
use sealane_sidecar_api::cri::{ImageSpec, ImageStatusRequest, ListContainersRequest};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tonic::transport::{Channel, Endpoint};

use container::{ImageDigests, PodContainer};

/// Longest time for what is asked at once, waiting for others included.
const DEADLINE: Duration = Duration::from_secs(2);
/// Pods about which the runtime is asked at the same time; the kubelet asks it, too.
const PODS_AT_ONCE_MAX: usize = 4;
const LOOK: Duration = Duration::from_secs(2);
/// So often in a row nobody listened.
const REFUSALS_MAX: u32 = 3;
/// A pod has a few containers, and a runtime keeps one that ended for each.
const CONTAINERS_MAX: usize = 256;
/// Of one answer.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The runtime said nothing that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RuntimeError {
    #[error("`{0}` is no path of a socket: it has to be absolute, and without spaces")]
    Path(String),
    #[error("it does not answer; the agent's log says why")]
    Call,
    #[error("it lists {0} containers of one pod, more than 256")]
    TooMany(usize),
    #[error("it did not answer in time")]
    TimedOut,
}

/// Who knows what runs in pods.
pub(super) trait AskRuntime: Send + Sync + fmt::Debug {
    /// Containers of the pod with `uid`, those that ended included.
    fn containers<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, Result<Vec<PodContainer>, RuntimeError>>;

    /// Under which digests the images of `containers` are known.
    fn images<'a>(
        &'a self,
        containers: &'a [PodContainer],
    ) -> BoxFuture<'a, Result<ImageDigests, RuntimeError>>;
}

/// The runtime at its socket.
#[derive(Debug)]
pub(super) struct Runtime {
    socket: PathBuf,
    containers: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    /// Pods about which it is asked at once.
    places: Semaphore,
    /// How long the runtime may take; [`DEADLINE`] but in tests.
    deadline: Duration,
}

impl Runtime {
    /// The runtime that serves at `socket`; it is connected to when it is first asked.
    ///
    /// # Errors
    /// [`RuntimeError::Path`] for what cannot be a socket's path.
    pub(super) fn new(socket: &Path) -> Result<Self, RuntimeError> {
        let text = socket.to_string_lossy();
        let unusable = || RuntimeError::Path(text.clone().into_owned());
        if !socket.is_absolute() || text.contains(char::is_whitespace) {
            return Err(unusable());
        }
        let endpoint = Endpoint::from_shared(format!("unix://{text}")).map_err(|_| unusable())?;
        let channel = endpoint.connect_timeout(DEADLINE).connect_lazy();
        let containers =
            RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let images = ImageServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let places = Semaphore::new(PODS_AT_ONCE_MAX);
        Ok(Self { socket: socket.to_owned(), containers, images, places, deadline: DEADLINE })
    }

    /// Resolves when nobody has listened at the socket for a while. A runtime that starts again makes another socket in its
    /// place, which a container sees only once it is started again itself.
    pub(super) async fn gone(&self) {
        let mut refusals = 0;
        while refusals < REFUSALS_MAX {
            tokio::time::sleep(LOOK).await;
            refusals = match UnixStream::connect(&self.socket).await {
                Ok(_) => 0,
                Err(_) => refusals.saturating_add(1),
            };
        }
    }

    async fn list(&self, uid: &str) -> Result<Vec<PodContainer>, RuntimeError> {
        let request = ListContainersRequest { filter: Some(container::of_pod(uid)) };
        let answer = self.containers.clone().list_containers(request).await;
        let listed = answer.map_err(|status| self.failed(&status))?.into_inner().containers;
        if listed.len() > CONTAINERS_MAX {
            return Err(RuntimeError::TooMany(listed.len()));
        }
        Ok(listed.into_iter().filter_map(|container| PodContainer::new(container, uid)).collect())
    }

    async fn ask_images(&self, containers: &[PodContainer]) -> Result<ImageDigests, RuntimeError> {
        let names = containers.iter().map(|container| container.image.as_str());
        // What a tag names now is not what runs.
        let names: BTreeSet<&str> = names.filter(|name| container::is_content(name)).collect();
        let mut images = ImageDigests::new();
        for name in names {
            let request = ImageStatusRequest { image: Some(ImageSpec { image: name.to_owned() }) };
            let answer = self.images.clone().image_status(request).await;
            let image = answer.map_err(|status| self.failed(&status))?.into_inner().image;
            images.insert(name.to_owned(), container::digests(image));
        }
        Ok(images)
    }

    /// Callers hear that it failed; what the runtime said is for the node's own log.
    fn failed(&self, status: &tonic::Status) -> RuntimeError {
        tracing::warn!(socket = %self.socket.display(), %status, "the container runtime does not answer");
        RuntimeError::Call
    }

    async fn in_turn<T>(
        &self,
        ask: impl Future<Output = Result<T, RuntimeError>>,
    ) -> Result<T, RuntimeError> {
        let asked = async {
            let _place = self.places.acquire().await.map_err(|_| RuntimeError::TimedOut)?;
            ask.await
        };
        tokio::time::timeout(self.deadline, asked).await.map_err(|_| RuntimeError::TimedOut)?
    }
}

impl AskRuntime for Runtime {
    fn containers<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, Result<Vec<PodContainer>, RuntimeError>> {
        self.in_turn(self.list(uid)).boxed()
    }

    fn images<'a>(
        &'a self,
        containers: &'a [PodContainer],
    ) -> BoxFuture<'a, Result<ImageDigests, RuntimeError>> {
        self.in_turn(self.ask_images(containers)).boxed()
    }
}

#[cfg(test)]
mod tests;

//! The container runtime of this node, asked by its own interface (CRI, runtime.v1) what runs in a pod.
//!
//! What the kubelet lists of a pod's containers has passed through the API server, where whoever may write `pods/status`
//! can change it. The runtime says what it started itself.
//!
//! Invariant: nothing is asked for that changes anything, since the runtime's socket is worth as much as root on the node.

pub(super) mod container;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use sealane_sidecar_api::cri::image_service_client::ImageServiceClient;
use sealane_sidecar_api::cri::runtime_service_client::RuntimeServiceClient;
use sealane_sidecar_api::cri::{ImageSpec, ImageStatusRequest, ListContainersRequest};
use sealane_types::Digest;
use tonic::transport::{Channel, Endpoint};

use container::PodContainer;

/// Longest time for all that is asked about one pod.
const DEADLINE: Duration = Duration::from_secs(4);
/// A pod has a few containers, and a runtime keeps one that ended for each.
const CONTAINERS_MAX: usize = 256;
/// Of one answer.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The runtime said nothing that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RuntimeError {
    #[error("`{0}` is no path of a socket: it has to be absolute, and without spaces")]
    Path(String),
    #[error(
        "the container runtime does not answer at {0}; it may serve at another path (agent.runtimeSocket)"
    )]
    Call(String, #[source] Box<tonic::Status>),
    #[error("the container runtime lists {0} containers of one pod, more than 256")]
    TooMany(usize),
    #[error("the container runtime did not answer in time")]
    TimedOut,
}

/// Who knows what runs in pods.
pub(super) trait ListContainers: Send + Sync + fmt::Debug {
    /// Containers of the pod with `uid`, those that ended included.
    fn containers<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, Result<Vec<PodContainer>, RuntimeError>>;
}

/// The runtime at its socket.
#[derive(Debug)]
pub(super) struct Runtime {
    socket: String,
    containers: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    /// How long the runtime may take; [`DEADLINE`] but in tests.
    deadline: Duration,
}

impl Runtime {
    /// The runtime that serves at `socket`; it is connected to when it is first asked, and again after it went away.
    ///
    /// # Errors
    /// [`RuntimeError::Path`] for what cannot be a socket's path.
    pub(super) fn new(socket: &Path) -> Result<Self, RuntimeError> {
        let text = socket.to_string_lossy().into_owned();
        let unusable = || RuntimeError::Path(text.clone());
        if !socket.is_absolute() || text.contains(char::is_whitespace) {
            return Err(unusable());
        }
        let endpoint = Endpoint::from_shared(format!("unix://{text}")).map_err(|_| unusable())?;
        let channel = endpoint.connect_timeout(DEADLINE).connect_lazy();
        let containers =
            RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let images = ImageServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self { socket: text, containers, images, deadline: DEADLINE })
    }

    async fn list(&self, uid: &str) -> Result<Vec<PodContainer>, RuntimeError> {
        let request = ListContainersRequest { filter: Some(container::of_pod(uid)) };
        let answer = self.containers.clone().list_containers(request).await;
        let listed = answer.map_err(|status| self.failed(status))?.into_inner().containers;
        if listed.len() > CONTAINERS_MAX {
            return Err(RuntimeError::TooMany(listed.len()));
        }
        let mut images: BTreeMap<String, BTreeSet<Digest>> = BTreeMap::new();
        let mut containers = Vec::with_capacity(listed.len());
        for container in listed {
            let digests = match images.get(&container.image_ref) {
                Some(known) => known.clone(),
                None => {
                    let asked = self.digests(&container.image_ref).await?;
                    images.entry(container.image_ref.clone()).or_insert(asked).clone()
                }
            };
            containers.extend(PodContainer::new(container, uid, digests));
        }
        Ok(containers)
    }

    async fn digests(&self, image: &str) -> Result<BTreeSet<Digest>, RuntimeError> {
        let request = ImageStatusRequest { image: Some(ImageSpec { image: image.to_owned() }) };
        let answer = self.images.clone().image_status(request).await;
        Ok(container::digests(answer.map_err(|status| self.failed(status))?.into_inner().image))
    }

    fn failed(&self, status: tonic::Status) -> RuntimeError {
        RuntimeError::Call(self.socket.clone(), Box::new(status))
    }
}

impl ListContainers for Runtime {
    fn containers<'a>(&'a self, uid: &'a str) -> BoxFuture<'a, Result<Vec<PodContainer>, RuntimeError>> {
        async move {
            let listed = tokio::time::timeout(self.deadline, self.list(uid)).await;
            listed.map_err(|_| RuntimeError::TimedOut)?
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;

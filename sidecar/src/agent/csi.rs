//! What the kubelet asks: that there is a driver, and that a pod's volume be made or taken away.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealane_sidecar_api::csi::identity_server::{Identity, IdentityServer};
use sealane_sidecar_api::csi::node_server::{Node, NodeServer};
use sealane_sidecar_api::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse, ProbeRequest, ProbeResponse,
};
use sealane_sidecar_api::registration::registration_server::{Registration, RegistrationServer};
use sealane_sidecar_api::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::socket::{Desk, Served};
use super::volumes::{DRIVER, VolumeError, Volumes};

/// The kubelet's words for the pod that a volume is for (CSIDriver.spec.podInfoOnMount).
const POD_UID: &str = "csi.storage.k8s.io/pod.uid";
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
/// Messages of the kubelet are small.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// Where the kubelet looks for the driver.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// The driver's socket.
    pub(super) driver: PathBuf,
    /// The socket by which it registers.
    pub(super) registration: PathBuf,
}

impl Places {
    /// In the kubelet's folder, as the kubelet sees it.
    ///
    /// The kubelet calls whoever registers by the whole path, escaped: `%2Fvar%2Flib…` as HTTP/2's authority
    /// (grpc-go's encodeAuthority; pluginmanager/operationexecutor sets no other). No strict server takes that for a
    /// host; what stands before an `@` may be escaped, so that there is one in the name of the socket.
    pub(super) fn new(kubelet: &Path) -> Self {
        Self {
            driver: kubelet.join("plugins").join(DRIVER).join("csi.sock"),
            registration: kubelet.join("plugins_registry").join(format!("sealane@{DRIVER}-reg.sock")),
        }
    }
}

/// The driver of one node.
#[derive(Debug, Clone)]
pub(super) struct Driver {
    pub(super) node: String,
    pub(super) places: Places,
    pub(super) volumes: Arc<Volumes<Served>>,
    pub(super) desk: Arc<Desk>,
    /// The kubelet's answer to the registration: why not, or nothing.
    pub(super) registered: mpsc::Sender<Result<(), String>>,
}

impl Driver {
    /// Serves the kubelet for the life of the process. The driver listens before the kubelet is told of it.
    pub(super) async fn serve(self) -> anyhow::Result<()> {
        let driver = listen(&self.places.driver)?;
        let registration = listen(&self.places.registration)?;
        let identity = IdentityServer::new(self.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let node = NodeServer::new(self.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let driving = Server::builder()
            .add_service(identity)
            .add_service(node)
            .serve_with_incoming(UnixListenerStream::new(driver));
        let registering = RegistrationServer::new(self).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let registering = Server::builder()
            .add_service(registering)
            .serve_with_incoming(UnixListenerStream::new(registration));
        tokio::try_join!(driving, registering)?;
        Ok(())
    }

    fn publish(&self, request: &NodePublishVolumeRequest) -> Result<(), Status> {
        let context = &request.volume_context;
        if context.get(EPHEMERAL).map(String::as_str) != Some("true") {
            return Err(Status::invalid_argument("only ephemeral inline volumes are served"));
        }
        let uid = context.get(POD_UID).map(String::as_str).unwrap_or_default();
        let serve = |target: &super::volumes::Target, listener| {
            Served::start(Arc::clone(&self.desk), target.pod_uid().to_owned(), listener)
        };
        let path = Path::new(&request.target_path);
        self.volumes.publish(path, uid, request.readonly, serve).map_err(status)?;
        tracing::info!(uid, "a pod's socket is there");
        Ok(())
    }
}

/// Listens on `path`, in the place of a socket that an earlier agent left. The kubelet alone reaches the folder.
fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    UnixListener::bind(path)
}

fn status(error: VolumeError) -> Status {
    let words = error.to_string();
    match error {
        VolumeError::Path | VolumeError::OtherPod | VolumeError::Writable | VolumeError::Second => {
            Status::invalid_argument(words)
        }
        VolumeError::TooMany => Status::resource_exhausted(words),
        VolumeError::Io(cause) => Status::internal(format!("{words}: {cause}")),
    }
}

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let (name, vendor_version) = (DRIVER.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Ok(Response::new(GetPluginInfoResponse { name, vendor_version }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(GetPluginCapabilitiesResponse {}))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse {}))
    }
}

#[tonic::async_trait]
impl Node for Driver {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let published = self.publish(request.get_ref());
        if let Err(status) = &published {
            tracing::warn!("a volume is refused: {}", status.message());
        }
        published.map(|()| Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        self.volumes.unpublish(Path::new(&request.get_ref().target_path)).map_err(status)?;
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(NodeGetCapabilitiesResponse {}))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        Ok(Response::new(NodeGetInfoResponse { node_id: self.node.clone() }))
    }
}

#[tonic::async_trait]
impl Registration for Driver {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: DRIVER.to_owned(),
            endpoint: self.places.driver.to_string_lossy().into_owned(),
            supported_versions: vec!["1.0.0".to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus { plugin_registered, error } = request.into_inner();
        let said = if plugin_registered { Ok(()) } else { Err(error) };
        // The agent ends with its receiver.
        let _ = self.registered.try_send(said);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

#[cfg(test)]
mod tests;

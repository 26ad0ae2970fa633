//! The kubelet's side of a node, over the driver's own sockets.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use hyper_util::rt::TokioIo;
use sealane_attestation::Format;
use sealane_sidecar_api::csi::identity_client::IdentityClient;
use sealane_sidecar_api::csi::node_client::NodeClient;
use sealane_sidecar_api::registration::registration_client::RegistrationClient;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

use super::*;
use crate::agent::example::UID;
use crate::agent::kubelet::pod::Pod;
use crate::agent::kubelet::{KubeletError, ListPods};
use crate::agent::quoter::Quoter;
use crate::agent::runtime::container::{ImageDigests, PodContainer};
use crate::agent::runtime::{AskRuntime, RuntimeError};
use crate::evidence::{Provider, ProviderError, Quote, QuoteRequest};

#[derive(Debug)]
struct Nothing;

impl Provider for Nothing {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        async { Ok(Format::Tdx) }.boxed()
    }

    fn quote(&self, _: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        async { Err(ProviderError::Unavailable) }.boxed()
    }
}

impl ListPods for Nothing {
    fn pods(&self) -> BoxFuture<'_, Result<Arc<Vec<Pod>>, KubeletError>> {
        async { Ok(Arc::default()) }.boxed()
    }
}

impl AskRuntime for Nothing {
    fn containers<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<PodContainer>, RuntimeError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn images<'a>(&'a self, _: &'a [PodContainer]) -> BoxFuture<'a, Result<ImageDigests, RuntimeError>> {
        async { Ok(ImageDigests::new()) }.boxed()
    }
}

/// A running driver in a kubelet's folder of its own.
struct Running {
    folder: tempfile::TempDir,
    places: Places,
    answers: mpsc::Receiver<Result<(), String>>,
}

impl Running {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::new(folder.path());
        for socket in [&places.driver, &places.registration] {
            std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
            std::fs::write(socket, "left by an agent that was killed").unwrap();
        }
        let (pods, containers) = (Arc::new(Nothing), Arc::new(Nothing));
        let desk = Desk::new(pods, containers, Quoter::new(Arc::new(Nothing)), [].into(), "/proc".into());
        let volumes = Arc::new(Volumes::new(folder.path().join("pods"), Served::stop));
        let (registered, answers) = mpsc::channel(1);
        let node = "node1".to_owned();
        let driver = Driver { node, places: places.clone(), volumes, desk: Arc::new(desk), registered };
        tokio::spawn(driver.serve());
        Self { folder, places, answers }
    }

    async fn channel(path: &Path, authority: &str) -> Channel {
        let path = path.to_owned();
        let connect = tower::service_fn(move |_| {
            let path = path.clone();
            async move {
                loop {
                    // The driver has just been started.
                    match UnixStream::connect(&path).await {
                        Ok(stream) => return Ok::<_, io::Error>(TokioIo::new(stream)),
                        Err(_) => tokio::task::yield_now().await,
                    }
                }
            }
        });
        // As grpc-go escapes it.
        let authority = authority.replace('/', "%2F");
        Endpoint::from_shared(format!("http://{authority}"))
            .unwrap()
            .connect_with_connector(connect)
            .await
            .unwrap()
    }

    async fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(Self::channel(&self.places.driver, "localhost").await)
    }

    fn request(&self, edit: impl FnOnce(&mut NodePublishVolumeRequest)) -> NodePublishVolumeRequest {
        let volume =
            self.folder.path().join("pods").join(UID).join("volumes/kubernetes.io~csi/sealane-agent");
        std::fs::create_dir_all(&volume).unwrap();
        let context =
            [(POD_UID, UID), (EPHEMERAL, "true")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut request = NodePublishVolumeRequest {
            volume_id: "csi-1".to_owned(),
            target_path: volume.join("mount").to_string_lossy().into_owned(),
            readonly: true,
            volume_context: context.into(),
        };
        edit(&mut request);
        request
    }
}

#[tokio::test]
async fn the_kubelet_finds_the_driver_and_is_heard() {
    let mut running = Running::start();
    let mut registration = {
        let path = &running.places.registration;
        RegistrationClient::new(Running::channel(path, &path.to_string_lossy()).await)
    };
    let info = registration.get_info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("CSIPlugin", "csi.sealane.dev"));
    assert_eq!(info.endpoint, running.places.driver.to_string_lossy());
    let mut identity = IdentityClient::new(Running::channel(Path::new(&info.endpoint), "localhost").await);
    let plugin = identity.get_plugin_info(GetPluginInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(plugin.name, "csi.sealane.dev");
    identity.probe(ProbeRequest {}).await.unwrap();
    let node = running.node().await.node_get_info(NodeGetInfoRequest {}).await.unwrap();
    assert_eq!(node.into_inner().node_id, "node1");
    let refused = RegistrationStatus { plugin_registered: false, error: "no".to_owned() };
    registration.notify_registration_status(refused).await.unwrap();
    assert_eq!(running.answers.recv().await.unwrap(), Err("no".to_owned()));
}

#[tokio::test]
async fn a_volume_comes_and_goes() {
    let running = Running::start();
    let mut node = running.node().await;
    let request = running.request(|_| {});
    let path = request.target_path.clone();
    node.node_publish_volume(request).await.unwrap();
    assert!(Path::new(&path).join("agent.sock").exists());
    let gone = NodeUnpublishVolumeRequest { volume_id: "csi-1".to_owned(), target_path: path.clone() };
    node.node_unpublish_volume(gone).await.unwrap();
    assert!(!Path::new(&path).exists());
}

#[tokio::test]
async fn only_ephemeral_read_only_volumes_of_the_named_pod_are_made() {
    let running = Running::start();
    let mut node = running.node().await;
    let spoiled: [fn(&mut NodePublishVolumeRequest); 5] = [
        |request| request.readonly = false,
        |request| drop(request.volume_context.remove(EPHEMERAL)),
        |request| drop(request.volume_context.remove(POD_UID)),
        |request| drop(request.volume_context.insert(POD_UID.to_owned(), "other".to_owned())),
        |request| request.target_path = "/etc".to_owned(),
    ];
    for spoil in spoiled {
        let refused = node.node_publish_volume(running.request(spoil)).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    }
    let unmade = running.request(|_| {});
    assert!(!Path::new(&unmade.target_path).exists());
}

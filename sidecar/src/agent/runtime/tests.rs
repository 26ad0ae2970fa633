//! A runtime at a socket of its own, as containerd and CRI-O answer, and ones that do not.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;

use sealane_sidecar_api::cri::image_service_server::{ImageService, ImageServiceServer};
use sealane_sidecar_api::cri::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use sealane_sidecar_api::cri::{
    Container, ContainerMetadata, ContainerState, Image, ImageStatusResponse, ListContainersResponse,
};
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::*;
use crate::agent::example::{OTHER_UID, UID, id, running};

/// Longest wait for anything; generous, because machines that run tests are busy.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Default)]
struct Fake {
    containers: Vec<Container>,
    /// Names of images and the names under which each was pulled.
    images: HashMap<String, Vec<String>>,
    /// Whether it answers at all.
    silent: bool,
}

#[tonic::async_trait]
impl RuntimeService for Fake {
    async fn list_containers(
        &self,
        request: Request<ListContainersRequest>,
    ) -> Result<Response<ListContainersResponse>, Status> {
        if self.silent {
            pending::<()>().await;
        }
        let asked = request.into_inner().filter.unwrap_or_default().label_selector;
        assert_eq!(asked, HashMap::from([("io.kubernetes.pod.uid".to_owned(), UID.to_owned())]));
        Ok(Response::new(ListContainersResponse { containers: self.containers.clone() }))
    }
}

#[tonic::async_trait]
impl ImageService for Fake {
    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let name = request.into_inner().image.unwrap_or_default().image;
        let image = self.images.get(&name).map(|names| Image { repo_digests: names.clone() });
        Ok(Response::new(ImageStatusResponse { image }))
    }
}

/// A runtime that serves until it is stopped.
struct Serving {
    folder: tempfile::TempDir,
    server: JoinHandle<()>,
    stop: Arc<Notify>,
}

impl Serving {
    fn start(fake: Fake) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stop = Arc::new(Notify::new());
        let listener = UnixListener::bind(folder.path().join("cri.sock")).unwrap();
        let server = Self::serve(listener, fake, Arc::clone(&stop));
        Self { folder, server, stop }
    }

    fn serve(listener: UnixListener, fake: Fake, stop: Arc<Notify>) -> JoinHandle<()> {
        let server = Server::builder()
            .add_service(RuntimeServiceServer::new(fake.clone()))
            .add_service(ImageServiceServer::new(fake));
        let incoming = UnixListenerStream::new(listener);
        tokio::spawn(async move {
            server.serve_with_incoming_shutdown(incoming, stop.notified()).await.unwrap();
        })
    }

    fn runtime(&self) -> Runtime {
        Runtime { deadline: LIMIT, ..Runtime::new(&self.folder.path().join("cri.sock")).unwrap() }
    }

    /// The same socket, served anew when every connection has ended.
    async fn restart(&mut self, fake: Fake) {
        self.stop.notify_one();
        (&mut self.server).await.unwrap();
        let socket = self.folder.path().join("cri.sock");
        std::fs::remove_file(&socket).unwrap();
        self.server = Self::serve(UnixListener::bind(&socket).unwrap(), fake, Arc::clone(&self.stop));
    }
}

fn listed(name: &str, container: char, image: &str, uid: &str) -> Container {
    let labels = [("namespace", "demo"), ("name", "embedder-0"), ("uid", uid)];
    Container {
        id: id(container),
        metadata: Some(ContainerMetadata { name: name.to_owned() }),
        image_ref: image.to_owned(),
        state: ContainerState::ContainerRunning.into(),
        labels: labels.map(|(key, value)| (format!("io.kubernetes.pod.{key}"), value.to_owned())).into(),
    }
}

fn pulled(image: &str, digests: &[char]) -> (String, Vec<String>) {
    let names = digests.iter().map(|digest| format!("registry.example/x@sha256:{}", id(*digest)));
    (image.to_owned(), names.collect())
}

fn pair() -> Fake {
    Fake {
        containers: vec![
            listed("sealane", '1', "sha256:c0", UID),
            listed("app", '2', &format!("registry.example/app@sha256:{}", id('b')), UID),
        ],
        images: [
            pulled("sha256:c0", &['a']),
            pulled(&format!("registry.example/app@sha256:{}", id('b')), &['b']),
        ]
        .into(),
        silent: false,
    }
}

#[tokio::test]
async fn containers_are_listed_with_the_digests_of_their_images() {
    let serving = Serving::start(pair());
    let found = serving.runtime().containers(UID).await.unwrap();
    assert_eq!(found, [running("sealane", '1', 'a'), running("app", '2', 'b')]);
}

#[tokio::test]
async fn states_and_images_are_read_as_runtimes_write_them() {
    let mut fake = pair();
    fake.containers[1].state = ContainerState::ContainerExited.into();
    fake.images.extend([pulled("sha256:c0", &['a', 'c'])]);
    fake.images.get_mut("sha256:c0").unwrap().extend(["garbage".to_owned(), "x@sha256:00".to_owned()]);
    let found = Serving::start(fake.clone()).runtime().containers(UID).await.unwrap();
    let expected: BTreeSet<Digest> = ['a', 'c'].map(|digest| id(digest).parse().unwrap()).into();
    assert_eq!(found[0].digests, expected);
    assert!(found[0].running && !found[1].running);
    // An image that was taken away, or never pulled.
    fake.images.clear();
    let found = Serving::start(fake).runtime().containers(UID).await.unwrap();
    assert!(found.iter().all(|container| container.digests.is_empty()));
}

#[tokio::test]
async fn containers_of_other_pods_are_left_out_even_if_they_are_listed() {
    let mut fake = pair();
    fake.containers.push(listed("stranger", '3', "sha256:c0", OTHER_UID));
    fake.containers.push(Container { labels: HashMap::new(), ..listed("bare", '4', "sha256:c0", UID) });
    let found = Serving::start(fake).runtime().containers(UID).await.unwrap();
    assert_eq!(found.len(), 2);
}

#[tokio::test]
async fn hostile_and_silent_runtimes_are_refused() {
    let many = Fake { containers: vec![Container::default(); CONTAINERS_MAX + 1], ..Fake::default() };
    let refused = Serving::start(many).runtime().containers(UID).await.unwrap_err();
    assert!(matches!(refused, RuntimeError::TooMany(257)), "{refused}");
    let mut endless = pair();
    endless.containers[0].image_ref = "x".repeat(MESSAGE_BYTES_MAX);
    let refused = Serving::start(endless).runtime().containers(UID).await.unwrap_err();
    assert!(matches!(refused, RuntimeError::Call(..)), "{refused}");
    let silent = Serving::start(Fake { silent: true, ..Fake::default() });
    let impatient = Runtime { deadline: Duration::from_millis(1), ..silent.runtime() };
    assert!(matches!(impatient.containers(UID).await, Err(RuntimeError::TimedOut)));
}

#[tokio::test]
async fn a_runtime_that_starts_again_is_asked_again() {
    let mut serving = Serving::start(pair());
    let runtime = serving.runtime();
    runtime.containers(UID).await.unwrap();
    serving.restart(Fake::default()).await;
    // The first call may still go to the connection that has just ended.
    let found = match runtime.containers(UID).await {
        Ok(found) => found,
        Err(_) => runtime.containers(UID).await.unwrap(),
    };
    assert!(found.is_empty());
}

#[tokio::test]
async fn a_socket_that_nobody_serves_is_named() {
    let refused = Runtime::new(Path::new("/nowhere/cri.sock")).unwrap().containers(UID).await.unwrap_err();
    assert!(refused.to_string().contains("/nowhere/cri.sock"), "{refused}");
    for path in ["", "cri.sock", "/run/my runtime.sock"] {
        assert!(matches!(Runtime::new(Path::new(path)), Err(RuntimeError::Path(_))), "{path}");
    }
}

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
use crate::agent::example::{OTHER_UID, UID, containers, id, image_name, running};

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

fn pulled(digest: char) -> (String, Vec<String>) {
    (image_name(digest), vec![format!("registry.example/x@sha256:{}", id(digest))])
}

fn pair() -> Fake {
    Fake {
        containers: vec![
            listed("sealane", '1', &image_name('a'), UID),
            listed("app", '2', &image_name('b'), UID),
        ],
        images: [pulled('a'), pulled('b')].into(),
        silent: false,
    }
}

#[tokio::test]
async fn containers_are_listed_with_the_digests_of_their_images() {
    let mut fake = pair();
    fake.containers[1].state = ContainerState::ContainerExited.into();
    let names = ["garbage".to_owned(), "x@sha256:00".to_owned(), format!("x@sha256:{}", id('c'))];
    fake.images.get_mut(&image_name('a')).unwrap().extend(names);
    let serving = Serving::start(fake);
    let runtime = serving.runtime();
    let found = runtime.containers(UID).await.unwrap();
    let ended = PodContainer { running: false, ..running("app", '2', 'b') };
    assert_eq!(found, [running("sealane", '1', 'a'), ended]);
    let known = runtime.images(&found).await.unwrap();
    let digest = |digit: char| id(digit).parse().unwrap();
    let expected = [('a', vec![digest('a'), digest('c')]), ('b', vec![digest('b')])];
    let expected = expected.map(|(name, digests)| (image_name(name), digests.into_iter().collect()));
    assert_eq!(known, ImageDigests::from(expected));
}

#[tokio::test]
async fn an_image_that_is_not_there_has_no_digest() {
    let mut fake = pair();
    fake.images.remove(&image_name('b'));
    // One that a runtime names by its tag says nothing of what runs.
    fake.images.insert("registry.example/x:1".to_owned(), vec![format!("x@sha256:{}", id('c'))]);
    let tagged = PodContainer { image: "registry.example/x:1".to_owned(), ..running("x", '3', 'c') };
    let serving = Serving::start(fake);
    let known = serving.runtime().images(&[containers(), vec![tagged]].concat()).await.unwrap();
    let expected = [(image_name('a'), [id('a').parse().unwrap()].into()), (image_name('b'), BTreeSet::new())];
    assert_eq!(known, ImageDigests::from(expected));
}

#[tokio::test]
async fn containers_of_other_pods_are_left_out_even_if_they_are_listed() {
    let mut fake = pair();
    fake.containers.push(listed("stranger", '3', &image_name('a'), OTHER_UID));
    fake.containers.push(Container { labels: HashMap::new(), ..listed("bare", '4', &image_name('a'), UID) });
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
    assert!(matches!(refused, RuntimeError::Call), "{refused}");
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
async fn a_pod_waits_for_those_before_it() {
    let serving = Serving::start(Fake { silent: true, ..Fake::default() });
    let runtime = serving.runtime();
    let taken = runtime.places.acquire_many(PODS_AT_ONCE_MAX as u32).await.unwrap();
    let impatient = Runtime { deadline: Duration::from_millis(1), ..serving.runtime() };
    let _all = impatient.places.acquire_many(PODS_AT_ONCE_MAX as u32).await.unwrap();
    assert!(matches!(impatient.in_turn(async { Ok(()) }).await, Err(RuntimeError::TimedOut)));
    drop(taken);
    runtime.in_turn(async { Ok(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_socket_at_which_nobody_listens_any_more_is_noticed() {
    let mut serving = Serving::start(pair());
    let runtime = serving.runtime();
    let mut gone = Box::pin(runtime.gone());
    tokio::time::timeout(LIMIT, &mut gone).await.expect_err("it serves");
    serving.stop.notify_one();
    (&mut serving.server).await.unwrap();
    tokio::time::timeout(LIMIT, gone).await.unwrap();
}

#[test]
fn a_socket_has_an_absolute_path() {
    for path in ["", "cri.sock", "/run/my runtime.sock"] {
        assert!(matches!(Runtime::new(Path::new(path)), Err(RuntimeError::Path(_))), "{path}");
    }
}

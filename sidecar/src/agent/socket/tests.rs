//! Real processes at a real socket; only the process file system, the kubelet and the runtime are stood in for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::{BoxFuture, FutureExt as _};
use sealane_attestation::binding::{ReportSubject, report_data};
use sealane_attestation::{Evidence, Format};
use sealane_types::Platform;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::agent::example::{OTHER_UID, UID, containers, declared, id, images, pod, read, running};
use crate::agent::kubelet::KubeletError;
use crate::agent::kubelet::pod::Pod;
use crate::agent::runtime::RuntimeError;
use crate::agent::runtime::container::{ImageDigests, PodContainer};
use crate::evidence::{Provider, ProviderError, Quote, QuoteRequest};

const QUESTION: QuoteQuestion = QuoteQuestion {
    own_static: [1; 32],
    policy: Digest::new([2; 32]),
    trust: Digest::new([4; 32]),
    leaves: 1,
    tree_root: [3; 32],
};

/// Signs nothing: its report is what it was asked for.
#[derive(Debug, Default)]
struct Plain {
    at_once: AtomicUsize,
    most: AtomicUsize,
}

impl Provider for Plain {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        async { Ok(Format::SevSnp) }.boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        async move {
            self.most.fetch_max(self.at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            Ok(Quote { report: request.report_data.to_vec(), certificates: vec![], workload: None })
        }
        .boxed()
    }
}

/// What kubelet and runtime say; nothing where they do not answer.
#[derive(Debug)]
struct Listed {
    pods: Mutex<Option<Arc<Vec<Pod>>>>,
    /// Whether the kubelet is silent.
    hangs: AtomicBool,
    containers: Mutex<Option<Vec<PodContainer>>>,
    /// How often images were asked for.
    images: AtomicUsize,
}

impl ListPods for Listed {
    fn pods(&self) -> BoxFuture<'_, Result<Arc<Vec<Pod>>, KubeletError>> {
        if self.hangs.load(Ordering::SeqCst) {
            return std::future::pending().boxed();
        }
        let pods = self.pods.lock().unwrap().clone().ok_or(KubeletError::TimedOut);
        async { pods }.boxed()
    }
}

impl AskRuntime for Listed {
    fn containers<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<PodContainer>, RuntimeError>> {
        let containers = self.containers.lock().unwrap().clone().ok_or(RuntimeError::Call);
        async { containers }.boxed()
    }

    fn images<'a>(&'a self, _: &'a [PodContainer]) -> BoxFuture<'a, Result<ImageDigests, RuntimeError>> {
        self.images.fetch_add(1, Ordering::SeqCst);
        async { Ok(images()) }.boxed()
    }
}

/// An agent on a node that runs `pod`, where this very process is in the container with id `container`.
struct Node {
    desk: Arc<Desk>,
    listed: Arc<Listed>,
    platform: Arc<Plain>,
    folder: tempfile::TempDir,
}

impl Node {
    fn new(pod: Value, container: char) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join(std::process::id().to_string());
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("cgroup"), format!("0::/kubepods/pod{UID}/{}\n", id(container))).unwrap();
        let listed = Arc::new(Listed {
            pods: Mutex::new(Some(Arc::new(vec![read(pod)]))),
            hangs: AtomicBool::new(false),
            containers: Mutex::new(Some(containers())),
            images: AtomicUsize::new(0),
        });
        let platform = Arc::new(Plain::default());
        let desk = Desk::new(
            Arc::clone(&listed) as Arc<dyn ListPods>,
            Arc::clone(&listed) as Arc<dyn AskRuntime>,
            Quoter::new(Arc::clone(&platform) as Arc<dyn Provider>),
            [id('a').parse().unwrap()].into(),
            folder.path().to_owned(),
        );
        Self { desk: Arc::new(desk), listed, platform, folder }
    }

    fn bound(&self, uid: &str) -> (PathBuf, std::os::unix::net::UnixListener) {
        let path = self.folder.path().join(format!("{uid}.sock"));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        (path, listener)
    }

    /// The socket of the pod with `uid`.
    fn socket(&self, uid: &str) -> PathBuf {
        let (path, listener) = self.bound(uid);
        Served::start(Arc::clone(&self.desk), uid.to_owned(), listener).unwrap();
        path
    }

    /// The socket of a pod that may ask so often, and then no more.
    fn measured(&self, uid: &str, questions: u32) -> PathBuf {
        let (path, listener) = self.bound(uid);
        let rate = SharedBucket::full(RateLimit::every_micros(questions, u64::MAX));
        let socket = Socket { desk: Arc::clone(&self.desk), pod_uid: uid.to_owned(), rate };
        tokio::spawn(Arc::new(socket).serve(UnixListener::from_std(listener).unwrap()));
        path
    }
}

async fn ask(path: &PathBuf, bytes: &[u8]) -> Answer {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    Answer::read(&mut stream).await.unwrap()
}

async fn quote(path: &PathBuf) -> Answer {
    ask(path, &Question::Quote(QUESTION).encode()).await
}

#[track_caller]
fn assert_refused(answer: &Answer, why: &str) {
    assert!(matches!(answer, Answer::Refused(words) if words.contains(why)), "{answer:?}");
}

#[track_caller]
fn assert_not_yet(answer: &Answer, why: &str) {
    assert!(matches!(answer, Answer::NotYet(words) if words.contains(why)), "{answer:?}");
}

#[tokio::test]
async fn a_sidecar_gets_evidence_of_its_own_pod() {
    let node = Node::new(pod(), '1');
    let path = node.socket(UID);
    assert_eq!(ask(&path, &Question::Platform.encode()).await, Answer::Platform(Format::SevSnp));
    let Answer::Quote(quoted) = quote(&path).await else { panic!("no quote") };
    let (Evidence { report, .. }, workload) = *quoted;
    assert_eq!(workload.service_account(), "embedder");
    assert_eq!(workload.images().len(), 2);
    let QuoteQuestion { own_static, policy, trust, leaves, tree_root } = QUESTION;
    let pod = format!("demo/embedder-0/{UID}").try_into().unwrap();
    let subject = ReportSubject {
        platform: Platform::SevSnp,
        pod: &pod,
        own_static: &own_static,
        policy: &policy,
        trust: &trust,
        workload: Some(&workload),
    };
    let expected = report_data(&subject, leaves, &tree_root);
    assert_eq!(report, expected, "composed from what the agent found out");
}

#[tokio::test]
async fn who_asks_in_another_version_is_told_so() {
    let node = Node::new(pod(), '1');
    let mut question = Question::Quote(QUESTION).encode();
    question[0] = 1;
    for bytes in [&question[..], &[&question[..], &[0; 300]].concat()] {
        let answer = ask(&node.socket(UID), bytes).await;
        assert_refused(&answer, "of another version than the node agent's");
        std::fs::remove_file(node.folder.path().join(format!("{UID}.sock"))).unwrap();
    }
}

#[tokio::test]
async fn another_container_is_refused() {
    let node = Node::new(pod(), '2');
    assert_refused(&quote(&node.socket(UID)).await, "container `app` asked");
}

#[tokio::test]
async fn another_image_is_refused() {
    let node = Node::new(pod(), '1');
    *node.listed.containers.lock().unwrap() = Some(vec![running("sealane", '1', 'c')]);
    assert_refused(&quote(&node.socket(UID)).await, "container `sealane` runs, or ran, another image");
}

#[tokio::test]
async fn another_pods_socket_is_refused() {
    let node = Node::new(pod(), '1');
    let other = node.socket(OTHER_UID);
    assert_refused(&quote(&other).await, "another pod");
}

#[tokio::test]
async fn a_process_of_the_node_is_refused() {
    let node = Node::new(pod(), '1');
    let own = node.folder.path().join(std::process::id().to_string());
    std::fs::write(own.join("cgroup"), "0::/system.slice/cron.service\n").unwrap();
    assert_refused(&quote(&node.socket(UID)).await, "in no container");
}

#[tokio::test]
async fn what_cannot_be_known_now_is_not_yet() {
    let node = Node::new(pod(), '1');
    let path = node.socket(UID);
    *node.listed.containers.lock().unwrap() = Some(Vec::new());
    assert_not_yet(&quote(&path).await, "as running");
    *node.listed.containers.lock().unwrap() = None;
    assert_not_yet(&quote(&path).await, "the container runtime could not be asked");
    *node.listed.containers.lock().unwrap() = Some(containers());
    *node.listed.pods.lock().unwrap() = None;
    assert_not_yet(&quote(&path).await, "the kubelet could not be asked");
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_told_to_ask_again() {
    let node = Node::new(pod(), '1');
    node.listed.hangs.store(true, Ordering::SeqCst);
    assert_not_yet(&quote(&node.socket(UID)).await, "took too long");
}

/// A pod may have many containers, each with an image of its own.
#[tokio::test]
async fn images_are_asked_for_on_behalf_of_sidecars_alone() {
    let node = Node::new(pod(), '2');
    assert_refused(&quote(&node.socket(UID)).await, "container `app` asked");
    let mut other = pod();
    other["spec"]["initContainers"] = json!([declared("sealane", 'c')]);
    let stranger = Node::new(other, '1');
    assert_refused(&quote(&stranger.socket(UID)).await, "sidecarDigests");
    assert_eq!([&node, &stranger].map(|node| node.listed.images.load(Ordering::SeqCst)), [0, 0]);
}

#[tokio::test]
async fn garbage_is_refused() {
    let node = Node::new(pod(), '1');
    let path = node.socket(UID);
    for bytes in [&b""[..], b"\x01", b"\x01\x07", b"GET / HTTP/1.1\r\n\r\n", &[1, 2, 0, 0, 0]] {
        assert_refused(&ask(&path, bytes).await, "cannot be read");
    }
}

#[tokio::test]
async fn one_pod_is_held_to_its_rate_and_takes_nothing_from_others() {
    let node = Node::new(pod(), '1');
    let greedy = node.measured(UID, 2);
    for _ in 0..2 {
        assert!(matches!(quote(&greedy).await, Answer::Quote(_)));
    }
    assert_not_yet(&quote(&greedy).await, "too many questions from this pod");
    let other = node.socket(OTHER_UID);
    assert_refused(&quote(&other).await, "another pod");
}

#[tokio::test]
async fn callers_that_are_refused_take_nothing_of_the_nodes_rate() {
    let mut node = Node::new(pod(), '1');
    Arc::get_mut(&mut node.desk).unwrap().quotes = SharedBucket::full(RateLimit::every_micros(1, u64::MAX));
    for uid in [OTHER_UID, "11111111-9d5e-4a51-8d6f-2f4f6e0c8a11"] {
        let stranger = node.socket(uid);
        assert_refused(&quote(&stranger).await, "another pod");
        assert_refused(&ask(&stranger, b"").await, "cannot be read");
    }
    let path = node.socket(UID);
    assert!(matches!(quote(&path).await, Answer::Quote(_)));
    assert_not_yet(&quote(&path).await, "too many questions on this node");
}

#[tokio::test]
async fn the_platform_is_asked_by_one_at_a_time() {
    let node = Node::new(pod(), '1');
    let path = node.socket(UID);
    let all = futures::future::join_all((0..8).map(|_| quote(&path))).await;
    assert!(all.iter().all(|answer| matches!(answer, Answer::Quote(_))), "{all:?}");
    assert_eq!(node.platform.most.load(Ordering::SeqCst), 1);
}

//! A desk with keys and policies, and sidecars.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use sealane_fixtures::keys::MATERIAL;
use sealane_policy::{SigningKey, canonical, sign};
use sealane_protocol::keys::{Secret, StaticKey};
use sealane_sidecar::config::initdata::Initdata;
use sealane_sidecar::config::{Anchors, CollateralSources, Config};
use sealane_sidecar::desired::{Desired, PolicyProposal};
use sealane_sidecar::evidence::{
    Format, OpenProvider, Platforms, Provider, ProviderError, ProviderInput, Quote, QuoteRequest,
};
use sealane_sidecar::handoff::Lanes;
use sealane_sidecar::node::Node;
use sealane_simulated::forge::Dates;
use sealane_simulated::{MEASUREMENT, Platform, host_data, tdx};
use sealane_types::{PodIdentity, Provider as ProviderWord, PublicKey, RootSource, Roots, SignedChain};
use serde_json::{Value, json};

use crate::folder::Folder;

/// Longest wait for anything; generous, because machines that run tests are busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
pub(crate) const MEASUREMENT_OF_NOBODY: &str =
    "111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111";

/// TDX whose lists and statements ended an hour before the tests began.
fn stale_material() -> &'static tdx::Material {
    static MATERIAL: OnceLock<tdx::Material> = OnceLock::new();
    MATERIAL.get_or_init(|| {
        let usual = tdx::forge::Recipe::new().unwrap();
        let hour = Duration::from_secs(3600);
        let Dates { from, .. } = usual.list;
        // The usual ones begin a day ago.
        let ended = Dates { from, until: from + 23 * hour };
        let stale =
            tdx::forge::Recipe { root_list: ended, list: ended, info: ended, identity: ended, ..usual };
        tdx::forge::Authority::generate().unwrap().issue(&stale).unwrap()
    })
}

fn owner(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32]).unwrap()
}

/// A key that only these tests have.
pub(crate) fn key_of(name: &str) -> Arc<StaticKey> {
    let mut bytes = [0; 32];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Arc::new(StaticKey::new(Secret::take(&mut bytes)).unwrap())
}

pub(crate) fn roots() -> Roots {
    Roots {
        namespace: "demo".parse().unwrap(),
        policy: "demo".parse().unwrap(),
        threshold: 2,
        keys: vec![owner(1).public_key(), owner(2).public_key()],
        minimum_epoch: 1,
    }
}

fn initdata(peer: &str) -> Vec<u8> {
    format!("sealane simulated initdata\nnamespace: demo\npeer: {peer}\n").into_bytes()
}

/// A policy that lists the desk's auditor and an accomplice of nobody's.
pub(crate) fn document(desk: &Desk, epoch: u64) -> Value {
    let entry = |peer: &str| {
        json!({"entries": [{
            "kind": "Simulated",
            "root": MATERIAL.fingerprint().to_string(),
            "measurements": [MEASUREMENT.to_string()],
            "hostData": [host_data(Some(&initdata(peer))).to_string()],
            "minTcb": {},
            "products": ["Genoa"],
        }]})
    };
    let mut keys: Vec<_> = roots().keys.iter().map(ToString::to_string).collect();
    keys.sort();
    let mut auditors = vec![desk.auditor.clone(), PublicKey::new(*key_of("accomplice").public()).to_string()];
    auditors.sort();
    json!({
        "version": 1,
        "namespace": "demo",
        "name": "demo",
        "epoch": epoch,
        "notBefore": "2026-11-01T00:00:00Z",
        "expires": "2126-11-01T00:00:00Z",
        "authorities": {"threshold": 2, "keys": keys},
        "peers": {"embedder": entry("embedder"), "ranker": entry("ranker")},
        "sessions": [{"name": "activations", "from": "embedder", "to": "ranker", "stream": {}}],
        "auditors": {"publicKeys": auditors},
    })
}

/// As [`document`], and replicas of `ranker` run on a TDX platform whose collateral is over, for which it counts so many
/// seconds longer.
pub(crate) fn stale_document(desk: &Desk, epoch: u64, grace_seconds: u64) -> Value {
    let rtmr = [0, 1, 2].map(|index| tdx::rtmr(index).to_string());
    let mut document = document(desk, epoch);
    document["peers"]["ranker"] = json!({"entries": [{
        "kind": "Simulated",
        "form": "Tdx",
        "root": stale_material().fingerprint().to_string(),
        "measurements": [{
            "mrtd": MEASUREMENT.to_string(), "rtmr0": rtmr[0], "rtmr1": rtmr[1], "rtmr2": rtmr[2],
        }],
        "mrConfigId": [tdx::mr_config_id(Some(&initdata("ranker"))).to_string()],
        "tcbStatuses": ["UpToDate"],
    }]});
    document["collateral"] = json!({"graceSeconds": grace_seconds});
    document
}

pub(crate) fn signed(document: &Value, owners: &[u8]) -> SignedChain {
    let bytes = canonical(document.to_string().as_bytes()).unwrap();
    let signatures = owners.iter().map(|index| sign(&bytes, &owner(*index))).collect();
    SignedChain { document: STANDARD.encode(&bytes), signatures, rotations: Vec::new() }
}

/// A folder in which an auditor works: `auditor.pem`, `roots.json`, and `policy.json` of epoch 1.
pub(crate) struct Desk {
    pub(crate) folder: Folder,
    auditor: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = Folder::new();
        let made = folder.good(&["policy", "keygen", "--auditor", "--out", "auditor.pem", "-o", "json"]);
        let made: Value = serde_json::from_str(&made).unwrap();
        folder.write("roots.json", serde_json::to_string(&roots()).unwrap());
        let desk = Self { folder, auditor: made["publicKey"].as_str().unwrap().to_owned() };
        desk.sign("policy.json", &document(&desk, 1), &[1, 2]);
        desk
    }

    pub(crate) fn sign(&self, file: &str, document: &Value, owners: &[u8]) {
        self.folder.write(file, serde_json::to_string(&signed(document, owners)).unwrap());
    }

    /// The words that ask `sidecar` and print JSON; `more` come in place of the usual ones of the same name.
    pub(crate) fn verify(&self, sidecar: &Sidecar, more: &[&str]) -> Vec<String> {
        self.at(sidecar.address, more)
    }

    fn at(&self, address: SocketAddr, more: &[&str]) -> Vec<String> {
        let mut words = vec!["verify".to_owned(), "ranker".to_owned(), "--simulated".to_owned()];
        words.extend(["--address".to_owned(), address.to_string(), "-o".to_owned(), "json".to_owned()]);
        for (flag, usual) in
            [("--key", "auditor.pem"), ("--policy", "policy.json"), ("--roots", "roots.json")]
        {
            if !more.contains(&flag) {
                words.extend([flag.to_owned(), usual.to_owned()]);
            }
        }
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words
    }

    /// The report of an audit that passes.
    #[track_caller]
    pub(crate) fn passes(&self, sidecar: &Sidecar, more: &[&str]) -> Value {
        self.report(sidecar.address, more, 0)
    }

    /// The report of an audit that fails.
    #[track_caller]
    pub(crate) fn fails(&self, sidecar: &Sidecar, more: &[&str]) -> Value {
        self.fails_at(sidecar.address, more)
    }

    #[track_caller]
    pub(crate) fn fails_at(&self, address: SocketAddr, more: &[&str]) -> Value {
        let report = self.report(address, more, 1);
        assert_eq!(report["verdict"], "Failed");
        report
    }

    #[track_caller]
    fn report(&self, address: SocketAddr, more: &[&str], code: i32) -> Value {
        let output = self.folder.run(&self.at(address, more));
        let errors = String::from_utf8_lossy(&output.stderr);
        let report = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{errors}{report}");
        serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report}{errors}"))
    }
}

#[derive(Debug)]
struct Simulated(Platform);

impl Provider for Simulated {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        std::future::ready(Ok(Format::SimulatedSevSnp)).boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        let quote = self.0.quote(request.report_data).unwrap();
        let (report, certificates) = (quote.report, quote.certificates);
        std::future::ready(Ok(Quote { report, certificates, workload: None })).boxed()
    }
}

fn open(input: &ProviderInput) -> Result<Arc<dyn Provider>, ProviderError> {
    Ok(Arc::new(Simulated(
        Platform::new(MATERIAL.clone(), input.initdata.as_ref().map(Initdata::measured)).unwrap(),
    )))
}

#[derive(Debug)]
struct Stale(tdx::Platform);

impl Provider for Stale {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        std::future::ready(Ok(Format::SimulatedTdx)).boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        let quote = self.0.quote(request.report_data).unwrap();
        let (report, certificates) = (quote.report, quote.certificates);
        std::future::ready(Ok(Quote { report, certificates, workload: None })).boxed()
    }
}

fn open_stale(input: &ProviderInput) -> Result<Arc<dyn Provider>, ProviderError> {
    let platform =
        tdx::Platform::new(stale_material().clone(), input.initdata.as_ref().map(Initdata::measured));
    Ok(Arc::new(Stale(platform.unwrap())))
}

/// A running sidecar of Peer `ranker`.
pub(crate) struct Sidecar {
    pub(crate) address: SocketAddr,
    pub(crate) pod: PodIdentity,
    pub(crate) chain: SignedChain,
    _node: Node,
    _lanes: Lanes,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Sidecar {
    pub(crate) fn start(desk: &Desk, pod: &str, document: &Value) -> Self {
        Self::proving("ranker", desk, pod, document)
    }

    /// One whose evidence is for the guest of `peer`.
    pub(crate) fn proving(peer: &str, _: &Desk, pod: &str, document: &Value) -> Self {
        Self::on(open, peer, pod, document)
    }

    /// One on the platform of [`stale_document`].
    pub(crate) fn stale(pod: &str, document: &Value) -> Self {
        Self::on(open_stale, "ranker", pod, document)
    }

    fn on(open: OpenProvider, peer: &str, pod: &str, document: &Value) -> Self {
        let chain = signed(document, &[1, 2]);
        let ordinal = pod.rsplit('-').next().unwrap();
        let pod = PodIdentity::new("demo", pod, &format!("uid-{ordinal}")).unwrap();
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let config = Config {
            device: None,
            pod: pod.clone(),
            node: String::new(),
            addresses: vec![],
            listen: any,
            admin: any,
            admin_preferred: None,
            door: "/nowhere/door.sock".into(),
            grpc: None,
            arena_bytes: 1 << 20,
            drain: Duration::from_secs(1),
            host_network: false,
            links: 1,
            control: None,
            roots: Anchors { roots: vec![roots()], source: RootSource::File },
            fixed: Some(Desired {
                generation: 1,
                peer: Some("ranker".parse().unwrap()),
                reason: None,
                provider: ProviderWord::Simulated,
                reattest_seconds: 600,
                policy: Some(PolicyProposal {
                    name: "demo".parse().unwrap(),
                    chain: chain.clone(),
                    roots: None,
                }),
                sessions: vec![],
            }),
            collateral: CollateralSources::default(),
            state: None,
            platform: ProviderInput {
                initdata: Some(Initdata::read(&initdata(peer)).unwrap()),
                ..ProviderInput::default()
            },
            traces: None,
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (node, lanes) = {
            let _inside = runtime.enter();
            Node::start(&config, Platforms::production().with_simulated(open)).unwrap()
        };
        let deadline = Instant::now() + LIMIT;
        while node.policy_epoch().is_none() {
            assert!(Instant::now() < deadline, "the sidecar holds no policy");
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { address: node.address(), pod, chain, _node: node, _lanes: lanes, runtime: Some(runtime) }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

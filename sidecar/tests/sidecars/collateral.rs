//! Evidence of hardware, as its vendors' names and dates would have it: what sidecars know of the vendors decides who
//! may talk, at once and for as long as it holds. The vendors' keys are ours, and pinned for these tests.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use sealane_attestation::bundle::Bundle;
use sealane_attestation::{Anchor, Collateral, Piece, TdxRoot, VendorRoots};
use sealane_collateral::Sources;
use sealane_fixtures::keys::AUTHORITY;
use sealane_policy::SigningKey;
use sealane_sidecar::evidence::{
    Format, Platforms, Provider, ProviderError, ProviderInput, Quote, QuoteRequest,
};
use sealane_sidecar::handoff::{LaneFailure, SenderEvents, SenderLane};
use sealane_simulated::forge::{Authority, Dates, Recipe};
use sealane_simulated::{MEASUREMENT, Material, tdx};
use sealane_types::{Product, Reason, SignedChain, UnixSeconds};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Receiver, parcel, passing_on, try_sender};
use crate::device::metric;
use crate::support::wall_clock::{LIFETIME, TestClock, now};
use crate::support::{LIMIT, Plan, Sidecar, document, signed, tell, until, within};
use crate::tickets::resumed;
use crate::trust::refused_for;

struct World {
    amd: &'static Authority,
    chip: Material,
    intel: tdx::forge::Authority,
    platform: tdx::Material,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let (amd, intel) = (&*AUTHORITY, tdx::forge::Authority::generate().unwrap());
    let (chip, platform) = (amd.issue(&amd_recipe()).unwrap(), intel.issue(&intel_recipe()).unwrap());
    World { amd, chip, intel, platform }
});

fn amd_recipe() -> Recipe {
    Recipe { marked: false, ..Recipe::new(Product::Genoa).unwrap() }
}

fn intel_recipe() -> tdx::forge::Recipe {
    tdx::forge::Recipe { marked: false, ..tdx::forge::Recipe::new().unwrap() }
}

/// Evidence of SEV-SNP without certificates, as hosts give it that keep none.
#[derive(Debug)]
struct Snp(sealane_simulated::Platform);

impl Provider for Snp {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        std::future::ready(Ok(Format::SevSnp)).boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        let report = self.0.quote(request.report_data).unwrap().report;
        std::future::ready(Ok(Quote { report, certificates: vec![], workload: None })).boxed()
    }
}

#[derive(Debug)]
struct Tdx(tdx::Platform);

impl Provider for Tdx {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        std::future::ready(Ok(Format::Tdx)).boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        let report = self.0.quote(request.report_data).unwrap().report;
        std::future::ready(Ok(Quote { report, certificates: vec![], workload: None })).boxed()
    }
}

fn open_snp(_: &ProviderInput) -> Result<Arc<dyn Provider>, ProviderError> {
    Ok(Arc::new(Snp(sealane_simulated::Platform::new(WORLD.chip.clone(), None).unwrap())))
}

fn open_tdx(_: &ProviderInput) -> Result<Arc<dyn Provider>, ProviderError> {
    Ok(Arc::new(Tdx(tdx::Platform::new(WORLD.platform.clone(), None).unwrap())))
}

fn roots() -> VendorRoots {
    let [_, ask, ark] = WORLD.chip.certificates();
    let [_, _, root] = WORLD.platform.chain();
    let anchors = Collateral::empty().with_anchor(Anchor::new(ark, ask).unwrap());
    VendorRoots::new(anchors, TdxRoot::new(root).unwrap())
}

/// A policy of pods on SEV-SNP that stream to pods on TDX.
fn policy_document(epoch: u64) -> Value {
    let mut document = document(epoch);
    let snp = json!({"kind": "SevSnp", "assurance": "Pod", "measurements": [MEASUREMENT.to_string()], "minTcb": {"snp": 0}, "allowAnyInitdata": true});
    let rtmr = [0, 1, 2].map(|index| tdx::rtmr(index).to_string());
    let measured =
        json!({"mrtd": MEASUREMENT.to_string(), "rtmr0": rtmr[0], "rtmr1": rtmr[1], "rtmr2": rtmr[2]});
    let tdx = json!({
        "kind": "Tdx", "assurance": "Pod", "measurements": [measured], "tcbStatuses": ["UpToDate"], "allowSeptVe": true, "allowAnyInitdata": true,
    });
    document["peers"] = json!({"embedder": {"entries": [snp]}, "ranker": {"entries": [tdx]}});
    document
}

/// That policy, with a grace of so many seconds.
fn chain(epoch: u64, grace: u64) -> SignedChain {
    let mut document = policy_document(epoch);
    if grace > 0 {
        document["collateral"] = json!({"graceSeconds": grace});
    }
    signed(&document, &[1, 2])
}

/// What bundles are made of; tests change what they are about.
struct Contents {
    list_until: Duration,
    revoke: bool,
    level: &'static str,
    evaluation: u32,
    issued: u64,
}

impl Default for Contents {
    fn default() -> Self {
        let issued = now().as_secs() - 100;
        Self { list_until: now() + 4 * LIFETIME, revoke: false, level: "UpToDate", evaluation: 20, issued }
    }
}

impl Contents {
    /// The next bundle: everything in it is a little newer.
    fn pieces(&self) -> Vec<Piece> {
        let World { amd, chip, intel, .. } = &*WORLD;
        // Lists are told apart by when they were issued.
        let from = Duration::from_secs(self.issued - 1000);
        let list =
            amd.revocation_list(&amd_recipe(), Dates { from, until: self.list_until }, self.revoke).unwrap();
        let info = |info: &mut Value| {
            info["tcbEvaluationDataNumber"] = self.evaluation.into();
            info["tcbLevels"][0]["tcbStatus"] = self.level.into();
        };
        let identity = |identity: &mut Value| identity["tcbEvaluationDataNumber"] = self.evaluation.into();
        let edits = tdx::forge::Edits { info: &info, identity: &identity, ..tdx::forge::Edits::default() };
        let material = intel.issue_edited(&intel_recipe(), edits).unwrap();
        let intel = Piece::read(material.collateral_json().as_bytes()).unwrap();
        [vec![Piece::SnpList(list), Piece::Vcek(chip.certificates()[0].to_vec())], intel].concat()
    }

    /// With a list that ends when the clock of the test is moved on by [`LIFETIME`].
    fn ending() -> Self {
        Self { list_until: now() + LIFETIME, ..Self::default() }
    }

    fn write(&self, directory: &Path, owner: u8) {
        let bundle =
            Bundle { issued: UnixSeconds(self.issued), min_tcb_evaluation: None, pieces: self.pieces() };
        let file = bundle.sign(&SigningKey::from_seed(&[owner; 32]).unwrap()).unwrap();
        // As a mounted ConfigMap changes: at once.
        std::fs::write(directory.join("new"), file).unwrap();
        std::fs::rename(directory.join("new"), directory.join("bundle.json")).unwrap();
    }
}

/// Two sidecars with one clock, each with a directory of its own.
struct Pair {
    from: Sidecar,
    to: Sidecar,
    directories: [TempDir; 2],
    clock: TestClock,
}

impl Pair {
    fn start(chain: &SignedChain, contents: Option<&Contents>) -> Self {
        let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        if let Some(contents) = contents {
            directories.iter().for_each(|directory| contents.write(directory.path(), 1));
        }
        let clock = TestClock::default();
        let plan = |plan: Plan, open, directory: &TempDir| Plan {
            chain: chain.clone(),
            clock: clock.clone(),
            platforms: Platforms::production().with_simulated(open).with_roots(roots()),
            collateral: Some(directory.path().to_owned()),
            ..plan
        };
        let to = plan(Plan::receiver(), open_tdx, &directories[1]).start();
        let from = plan(Plan::sender(&[to.address]), open_snp, &directories[0]).start();
        Self { from, to, directories, clock }
    }

    /// Both sides find a bundle with these contents, and take it.
    async fn is_given(&self, contents: &Contents) {
        let taken = |side: &Sidecar| metric(side, r#"sealane_collateral_bundles_total{outcome="taken"}"#);
        let before = [&self.from, &self.to].map(taken);
        self.directories.iter().for_each(|directory| contents.write(directory.path(), 1));
        until("bundles are taken", || {
            let now = [&self.from, &self.to].map(taken);
            now.into_iter().zip(before).all(|(now, before)| now > before)
        })
        .await;
    }

    /// What brings the sender's list to its end, and what the receiver says of it.
    async fn ended(&self, reason: Reason) {
        until(reason.as_str(), || [&self.from, &self.to].iter().any(|side| has_ended(side, reason))).await;
    }
}

fn has_ended(sidecar: &Sidecar, reason: Reason) -> bool {
    let metrics = sidecar.node.render_metrics().unwrap();
    let mut ended = metrics.lines().filter(|line| line.starts_with("sealane_connections_ended_total{"));
    ended.any(|line| line.contains(&format!("\"{reason}\"")) && !line.ends_with(" 0"))
}

fn has(sidecar: &Sidecar, line: &str) -> bool {
    sidecar.node.render_metrics().unwrap().lines().any(|found| found == line)
}

/// Why lanes are refused after a connection has ended: the side that did not end it hears of that a moment later, and opens
/// them until then.
pub(crate) async fn refused_from_now_on(from: &Sidecar) -> Reason {
    within("a refusal", async {
        loop {
            match try_sender(&from.lanes, 1, tokio::time::Instant::now() + LIMIT).await {
                Err(error) if error.failure == LaneFailure::Refused => return error.reason,
                Ok(_) | Err(_) => {}
            }
        }
    })
    .await
}

/// A lane, once what refuses it is gone: bundles are read while sidecars already meet.
async fn opens(from: &Sidecar) -> (SenderLane, SenderEvents) {
    within("a lane", async {
        loop {
            let soon = tokio::time::Instant::now() + Duration::from_secs(1);
            if let Ok(lane) = try_sender(&from.lanes, 0, soon).await {
                return lane;
            }
        }
    })
    .await
}

#[tokio::test]
async fn hardware_is_refused_until_a_bundle_comes_and_accepted_from_then_on() {
    let pair = Pair::start(&chain(1, 0), None);
    refused_for(&pair.from, Reason::CollateralMissing).await;
    // Of somebody who is no owner.
    Contents::default().write(pair.directories[0].path(), 9);
    until("the stranger's bundle is refused", || {
        has(&pair.from, r#"sealane_collateral_bundles_total{outcome="refused"} 1"#)
    })
    .await;
    refused_for(&pair.from, Reason::CollateralMissing).await;
    for directory in &pair.directories {
        Contents::default().write(directory.path(), 2);
    }
    opens(&pair.from).await;
    assert!(has(&pair.from, r#"sealane_collateral_pieces{kind="vcek"} 1"#));
    until("its own evidence", || has(&pair.to, "sealane_evidence_verified 1")).await;
}

#[tokio::test]
async fn a_revocation_ends_live_sessions() {
    let pair = Pair::start(&chain(1, 0), Some(&Contents::default()));
    let _lane = opens(&pair.from).await;
    let revoking = Contents { revoke: true, issued: now().as_secs(), ..Contents::default() };
    revoking.write(pair.directories[1].path(), 1);
    let began = Instant::now();
    pair.ended(Reason::EvidenceUntrusted).await;
    tell(&format!("from a bundle that revokes to the end of the session: {:?}", began.elapsed()));
    refused_from_now_on(&pair.from).await;
    // Nor does a ticket lead back, not even until the other side is judged again.
    for side in [&pair.from, &pair.to] {
        assert_eq!(resumed(side, "established"), 0);
    }
}

#[tokio::test]
async fn tcb_information_that_is_worse_ends_live_sessions() {
    let pair = Pair::start(&chain(1, 0), Some(&Contents::default()));
    let _lane = opens(&pair.from).await;
    let worse =
        Contents { level: "OutOfDate", evaluation: 21, issued: now().as_secs(), ..Contents::default() };
    worse.write(pair.directories[0].path(), 1);
    let began = Instant::now();
    pair.ended(Reason::TcbTooLow).await;
    tell(&format!("from TCB information that is worse to the end of the session: {:?}", began.elapsed()));
}

#[tokio::test]
async fn collateral_that_expires_ends_live_sessions() {
    let pair = Pair::start(&chain(1, 0), Some(&Contents::ending()));
    let _lane = opens(&pair.from).await;
    pair.clock.advance(LIFETIME);
    let began = Instant::now();
    pair.ended(Reason::CollateralExpired).await;
    tell(&format!("from the end of a revocation list to the end of the session: {:?}", began.elapsed()));
    assert_eq!(refused_from_now_on(&pair.from).await, Reason::CollateralExpired);
    // A newer list, and it goes on.
    pair.is_given(&Contents { issued: now().as_secs(), ..Contents::default() }).await;
    opens(&pair.from).await;
}

#[tokio::test]
async fn a_newer_list_keeps_sessions_beyond_the_end_of_the_older_one() {
    let pair = Pair::start(&chain(1, 0), Some(&Contents::ending()));
    let (lane, events) = opens(&pair.from).await;
    passing_on(events);
    pair.is_given(&Contents { issued: now().as_secs(), ..Contents::default() }).await;
    pair.clock.advance(2 * LIFETIME);
    // The receiver holds the connection against the next epoch, and against what has expired by then, before it hands that
    // epoch over to the sender.
    pair.to.propose(chain(2, 0));
    until("the sender has the epoch", || pair.from.node.policy_epoch() == Some(2)).await;
    let mut receiver = Receiver::open(&pair.to.lanes, 1 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    let metrics = [&pair.from, &pair.to].map(|side| side.node.render_metrics().unwrap());
    let open = r#"sealane_connections{session="activations",direction="sending"} 1"#;
    assert!(metrics[0].lines().any(|line| line == open), "{}", metrics[0]);
    assert!(!has_ended(&pair.to, Reason::CollateralExpired));
}

#[tokio::test]
async fn grace_keeps_sessions_and_says_so() {
    let list_until = now() - Duration::from_secs(60);
    let contents = Contents { list_until, ..Contents::default() };
    let pair = Pair::start(&chain(1, 3600), Some(&contents));
    let _lane = opens(&pair.from).await;
    until("the degradation shows", || has(&pair.from, r#"sealane_degraded{reason="CollateralStale"} 1"#))
        .await;
    until("tickets, which are as good as the grace", || !has(&pair.from, "sealane_tickets{kind=\"held\"} 0"))
        .await;
    // Owners take it back.
    pair.to.propose(chain(2, 0));
    pair.ended(Reason::CollateralExpired).await;
}

#[tokio::test]
async fn a_session_says_what_is_degraded_about_it_since() {
    let pair = Pair::start(&chain(1, 3600), Some(&Contents::ending()));
    let _lane = opens(&pair.from).await;
    pair.clock.advance(LIFETIME);
    let shown = |side: &Sidecar| has(side, r#"sealane_degraded{reason="CollateralStale"} 1"#);
    // The receiver's own evidence is Intel's: what it shows is about the sender, whose list is AMD's.
    until("the degradation shows", || shown(&pair.to)).await;
    pair.is_given(&Contents { issued: now().as_secs(), ..Contents::default() }).await;
    until("it is gone", || !shown(&pair.to)).await;
    assert!(!has_ended(&pair.to, Reason::CollateralExpired));
}

#[tokio::test]
async fn an_older_bundle_changes_nothing() {
    let pair = Pair::start(&chain(1, 0), Some(&Contents { issued: now().as_secs(), ..Contents::default() }));
    let _lane = opens(&pair.from).await;
    let older = Contents { issued: now().as_secs() - 500, revoke: true, ..Contents::default() };
    older.write(pair.directories[1].path(), 1);
    until("the older bundle is refused", || {
        has(&pair.to, r#"sealane_collateral_bundles_total{outcome="refused"} 1"#)
    })
    .await;
    assert!(has(&pair.from, r#"sealane_connections{session="activations",direction="sending"} 1"#));
}

/// Whoever delivers collateral delivers an earlier bundle after a restart, in which nothing is revoked yet.
#[tokio::test]
async fn a_restart_forgets_nothing_that_was_seen() {
    let state = TempDir::new().unwrap();
    let bundles = TempDir::new().unwrap();
    let plan = |state: Option<&TempDir>| Plan {
        chain: chain(1, 0),
        platforms: Platforms::production().with_simulated(open_tdx).with_roots(roots()),
        collateral: Some(bundles.path().to_owned()),
        state: state.map(|state| state.path().to_owned()),
        ..Plan::receiver()
    };
    let outcome = |side: &Sidecar, outcome: &str| {
        metric(side, &format!("sealane_collateral_bundles_total{{outcome=\"{outcome}\"}}"))
    };
    Contents { revoke: true, issued: now().as_secs(), ..Contents::default() }.write(bundles.path(), 1);
    let first = plan(Some(&state)).start();
    until("the bundle is taken", || outcome(&first, "taken") == Some(1)).await;
    drop(first);
    Contents { issued: now().as_secs() - 500, ..Contents::default() }.write(bundles.path(), 1);
    let second = plan(Some(&state)).start();
    assert!(has(&second, r#"sealane_collateral_pieces{kind="snp_list"} 1"#), "from the start");
    until("the earlier bundle is refused", || outcome(&second, "refused") == Some(1)).await;
    let from = Plan {
        chain: chain(1, 0),
        platforms: Platforms::production().with_simulated(open_snp).with_roots(roots()),
        collateral: Some(bundles.path().to_owned()),
        ..Plan::sender(&[second.address])
    };
    let from = from.start();
    refused_for(&from, Reason::EvidenceUntrusted).await;
    drop(second);
    // A directory that cannot be read, or written, costs the memory and nothing else.
    std::fs::write(state.path().join("collateral.json"), b"{").unwrap();
    let third = plan(Some(&state)).start();
    until("the bundle is taken again", || outcome(&third, "taken") == Some(1)).await;
}

/// What AMD's and Intel's services would answer to this path.
fn answer(path: &str) -> Option<Vec<u8>> {
    let World { amd, chip, platform, .. } = &*WORLD;
    let library: Value = serde_json::from_str(&platform.collateral_json()).unwrap();
    let text = |name: &str| library[name].as_str().unwrap().to_owned();
    let encoded = |name: &str| text(name).replace('\n', "%0A").replace(' ', "%20").replace('+', "%2B");
    let statement = |member: &str, name: &str| {
        let signature = text(&format!("{name}_signature"));
        format!("{{\"{member}\":{},\"signature\":\"{signature}\"}}", text(name)).into_bytes()
    };
    let (header, body) = match path.split(['?', '&']).next().unwrap() {
        "/vcek/v1/Genoa/crl" => {
            let dates = Dates { from: now() - Duration::from_secs(60), until: now() + 4 * LIFETIME };
            (String::new(), amd.revocation_list(&amd_recipe(), dates, false).unwrap())
        }
        vcek if vcek.starts_with("/vcek/v1/Genoa/") => (String::new(), chip.certificates()[0].to_vec()),
        "/tdx/certification/v4/tcb" => (
            format!("TCB-Info-Issuer-Chain: {}\r\n", encoded("tcb_info_issuer_chain")),
            statement("tcbInfo", "tcb_info"),
        ),
        "/tdx/certification/v4/qe/identity" => (
            format!("SGX-Enclave-Identity-Issuer-Chain: {}\r\n", encoded("qe_identity_issuer_chain")),
            statement("enclaveIdentity", "qe_identity"),
        ),
        "/sgx/certification/v4/rootcacrl" => (String::new(), text("root_ca_crl").into_bytes()),
        "/sgx/certification/v4/pckcrl" => (
            format!("SGX-PCK-CRL-Issuer-Chain: {}\r\n", encoded("pck_crl_issuer_chain")),
            text("pck_crl").into_bytes(),
        ),
        _ => return None,
    };
    let head = format!("HTTP/1.1 200 OK\r\n{header}content-length: {}\r\n\r\n", body.len());
    Some([head.into_bytes(), body].concat())
}

/// Owners demand a list that the sidecar does not hold yet: it is asked for, and nobody waits for the next renewal.
#[tokio::test]
async fn a_list_below_the_signed_number_is_asked_for_anew() {
    let numbered = |epoch: u64, least: u64| {
        let mut document = policy_document(epoch);
        document["collateral"] = json!({"minCrlNumber": {"Genoa": least}});
        signed(&document, &[1, 2])
    };
    let [from, to] = served(&numbered(1, 1)).await;
    let _lane = opens(&from).await;
    let asked = |side: &Sidecar| {
        metric(side, r#"sealane_collateral_fetches_total{kind="snp_list",outcome="fetched"}"#)
    };
    // What it asks for by itself it has asked for.
    until("its own evidence", || has(&from, "sealane_evidence_verified 1")).await;
    let before = asked(&from);
    // The service has none with this number. Whoever appraises its own evidence by it asks, and whoever judges the other's.
    for side in [&from, &to] {
        side.propose(numbered(2, 2));
    }
    until("the list is asked for anew", || asked(&from) > before).await;
    until("the session ends", || {
        has_ended(&to, Reason::CollateralExpired) || has_ended(&from, Reason::CollateralExpired)
    })
    .await;
    assert_eq!(refused_from_now_on(&from).await, Reason::CollateralExpired);
}

/// A service for both vendors on loopback.
async fn service() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { return };
                    head.push(byte);
                }
                let head = String::from_utf8(head).unwrap();
                let nothing = || b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec();
                let said = answer(head.split(' ').nth(1).unwrap()).unwrap_or_else(nothing);
                let _ = stream.write_all(&said).await;
            });
        }
    });
    format!("http://{address}")
}

/// A sender and a receiver that ask [`service`] for all collateral.
async fn served(chain: &SignedChain) -> [Sidecar; 2] {
    let here = service().await;
    let sources = Sources { kds: here.clone(), pcs: here, thim: None, authorities: None };
    let plan = |plan: Plan, open| Plan {
        chain: chain.clone(),
        platforms: Platforms::production().with_simulated(open).with_roots(roots()),
        fetch: Some(sources.clone()),
        ..plan
    };
    let to = plan(Plan::receiver(), open_tdx).start();
    let from = plan(Plan::sender(&[to.address]), open_snp).start();
    [from, to]
}

#[tokio::test]
async fn collateral_comes_from_services_where_that_is_configured() {
    let [from, to] = served(&chain(1, 0)).await;
    let _lane = opens(&from).await;
    assert!(has(&from, r#"sealane_collateral_fetches_total{kind="vcek",outcome="fetched"} 1"#));
    assert!(has(&to, r#"sealane_collateral_pieces{kind="snp_list"} 1"#));
    assert!(has(&to, r#"sealane_collateral_bundles_total{outcome="taken"} 0"#));
}

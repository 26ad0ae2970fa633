//! Services that answer well, badly or not at all, on loopback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sealane_attestation::{Anchor, Collateral, PckAuthority, Piece, PieceId, TdxRoot, VendorRoots, vcek_ids};
use sealane_collateral::{FetchError, Fetcher, Sources};
use sealane_fixtures::keys::{AUTHORITY as AMD, OTHER_AUTHORITY};
use sealane_simulated::forge::{Dates, Recipe};
use sealane_simulated::{Material, Platform, tdx};
use sealane_types::{Fmspc, Product, UnixSeconds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Longest wait for anything; generous, because machines that run tests are busy.
const LIMIT: Duration = Duration::from_secs(120);

static CHIP: LazyLock<Material> = LazyLock::new(|| AMD.issue(&recipe(Product::Genoa)).unwrap());
static INTEL: LazyLock<tdx::Material> = LazyLock::new(|| {
    let recipe = tdx::forge::Recipe { marked: false, ..tdx::forge::Recipe::new().unwrap() };
    tdx::forge::Authority::generate().unwrap().issue(&recipe).unwrap()
});
const LIST: PieceId = PieceId::SnpList(Product::Genoa);

fn recipe(product: Product) -> Recipe {
    Recipe { marked: false, ..Recipe::new(product).unwrap() }
}

fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}

fn list(product: Product, from: i64, until: i64) -> Vec<u8> {
    let at = |offset: i64| Duration::from_secs(now().0.checked_add_signed(offset).unwrap());
    AMD.revocation_list(&recipe(product), Dates { from: at(from), until: at(until) }, false).unwrap()
}

fn roots() -> VendorRoots {
    let [_, ask, ark] = CHIP.certificates();
    let [_, _, root] = INTEL.chain();
    // Another product under the same keys.
    let milan = AMD.issue(&recipe(Product::Milan)).unwrap();
    let [_, milan_ask, milan_ark] = milan.certificates();
    let anchors = Collateral::empty()
        .with_anchor(Anchor::new(ark, ask).unwrap())
        .with_anchor(Anchor::new(milan_ark, milan_ask).unwrap());
    VendorRoots::new(anchors, TdxRoot::new(root).unwrap())
}

/// What a service does with one question.
#[derive(Clone)]
enum Behaviour {
    /// These bytes, and no more.
    Say(Vec<u8>),
    /// A head, and a body without end.
    Endless,
    /// Headers without end.
    EndlessHead,
    Hang,
    Cut,
}

fn ok(body: &[u8]) -> Behaviour {
    answer("200 OK", &[], body)
}

fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Behaviour {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
    Behaviour::Say([head.as_bytes(), body].concat())
}

type Behave = Arc<dyn Fn(&str) -> Behaviour + Send + Sync>;

/// A service on loopback.
struct Fake {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    async fn start(behave: impl Fn(&str) -> Behaviour + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, behave): (Arc<Mutex<Vec<String>>>, Behave) = (Arc::default(), Arc::new(behave));
        let noted = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, behave) = (Arc::clone(&noted), Arc::clone(&behave));
                tokio::spawn(async move { serve(stream, &noted, &behave).await });
            }
        });
        Self { address, asked }
    }

    async fn saying(behaviour: Behaviour) -> Self {
        Self::start(move |_| behaviour.clone()).await
    }

    fn fetcher(&self) -> Fetcher {
        let here = format!("http://{}", self.address);
        let sources = Sources { kds: here.clone(), pcs: here, thim: None, authorities: None };
        Fetcher::new(&sources, roots()).unwrap()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, noted: &Mutex<Vec<String>>, behave: &Behave) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes).await {
            Ok(read) if read > 0 => head.extend_from_slice(&bytes[..read]),
            _ => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    noted.lock().unwrap().push(path.clone());
    let endless = |begin: &str, more: &str| (begin.to_owned(), more.repeat(1000));
    let (begin, more) = match behave(&path) {
        Behaviour::Say(bytes) => {
            let _ = stream.write_all(&bytes).await;
            return;
        }
        Behaviour::Cut => return,
        Behaviour::Hang => return std::future::pending().await,
        Behaviour::Endless => endless("HTTP/1.1 200 OK\r\n\r\n", "endless "),
        Behaviour::EndlessHead => endless("HTTP/1.1 200 OK\r\n", "x-endless: endless\r\n"),
    };
    let _ = stream.write_all(begin.as_bytes()).await;
    while stream.write_all(more.as_bytes()).await.is_ok() {}
}

async fn error(behaviour: Behaviour) -> Arc<FetchError> {
    let fake = Fake::saying(behaviour).await;
    fake.fetcher().fetch(LIST, now()).await.unwrap_err()
}

#[tokio::test]
async fn amd_s_pieces_are_fetched() {
    let body = list(Product::Genoa, -60, 3600);
    let vcek = CHIP.certificates()[0].to_vec();
    let (listed, certified) = (body.clone(), vcek.clone());
    let fake = Fake::start(move |path| ok(if path.ends_with("/crl") { &listed } else { &certified })).await;
    let fetcher = fake.fetcher();
    let fetched = fetcher.fetch(LIST, now()).await.unwrap();
    assert_eq!((fetched.id(), fetched.piece()), (LIST, &Piece::SnpList(body)));
    let report = Platform::new(CHIP.clone(), None).unwrap().quote([1; 64]).unwrap().report;
    let id = PieceId::Vcek(vcek_ids(&report)[0]);
    // AMD's service is asked once in ten seconds; another fetcher has not asked yet.
    let fetched = fake.fetcher().fetch(id, now()).await.unwrap();
    assert_eq!(fetched.piece(), &Piece::Vcek(vcek));
    let asked = fake.asked();
    assert_eq!(asked[0], "/vcek/v1/Genoa/crl");
    assert!(asked[1].starts_with("/vcek/v1/Genoa/") && asked[1].contains("?blSPL="), "{asked:?}");
}

#[tokio::test]
async fn intel_s_pieces_are_fetched() {
    let library: serde_json::Value = serde_json::from_str(&INTEL.collateral_json()).unwrap();
    let text = move |name: &str| library[name].as_str().unwrap().to_owned();
    let encoded = |pem: String| pem.replace('\n', "%0A").replace(' ', "%20").replace('+', "%2B");
    let fake = Fake::start(move |path| {
        let statement = |member: &str, name: &str, signature: &str| {
            format!("{{\"{member}\":{},\"signature\":\"{}\"}}", text(name), text(signature)).into_bytes()
        };
        let chained = |header: &str, chain: &str, body: Vec<u8>| {
            answer("200 OK", &[(header, &encoded(text(chain)))], &body)
        };
        match path {
            "/tdx/certification/v4/qe/identity" => chained(
                "SGX-Enclave-Identity-Issuer-Chain",
                "qe_identity_issuer_chain",
                statement("enclaveIdentity", "qe_identity", "qe_identity_signature"),
            ),
            "/sgx/certification/v4/rootcacrl" => ok(text("root_ca_crl").as_bytes()),
            path if path.starts_with("/tdx/certification/v4/tcb?fmspc=") => chained(
                "TCB-Info-Issuer-Chain",
                "tcb_info_issuer_chain",
                statement("tcbInfo", "tcb_info", "tcb_info_signature"),
            ),
            "/sgx/certification/v4/pckcrl?ca=platform&encoding=der" => {
                chained("SGX-PCK-CRL-Issuer-Chain", "pck_crl_issuer_chain", text("pck_crl").into_bytes())
            }
            _ => answer("404 Not Found", &[], b""),
        }
    })
    .await;
    let fmspc = Fmspc::new(INTEL.processor().fmspc);
    for id in [
        PieceId::TcbInfo(fmspc),
        PieceId::QeIdentity,
        PieceId::TdxRootList,
        PieceId::TdxList(PckAuthority::Platform),
    ] {
        let fetched = fake.fetcher().fetch(id, now()).await;
        assert_eq!(fetched.unwrap().id(), id);
    }
    let missing = fake.fetcher().fetch(PieceId::TdxList(PckAuthority::Processor), now()).await.unwrap_err();
    assert!(matches!(*missing, FetchError::Status { status: 404, .. }), "{missing}");
    // Intel's answer for another family than the one that was asked for.
    let other = PieceId::TcbInfo(Fmspc::new([9; 6]));
    let another = fake.fetcher().fetch(other, now()).await.unwrap_err();
    assert!(matches!(*another, FetchError::Another { .. }), "{another}");
}

#[tokio::test]
async fn answers_that_are_none_are_errors() {
    assert!(matches!(
        *error(answer("404 Not Found", &[], b"")).await,
        FetchError::Status { status: 404, .. }
    ));
    assert!(matches!(*error(answer("500 Oh", &[], b"")).await, FetchError::Status { status: 500, .. }));
    let moved = answer("302 Found", &[("location", "http://127.0.0.1:1/")], b"");
    assert!(matches!(*error(moved).await, FetchError::Redirected { .. }));
    let busy = answer("429 Too Many", &[("retry-after", "7")], b"");
    let retry = Some(Duration::from_secs(7));
    assert!(matches!(*error(busy).await, FetchError::Throttled { retry_after, .. } if retry_after == retry));
    assert!(matches!(*error(Behaviour::Cut).await, FetchError::Broken { .. }));
    assert!(matches!(*error(Behaviour::Endless).await, FetchError::TooLarge { .. }));
    assert!(matches!(*error(Behaviour::EndlessHead).await, FetchError::Broken { .. }));
    let junk = error(Behaviour::Say(b"junk\r\n\r\n".to_vec())).await;
    assert!(matches!(*junk, FetchError::Broken { .. }), "{junk}");
}

#[tokio::test]
async fn what_is_not_in_order_is_not_taken() {
    for body in [&b""[..], b"junk", &[0x30, 0x82, 1, 0]] {
        let refused = error(ok(body)).await;
        assert!(matches!(*refused, FetchError::Refused(_)), "{refused}");
    }
    let mut corrupt = list(Product::Genoa, -60, 3600);
    let last = corrupt.len() - 1;
    corrupt[last] ^= 1;
    let refused = error(ok(&corrupt)).await;
    assert!(matches!(*refused, FetchError::Refused(_)), "{refused}");
    let over = error(ok(&list(Product::Genoa, -3600, -60))).await;
    assert!(matches!(*over, FetchError::Expired { id: LIST }), "{over}");
    let another = error(ok(&list(Product::Milan, -60, 3600))).await;
    assert!(matches!(&*another, FetchError::Another { asked, .. } if **asked == LIST), "{another}");
    let dates = Dates { from: Duration::from_secs(now().0 - 60), until: Duration::from_secs(now().0 + 3600) };
    let forged = OTHER_AUTHORITY.revocation_list(&recipe(Product::Genoa), dates, false).unwrap();
    let refused = error(ok(&forged)).await;
    assert!(matches!(*refused, FetchError::Refused(_)), "{refused}");
}

#[tokio::test]
async fn a_service_that_hangs_is_given_up() {
    let fake = Fake::saying(Behaviour::Hang).await;
    let (fetcher, began) = (fake.fetcher(), tokio::time::Instant::now());
    let fetched = tokio::spawn(async move { fetcher.fetch(LIST, now()).await });
    let deadline = Instant::now() + LIMIT;
    while fake.asked().is_empty() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: the question");
        tokio::task::yield_now().await;
    }
    // From here on the clock stands still, and jumps to the end of the fetcher's patience once everybody waits.
    tokio::time::pause();
    let late = fetched.await.unwrap().unwrap_err();
    assert!(matches!(*late, FetchError::TimedOut { .. }), "{late}");
    assert!(began.elapsed() >= Duration::from_secs(9), "it had its time");
}

#[tokio::test]
async fn a_hundred_callers_ask_once() {
    let body = list(Product::Genoa, -60, 3600);
    let waiting = Arc::new(AtomicUsize::new(0));
    let fake = {
        let waiting = Arc::clone(&waiting);
        Fake::start(move |_| {
            // Answers only once everybody waits.
            let deadline = Instant::now() + LIMIT;
            while waiting.load(Ordering::SeqCst) < 100 {
                assert!(Instant::now() < deadline, "not within {LIMIT:?}: a hundred callers");
                std::thread::sleep(Duration::from_millis(1));
            }
            ok(&body)
        })
        .await
    };
    let fetcher = fake.fetcher();
    let callers = (0..100).map(|_| {
        let (fetcher, waiting) = (fetcher.clone(), Arc::clone(&waiting));
        tokio::spawn(async move {
            let fetched = fetcher.fetch(LIST, now());
            tokio::pin!(fetched);
            // Polled once, so that it waits before the service may answer.
            let early = futures::poll!(&mut fetched);
            waiting.fetch_add(1, Ordering::SeqCst);
            match early {
                std::task::Poll::Ready(done) => done,
                std::task::Poll::Pending => fetched.await,
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    for caller in callers {
        assert_eq!(caller.await.unwrap().unwrap().id(), LIST);
    }
    assert_eq!(fake.asked().len(), 1, "one question for all");
}

#[tokio::test]
async fn who_gives_up_ends_nothing_for_others() {
    let body = list(Product::Genoa, -60, 3600);
    let fake = Fake::saying(ok(&body)).await;
    let fetcher = fake.fetcher();
    let first = Box::pin(fetcher.fetch(LIST, now()));
    let mut first = first;
    assert!(futures::poll!(&mut first).is_pending());
    drop(first);
    fetcher.fetch(LIST, now()).await.unwrap();
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test]
async fn what_failed_is_not_asked_for_again_at_once() {
    let fake = Fake::saying(answer("404 Not Found", &[], b"")).await;
    let fetcher = fake.fetcher();
    for _ in 0..10 {
        fetcher.fetch(LIST, now()).await.unwrap_err();
    }
    assert_eq!(fake.asked().len(), 1);
    // A service that wants rest gets it, whichever piece is wanted of it.
    let fake = Fake::saying(answer("429 Too Many", &[("retry-after", "600")], b"")).await;
    let fetcher = fake.fetcher();
    fetcher.fetch(LIST, now()).await.unwrap_err();
    let rest = fetcher.fetch(PieceId::SnpList(Product::Milan), now()).await.unwrap_err();
    assert!(matches!(*rest, FetchError::NotYet { .. }), "{rest}");
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test]
async fn azure_s_host_is_asked_first_for_its_chip() {
    use base64::Engine as _;
    let vcek = CHIP.certificates()[0].to_vec();
    let text = base64::engine::general_purpose::STANDARD.encode(&vcek);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    let text = lines.join("\\n");
    let pem = format!("-----BEGIN CERTIFICATE-----\\n{text}\\n-----END CERTIFICATE-----\\n");
    let body = format!(r#"{{"vcekCert":"{pem}","tcbm":"0","certificateChain":""}}"#);
    let thim = Fake::saying(ok(body.as_bytes())).await;
    let kds = Fake::saying(answer("500 Oh", &[], b"")).await;
    let [kds_address, thim_address] = [&kds, &thim].map(|fake| format!("http://{}", fake.address));
    let sources =
        Sources { kds: kds_address.clone(), pcs: kds_address, thim: Some(thim_address), authorities: None };
    let fetcher = Fetcher::new(&sources, roots()).unwrap();
    let report = Platform::new(CHIP.clone(), None).unwrap().quote([1; 64]).unwrap().report;
    let fetched = fetcher.fetch(PieceId::Vcek(vcek_ids(&report)[0]), now()).await.unwrap();
    assert_eq!(fetched.piece(), &Piece::Vcek(vcek));
    assert!(kds.asked().is_empty());
    assert_eq!(thim.asked(), ["/metadata/THIM/amd/certification"]);
}

#[test]
fn addresses_and_authorities_have_to_be_such() {
    let with = |kds: &str, authorities: Option<&str>| {
        let sources = Sources {
            kds: kds.to_owned(),
            authorities: authorities.map(str::to_owned),
            ..Sources::default()
        };
        Fetcher::new(&sources, VendorRoots::pinned())
    };
    assert!(with("kdsintf.amd.com", None).is_err());
    assert!(with("https://kdsintf.amd.com", Some("no PEM")).is_err());
}

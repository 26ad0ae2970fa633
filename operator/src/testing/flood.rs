//! Two thousand hostile connections to a listener in a process of its own, whose memory can be told from theirs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use time::OffsetDateTime;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::{Material, Resolver};

const CONNECTIONS: usize = 2_000;
/// They come from so many addresses.
const SOURCES: usize = 20;
/// What they may cost.
const KIB_MAX: usize = 16 << 10;
/// Longest that a test waits for what comes at once.
const LIMIT: Duration = Duration::from_secs(120);
/// Tells this program, executed again for one test, that it serves, and with which certificate.
const MATERIAL: &str = "SEALANE_FLOOD_MATERIAL";
const LISTENING: &str = "listening on ";
const NAME: &str = "sealane.test";

/// What a connection does.
#[derive(Debug, Clone)]
pub(crate) enum HostileClient {
    /// Not even a TLS handshake.
    Silent,
    /// Says this over TLS, and no more.
    Says(Vec<u8>),
    /// Says this over TLS, and then one letter after the other.
    Trickles(Vec<u8>),
}

/// Has `serve` serve in another process, which is the test of this name executed again; `honest` has to be served while
/// [`CONNECTIONS`] of the `hostile` kinds are opened, and they may cost the process [`KIB_MAX`].
pub(crate) fn flood<S, H>(
    test: &str,
    protocol: &[u8],
    hostile: Vec<HostileClient>,
    serve: impl FnOnce(TcpListener, Arc<ServerConfig>) -> S,
    honest: impl Fn(TlsStream<TcpStream>) -> H,
) where
    S: Future<Output = ()>,
    H: Future<Output = ()>,
{
    if let Ok(material) = std::env::var(MATERIAL) {
        let material: Material = serde_json::from_str(&material).unwrap();
        return Runtime::new().unwrap().block_on(served(&material, protocol, serve));
    }
    let (material, _) = Material::advance(None, &[NAME.to_owned()], OffsetDateTime::now_utc()).unwrap();
    let server = ServerProcess::start(test, &material);
    Runtime::new().unwrap().block_on(async {
        let clients = Clients::new(server.address, &material, protocol);
        for _ in 0..3 {
            clients.ask(&honest).await;
        }
        let before = server.kib("VmRSS:");
        let hostile: Vec<_> = hostile.into_iter().map(Arc::new).collect();
        let mut open = JoinSet::new();
        for number in 0..CONNECTIONS {
            let kind = Arc::clone(&hostile[number / SOURCES % hostile.len()]);
            open.spawn(clients.clone().hold(number % SOURCES, kind));
            if number % 100 == 99 {
                clients.ask(&honest).await;
            }
        }
        // Those that are still being opened, too.
        for _ in 0..20 {
            clients.ask(&honest).await;
        }
        let cost = server.kib("VmHWM:").saturating_sub(before);
        tell(&format!("{CONNECTIONS} hostile connections cost {cost} KiB beside {before} KiB"));
        assert!(cost <= KIB_MAX, "{cost} KiB beside {before} KiB");
    });
}

/// Serves until the parent is gone.
async fn served<S: Future<Output = ()>>(
    material: &Material,
    protocol: &[u8],
    serve: impl FnOnce(TcpListener, Arc<ServerConfig>) -> S,
) {
    let resolver = Arc::new(Resolver::default());
    resolver.install(material).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    tell(&format!("{LISTENING}{}", listener.local_addr().unwrap()));
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    serve(listener, resolver.server(protocol).unwrap()).await;
}

/// To the parent, or to whoever runs the test, past what captures the output of tests.
fn tell(text: &str) {
    writeln!(std::io::stdout(), "{text}").unwrap();
}

/// The server's process; it ends with its standard input.
struct ServerProcess {
    child: Child,
    address: SocketAddr,
}

impl ServerProcess {
    fn start(test: &str, material: &Material) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(MATERIAL, serde_json::to_string(material).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.split_once(LISTENING)?.1.parse().ok());
        // It says more when it takes long, and ends when nobody listens.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("the test has this name, and listens") }
    }

    fn kib(&self, field: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[derive(Clone)]
struct Clients {
    server: SocketAddr,
    connector: TlsConnector,
}

impl Clients {
    fn new(server: SocketAddr, material: &Material, protocol: &[u8]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(
            CertificateDer::pem_slice_iter(material.bundle().as_bytes()).map(Result::unwrap),
        );
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Self { server, connector: TlsConnector::from(Arc::new(config)) }
    }

    async fn connect(&self, source: IpAddr) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        socket.connect(self.server).await
    }

    async fn secure(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(NAME.try_into().unwrap(), stream).await
    }

    async fn ask<H: Future<Output = ()>>(&self, honest: &impl Fn(TlsStream<TcpStream>) -> H) {
        let asked = async {
            let stream = self.connect(Ipv4Addr::LOCALHOST.into()).await.unwrap();
            honest(self.secure(stream).await.unwrap()).await;
        };
        timeout(LIMIT, asked).await.expect("an answer");
    }

    /// Holds a connection until the server ends it, or for ever.
    async fn hold(self, source: usize, kind: Arc<HostileClient>) -> std::io::Result<()> {
        let source = Ipv4Addr::from(0x7f01_0001 + u32::try_from(source).unwrap());
        let stream = self.connect(source.into()).await?;
        let text = match kind.as_ref() {
            HostileClient::Silent => {
                std::future::pending::<()>().await;
                drop(stream);
                return Ok(());
            }
            HostileClient::Says(text) | HostileClient::Trickles(text) => text,
        };
        let mut stream = self.secure(stream).await?;
        stream.write_all(text).await?;
        stream.flush().await?;
        let mut letters = tokio::time::interval(Duration::from_millis(200));
        while matches!(kind.as_ref(), HostileClient::Trickles(_)) {
            letters.tick().await;
            stream.write_all(b"a").await?;
            stream.flush().await?;
        }
        std::future::pending::<()>().await;
        drop(stream);
        Ok(())
    }
}

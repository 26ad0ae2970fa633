//! A kubelet as it answers on loopback, and ones that do not.

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

const POD: &str =
    r#"{"items": [{"metadata": {"namespace": "demo", "name": "a", "uid": "6b5e", "labels": {}}}]}"#;

/// A server with a self-made certificate that gives one answer to everybody, and counts them.
struct Server {
    address: SocketAddr,
    pem: String,
    asked: Arc<AtomicUsize>,
    folder: tempfile::TempDir,
}

impl Server {
    async fn start(head: &'static str, body: Vec<u8>) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let der = CertificateDer::from(certificate.der().to_vec());
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![der], private).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).await.is_err() {
                        break;
                    }
                    request.extend(byte);
                }
                let request = String::from_utf8(request).unwrap();
                let known = request.starts_with("GET /pods ") && request.contains("Bearer the-token\r\n");
                counted.fetch_add(1, Ordering::SeqCst);
                let head = if known { head } else { "HTTP/1.1 401 Unauthorized" };
                let head = format!("{head}\r\ncontent-length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
                let _ = stream.shutdown().await;
            }
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "the-token\n").unwrap();
        Self { address, pem: certificate.pem(), asked, folder }
    }

    fn at(&self, authority: Option<(String, &'static str)>) -> KubeletAddress {
        let authority = authority.map(|(pem, name)| (pem, ServerName::try_from(name).unwrap()));
        KubeletAddress { address: self.address, authority, token: self.folder.path().join("token") }
    }

    async fn asked(&self, authority: Option<(String, &'static str)>) -> Result<Arc<Vec<Pod>>, KubeletError> {
        let kubelet = Kubelet { bytes_max: BYTES_MAX, deadline: LIMIT, ..Kubelet::new(self.at(authority))? };
        kubelet.pods().await
    }

    /// A kubelet whose answers serve for so long.
    fn kubelet(&self, fresh: Duration) -> Kubelet {
        Kubelet { fresh, deadline: LIMIT, ..Kubelet::new(self.at(None)).unwrap() }
    }
}

/// Of an answer in these tests: what is larger need not take long to send.
const BYTES_MAX: usize = 64 * 1024;

/// Longest wait for anything; generous, because machines that run tests are busy.
const LIMIT: Duration = Duration::from_secs(120);
const OK: &str = "HTTP/1.1 200 OK";

#[tokio::test]
async fn pods_are_listed_with_the_agents_token() {
    let server = Server::start(OK, POD.into()).await;
    let pods = server.asked(None).await.unwrap();
    assert_eq!(pods[0].metadata.uid, "6b5e");
    std::fs::write(server.folder.path().join("token"), "another").unwrap();
    let refused = server.asked(None).await.unwrap_err();
    assert!(matches!(refused, KubeletError::Forbidden(_)) && refused.to_string().contains("nodes/pods"));
}

#[tokio::test]
async fn one_answer_serves_everybody_for_a_moment() {
    let server = Server::start(OK, POD.into()).await;
    let kubelet = server.kubelet(LIMIT);
    let all = futures::future::join_all((0..16).map(|_| kubelet.pods())).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(server.asked.load(Ordering::SeqCst), 1, "they share");
    let kubelet = server.kubelet(Duration::ZERO);
    for asked in 2..5 {
        kubelet.pods().await.unwrap();
        assert_eq!(server.asked.load(Ordering::SeqCst), asked, "and no longer than that");
    }
    assert_eq!(Kubelet::new(server.at(None)).unwrap().fresh, Duration::from_secs(1));
}

#[tokio::test]
async fn an_authority_that_is_given_is_asked() {
    let server = Server::start(OK, POD.into()).await;
    let other = Server::start(OK, POD.into()).await;
    server.asked(Some((server.pem.clone(), "127.0.0.1"))).await.unwrap();
    for authority in [(other.pem.clone(), "127.0.0.1"), (server.pem.clone(), "node1")] {
        let refused = server.asked(Some(authority)).await.unwrap_err();
        assert!(matches!(refused, KubeletError::Connect(_)), "{refused}");
    }
    let unusable = server.asked(Some(("no certificate".to_owned(), "node1"))).await.unwrap_err();
    assert!(matches!(unusable, KubeletError::Authority(_)), "{unusable}");
}

#[test]
fn nobody_is_believed_off_the_node() {
    let address: SocketAddr = "10.90.0.11:10250".parse().unwrap();
    let at = KubeletAddress { address, authority: None, token: PathBuf::new() };
    assert!(matches!(Kubelet::new(at), Err(KubeletError::Unverified(found)) if found == address));
}

#[tokio::test]
async fn hostile_answers_are_refused() {
    let endless = Server::start(OK, vec![b' '; BYTES_MAX + 1]).await;
    assert!(matches!(endless.asked(None).await, Err(KubeletError::Body(_))));
    for body in ["", "[]", "{\"items\": 1}", "\u{1}"] {
        let server = Server::start(OK, body.into()).await;
        assert!(matches!(server.asked(None).await, Err(KubeletError::Json(_))), "{body}");
    }
    let deep = Server::start(OK, format!("{{\"items\": {}", "[".repeat(50_000)).into()).await;
    assert!(matches!(deep.asked(None).await, Err(KubeletError::Json(_))));
    let empty = Server::start(OK, "{\"items\": null, \"kind\": \"PodList\"}".into()).await;
    assert!(empty.asked(None).await.unwrap().is_empty());
    let broken = Server::start("HTTP/1.1 500 Oh", "".into()).await;
    assert!(matches!(broken.asked(None).await, Err(KubeletError::Status(_))));
}

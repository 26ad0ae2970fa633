//! TLS 1.3 as a program gets it from rustls: AES-256-GCM alone, on the same library as ours. Messages stand one behind the
//! other with nothing between them: both ends know how long they are.

use std::sync::Arc;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::carrier::Carrier;
use crate::message::Inbox;
use crate::wire::{Open, Side, Wire};

/// The name that a row's id carries for plain writes, and behind a buffer.
pub(crate) const NAME: &str = "rustls";
pub(crate) const NAME_BUFFERED: &str = "rustls-buffered";
/// What gathers messages before they are sealed.
const BUFFER_BYTES: usize = 64 << 10;
pub(crate) const SERVER: &str = "receiver.bench";

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Writes {
    /// Each by a write and a flush of its own.
    Plain,
    /// Into a buffer, which is flushed when it is full or nothing more is to be sent.
    Buffered,
}

#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
    writes: Writes,
}

pub(crate) struct Session {
    stream: BufWriter<TlsStream<Carrier>>,
    writes: Writes,
}

/// What both ends have in common, as it travels: the certificate of a moment, whose key guards nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SharedTls {
    /// DER in base64, and PKCS #8.
    certificate: String,
    key: String,
    writes: Writes,
}

impl SharedTls {
    /// With a key and a certificate of its own.
    pub(crate) fn new(writes: Writes) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([SERVER.to_owned()])?;
        let certificate = STANDARD.encode(made.cert.der());
        Ok(Self { certificate, key: STANDARD.encode(made.signing_key.serialize_der()), writes })
    }

    /// Who trusts the certificate.
    pub(crate) fn client(&self) -> Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate()?)?;
        Ok(ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth())
    }

    /// Who has its key.
    pub(crate) fn server(&self) -> Result<ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(STANDARD.decode(&self.key)?));
        Ok(ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate()?], key)?)
    }

    fn certificate(&self) -> Result<CertificateDer<'static>> {
        Ok(CertificateDer::from(STANDARD.decode(&self.certificate)?))
    }
}

/// AES-256-GCM alone.
fn provider() -> Arc<CryptoProvider> {
    let suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384];
    Arc::new(CryptoProvider { cipher_suites: suites, ..aws_lc_rs::default_provider() })
}

impl Tls {
    /// With a key and a certificate of its own.
    pub(crate) fn new(writes: Writes) -> Result<Self> {
        Self::join(&SharedTls::new(writes)?)
    }

    /// With what was shared.
    pub(crate) fn join(shared: &SharedTls) -> Result<Self> {
        let (connector, acceptor) = (Arc::new(shared.client()?).into(), Arc::new(shared.server()?).into());
        Ok(Self { connector, acceptor, writes: shared.writes })
    }
}

impl Open for Tls {
    type Wire = Session;

    async fn open(&self, carrier: Carrier, side: Side) -> Result<Session> {
        let stream: TlsStream<Carrier> = match side {
            Side::Dialler => self.connector.connect(ServerName::try_from(SERVER)?, carrier).await?.into(),
            Side::Accepter => self.acceptor.accept(carrier).await?.into(),
        };
        Ok(Session { stream: BufWriter::with_capacity(BUFFER_BYTES, stream), writes: self.writes })
    }
}

impl Wire for Session {
    async fn put(&mut self, message: &Bytes) -> Result<()> {
        self.send(message).await
    }

    async fn flush(&mut self) -> Result<()> {
        Ok(self.stream.flush().await?)
    }

    async fn take(&mut self, inbox: &mut Inbox, count: u64) -> Result<()> {
        while inbox.count() < count {
            let mut filled = 0;
            while !inbox.space(filled).is_empty() {
                let read = self.stream.get_mut().read(inbox.space(filled)).await?;
                ensure!(read > 0, "the other end is gone");
                filled += read;
            }
            inbox.finish();
        }
        Ok(())
    }

    async fn echo(&mut self, inbox: &mut Inbox) -> Result<()> {
        self.take(inbox, inbox.count() + 1).await?;
        self.send(inbox.last()).await?;
        self.flush().await
    }
}

impl Session {
    async fn send(&mut self, message: &[u8]) -> Result<()> {
        match self.writes {
            Writes::Plain => {
                let stream = self.stream.get_mut();
                stream.write_all(message).await?;
                stream.flush().await?;
            }
            Writes::Buffered => self.stream.write_all(message).await?,
        }
        Ok(())
    }
}

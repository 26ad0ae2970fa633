//! What keeps a sidecar from the operator: name resolution, the network, or TLS, with every cause below it.

use std::error::Error;
use std::fmt;
use std::io;

/// The step at which a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    Dns,
    Refused,
    Unreachable,
    Tls,
    /// None of these, or nobody can say.
    Other,
}

impl Obstacle {
    /// Found among `error` and its causes.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        chain(error).find_map(found).unwrap_or(Self::Other)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dns => "DNS: its name is not resolved",
            Self::Refused => "connection refused: nothing listens there",
            Self::Unreachable => "no answer: the network leads nowhere, or drops what is sent there",
            Self::Tls => {
                "TLS: it is not the operator, or its authority is not the one that this pod was made with"
            }
            Self::Other => "see the causes",
        })
    }
}

/// Every cause of an error in one line, the outermost first. What repeats the one before is left out.
#[derive(Debug)]
pub(super) struct Causes<'a>(pub(super) &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = String::new();
        for (depth, cause) in chain(self.0).enumerate() {
            let text = cause.to_string();
            if text == last {
                continue;
            }
            let separator = if depth == 0 { "" } else { ": " };
            write!(f, "{separator}{text}")?;
            last = text;
        }
        Ok(())
    }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

fn found(error: &(dyn Error + 'static)) -> Option<Obstacle> {
    if error.is::<rustls::Error>() {
        return Some(Obstacle::Tls);
    }
    // hyper's connector has no type for it that could be asked for.
    if error.to_string() == "dns error" {
        return Some(Obstacle::Dns);
    }
    let error = error.downcast_ref::<io::Error>()?;
    // What an I/O error wraps is not among its causes.
    if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        return Some(Obstacle::Tls);
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(Obstacle::Refused),
        io::ErrorKind::TimedOut
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NotConnected => Some(Obstacle::Unreachable),
        // Whoever listens there ends the connection where it should greet: rustls' own words for it.
        io::ErrorKind::UnexpectedEof if error.to_string().contains("handshake") => Some(Obstacle::Tls),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::CertificateError;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;
    use tonic::transport::{ClientTlsConfig, Endpoint};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Wrapped(&'static str, #[source] io::Error);

    #[test]
    fn each_step_is_told_from_the_others() {
        let of = |error: io::Error| Obstacle::of(&Wrapped("transport error", error));
        assert_eq!(of(io::ErrorKind::ConnectionRefused.into()), Obstacle::Refused);
        assert_eq!(of(io::ErrorKind::TimedOut.into()), Obstacle::Unreachable);
        assert_eq!(of(io::ErrorKind::HostUnreachable.into()), Obstacle::Unreachable);
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert_eq!(of(io::Error::new(io::ErrorKind::InvalidData, unknown.clone())), Obstacle::Tls);
        assert_eq!(Obstacle::of(&unknown), Obstacle::Tls);
        let look_up = || io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(Obstacle::of(&Wrapped("dns error", look_up())), Obstacle::Dns);
        assert_eq!(of(io::Error::other("broken")), Obstacle::Other);
    }

    #[test]
    fn every_cause_is_told_once() {
        let error = Wrapped("dns error", io::Error::other("failed to lookup address information"));
        assert_eq!(Causes(&error).to_string(), "dns error: failed to lookup address information");
        let same = Wrapped("broken", io::Error::other("broken"));
        assert_eq!(Causes(&same).to_string(), "broken");
    }

    /// The error of an attempt to speak TLS to `address`.
    async fn attempt(address: std::net::SocketAddr) -> tonic::transport::Error {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let tls = ClientTlsConfig::new().domain_name("sealane-control.sealane-system.svc");
        let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap().tls_config(tls).unwrap();
        endpoint.connect_timeout(Duration::from_secs(30)).connect().await.unwrap_err()
    }

    #[tokio::test]
    async fn what_the_transport_says_is_understood() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            // The socket is closed once the client has read that.
            let _ = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
        });
        let error = attempt(address).await;
        assert_eq!(Obstacle::of(&error), Obstacle::Tls, "{}", Causes(&error));
        serving.await.unwrap();
        // Nobody listens there any more.
        let error = attempt(address).await;
        assert_eq!(Obstacle::of(&error), Obstacle::Refused, "{}", Causes(&error));
        assert!(Causes(&error).to_string().contains("refused"), "{}", Causes(&error));
    }
}

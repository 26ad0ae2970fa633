//! Peers outside of the cluster: what a spec says of them, parsed once for admission and for reconciliation.

use std::net::{IpAddr, SocketAddr};

use sealane_operator_api as api;
use sealane_types::{ParseHexError, PublicKey};

/// Replicas outside of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    pub addresses: Vec<SocketAddr>,
    pub key: PublicKey,
}

/// A field of `spec.external` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExternalError {
    #[error(
        "spec.external.addresses[{index}]: `{found}` is no IP address with a port, for example 203.0.113.7:14710 or [2001:db8::7]:14710; names are not resolved"
    )]
    Address { index: usize, found: String },
    #[error(
        "spec.external.addresses[{index}]: nothing outside of the cluster is reached at {found}; name the address that pods see, for example 203.0.113.7:14710"
    )]
    Unreachable { index: usize, found: SocketAddr },
    #[error("spec.external.publicKey: {source}; it is what `sealane-sidecar keygen` printed, 64 digits")]
    Key { source: ParseHexError },
}

impl External {
    /// # Errors
    /// [`ExternalError`] names the field and what it should be.
    pub fn read(spec: &api::External) -> Result<Self, ExternalError> {
        let api::External { addresses, public_key } = spec;
        let addresses = addresses.iter().enumerate().map(address).collect::<Result<_, _>>()?;
        let key = public_key.parse().map_err(|source| ExternalError::Key { source })?;
        Ok(Self { addresses, key })
    }
}

fn address((index, text): (usize, &String)) -> Result<SocketAddr, ExternalError> {
    let malformed = |_| ExternalError::Address { index, found: text.chars().take(80).collect() };
    let found: SocketAddr = text.parse().map_err(malformed)?;
    let ip = found.ip().to_canonical();
    // Each pod would take them for itself.
    let own = ip.is_loopback() || ip.is_unspecified();
    let no_host = ip.is_multicast() || ip == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
    if own || no_host || found.port() == 0 {
        return Err(ExternalError::Unreachable { index, found });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(address: &str) -> Result<External, ExternalError> {
        External::read(&api::External { addresses: vec![address.to_owned()], public_key: "0a".repeat(32) })
    }

    #[test]
    fn addresses_are_those_of_hosts_that_pods_can_reach() {
        for good in ["203.0.113.7:14710", "[2001:db8::7]:1", "10.0.0.1:65535"] {
            assert_eq!(read(good).unwrap().addresses, [good.parse().unwrap()]);
        }
        for bad in ["203.0.113.7", "example.org:14710", "203.0.113.7:70000", "2001:db8::7:14710", ""] {
            let error = read(bad).unwrap_err();
            assert!(matches!(error, ExternalError::Address { index: 0, .. }), "{bad}: {error}");
            assert!(error.to_string().contains("203.0.113.7:14710"), "{error}");
        }
        for bad in
            ["127.0.0.1:1", "[::1]:1", "0.0.0.0:1", "[::ffff:127.0.0.1]:1", "224.0.0.1:1", "10.0.0.1:0"]
        {
            let error = read(bad).unwrap_err();
            assert!(matches!(error, ExternalError::Unreachable { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn a_key_is_one() {
        let spec = api::External { addresses: vec![], public_key: "0A".repeat(32) };
        let error = External::read(&spec).unwrap_err().to_string();
        assert!(error.starts_with("spec.external.publicKey: ") && error.contains("keygen"), "{error}");
    }
}

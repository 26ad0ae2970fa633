//! Where a service is.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::Scheme;

/// Text that is not the address of a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected http://HOST[:PORT][/PATH] or https://…, found `{0}`")]
pub struct InvalidAddress(String);

/// `http://` or `https://`, a host, a port, and what stands before every path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    secure: bool,
    host: String,
    port: u16,
    /// Without a slash at its end.
    prefix: String,
}

impl Address {
    pub(crate) const fn is_secure(&self) -> bool {
        self.secure
    }

    /// As names and sockets know it: without the brackets of an IPv6 literal.
    pub(crate) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// For the Host header and for people.
    pub(crate) fn authority(&self) -> String {
        let default = if self.secure { 443 } else { 80 };
        if self.port == default { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress(text.chars().take(200).collect());
        let uri: Uri = text.parse().map_err(|_| invalid())?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(invalid()),
        };
        let authority = uri.authority().ok_or_else(invalid)?;
        // Credentials would end up in logs.
        if uri.query().is_some() || authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(invalid());
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { secure, host: authority.host().to_owned(), port, prefix })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.secure { "https" } else { "http" }, self.authority(), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, authority, path) in [
            ("https://kdsintf.amd.com", "kdsintf.amd.com", "/crl"),
            ("http://pccs.sealane-system.svc:8081/", "pccs.sealane-system.svc:8081", "/crl"),
            ("http://[::1]:80/cache/", "[::1]", "/cache/crl"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.authority().as_str(), address.path("/crl").as_str()), (authority, path));
        }
        assert_eq!("http://[::1]:80".parse::<Address>().unwrap().host(), "::1");
        for text in [
            "",
            "pccs",
            "pccs:8081",
            "ftp://pccs",
            "http://",
            "https://user@pccs",
            "http://pccs?x=1",
            "http://a b",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}

//! Names of the things users declare. Each is a Kubernetes object name, so one rule serves all of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A name that is not a DNS-1123 subdomain of at most 253 bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a valid name: use at most 253 lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit"
)]
pub struct InvalidName(String);

/// Longest name in bytes (RFC 1123 subdomain, as Kubernetes applies it).
const NAME_BYTES_MAX: usize = 253;

fn check(name: &str) -> Result<(), InvalidName> {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let ends_well = bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge);
    let inside = bytes.iter().all(|byte| edge(byte) || matches!(byte, b'-' | b'.'));
    if ends_well && inside && bytes.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(InvalidName(shown))
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// # Errors
            /// [`InvalidName`] when `name` is not an RFC 1123 subdomain.
            pub fn new(name: impl Into<String>) -> Result<Self, InvalidName> {
                let name = name.into();
                check(&name)?;
                Ok(Self(name))
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;
            fn try_from(name: String) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl std::str::FromStr for $type {
            type Err = InvalidName;
            fn from_str(name: &str) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }
    };
}

name!(
    /// A Peer: a workload that takes part, and what it must prove.
    PeerName
);
name!(
    /// A TransferSession: a declared flow between Peers.
    SessionName
);
name!(
    /// A TrustPolicy.
    PolicyName
);
name!(
    /// A Kubernetes namespace.
    Namespace
);

/// One replica of a Peer as it names itself: `namespace/pod/uid`. Bound into REPORT_DATA.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PodIdentity {
    text: String,
    namespace_end: usize,
    pod_end: usize,
}

impl PodIdentity {
    /// # Errors
    /// [`InvalidName`] when a part is not a valid name; a uid is one too.
    pub fn new(namespace: &str, pod: &str, uid: &str) -> Result<Self, InvalidName> {
        for part in [namespace, pod, uid] {
            check(part)?;
        }
        let namespace_end = namespace.len();
        let pod_end = namespace_end + 1 + pod.len();
        Ok(Self { text: format!("{namespace}/{pod}/{uid}"), namespace_end, pod_end })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text.get(..self.namespace_end).unwrap_or_default()
    }

    #[must_use]
    pub fn pod(&self) -> &str {
        self.text.get(self.namespace_end + 1..self.pod_end).unwrap_or_default()
    }

    #[must_use]
    pub fn uid(&self) -> &str {
        self.text.get(self.pod_end + 1..).unwrap_or_default()
    }
}

impl fmt::Display for PodIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for PodIdentity {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(namespace), Some(pod), Some(uid), None) => Self::new(namespace, pod, uid),
            _ => Err(InvalidName(text.chars().take(64).collect())),
        }
    }
}

impl From<PodIdentity> for String {
    fn from(identity: PodIdentity) -> Self {
        identity.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_rfc_1123() {
        for good in ["a", "embedder", "layer-3.v2", "0"] {
            assert!(PeerName::new(good).is_ok(), "{good}");
        }
        let long = "a".repeat(254);
        for bad in ["", "-a", "a-", "A", "a_b", "a/b", "ä", long.as_str()] {
            assert!(PeerName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pod_identity_gives_its_parts_back() {
        let identity = PodIdentity::new("demo", "embedder-0", "6b5e").unwrap();
        assert_eq!((identity.namespace(), identity.pod(), identity.uid()), ("demo", "embedder-0", "6b5e"));
        assert_eq!(PodIdentity::try_from(identity.to_string()).unwrap(), identity);
        assert!(PodIdentity::try_from("demo/pod".to_owned()).is_err());
        assert!(PodIdentity::try_from("demo/pod/uid/more".to_owned()).is_err());
    }
}

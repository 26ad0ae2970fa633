//! What a node agent states about a pod whose node is the TEE.

use std::collections::BTreeMap;

use sealane_types::Digest;

use crate::codec::{Reader, put_prefixed};
use crate::limits::{CONTAINER_NAME_BYTES_MAX, CONTAINERS_MAX, SERVICE_ACCOUNT_BYTES_MAX};
use crate::rejection::Rejection;

/// The only layout there is; another one gets another number.
const VERSION: u8 = 1;

/// A statement that no agent may make: a name that no Kubernetes object has, no container, or too many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the workload cannot be stated: {0}")]
pub struct Unstatable(&'static str);

/// A pod as the node agent states it: its service account, and the image of each of its containers, the sidecar's among
/// them. Namespace, name and uid are the pod identity's, which REPORT_DATA covers beside it.
///
/// Encoded as: version (one byte, 1) ‖ lp(service account) ‖ number of containers (one byte) ‖ for each, in ascending
/// order of the names' bytes: lp(name) ‖ image digest (32), with nothing after it. Nothing in it is believed before the
/// evidence is shown to sign it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedWorkload {
    service_account: String,
    images: BTreeMap<String, Digest>,
}

impl StatedWorkload {
    /// # Errors
    /// [`Unstatable`] when a name or the number of containers is out of bounds.
    pub fn new(service_account: String, images: BTreeMap<String, Digest>) -> Result<Self, Unstatable> {
        if !is_name(&service_account, SERVICE_ACCOUNT_BYTES_MAX) {
            return Err(Unstatable("name of the service account"));
        }
        if images.is_empty() || images.len() > CONTAINERS_MAX {
            return Err(Unstatable("number of containers"));
        }
        if !images.keys().all(|name| is_name(name, CONTAINER_NAME_BYTES_MAX)) {
            return Err(Unstatable("name of a container"));
        }
        Ok(Self { service_account, images })
    }

    #[must_use]
    pub fn service_account(&self) -> &str {
        &self.service_account
    }

    /// What every container of the pod runs, by its name: SHA-256 as the kubelet states it.
    #[must_use]
    pub const fn images(&self) -> &BTreeMap<String, Digest> {
        &self.images
    }

    /// The bytes that REPORT_DATA covers.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_prefixed(&mut out, self.service_account.as_bytes());
        // Bounded when it was made.
        out.push(u8::try_from(self.images.len()).unwrap_or(u8::MAX));
        for (name, digest) in &self.images {
            put_prefixed(&mut out, name.as_bytes());
            out.extend_from_slice(digest.as_bytes());
        }
        debug_assert_eq!(Self::decode(&out).as_ref(), Ok(self));
        out
    }

    /// Reads exactly one encoded statement.
    ///
    /// # Errors
    /// [`Rejection::Malformed`] for anything that [`Self::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, Rejection> {
        const MALFORMED: Rejection = Rejection::Malformed("statement of the workload");
        let (service_account, images) = Self::read(bytes).ok_or(MALFORMED)?;
        Self::new(service_account, images).map_err(|_| MALFORMED)
    }

    fn read(bytes: &[u8]) -> Option<(String, BTreeMap<String, Digest>)> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != VERSION {
            return None;
        }
        let service_account = text(reader.prefixed(SERVICE_ACCOUNT_BYTES_MAX)?)?;
        let containers = usize::from(reader.byte()?);
        if containers > CONTAINERS_MAX {
            return None;
        }
        let mut images = BTreeMap::new();
        for _ in 0..containers {
            let name = text(reader.prefixed(CONTAINER_NAME_BYTES_MAX)?)?;
            let digest = Digest::new(reader.array()?);
            // Strictly ascending: no container twice, and one encoding only.
            if images.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return None;
            }
            images.insert(name, digest);
        }
        reader.is_empty().then_some((service_account, images))
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// Whether Kubernetes could have given this name (RFC 1123: lower-case letters, digits, `-` and, in subdomains, `.`).
fn is_name(name: &str, most: usize) -> bool {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.len() <= most && name.bytes().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> StatedWorkload {
        let images =
            [("app", 1), ("sealane", 2)].map(|(name, digest)| (name.to_owned(), Digest::new([digest; 32])));
        StatedWorkload::new("embedder".to_owned(), images.into()).unwrap()
    }

    #[test]
    fn what_is_encoded_decodes() {
        assert_eq!(StatedWorkload::decode(&sample().encode()).unwrap(), sample());
    }

    #[test]
    fn one_encoding_only() {
        let bytes = sample().encode();
        for length in 0..bytes.len() {
            assert!(StatedWorkload::decode(&bytes[..length]).is_err(), "{length}");
        }
        assert!(StatedWorkload::decode(&[&bytes[..], &[0]].concat()).is_err());
        let mut other = bytes;
        other[0] = 2;
        assert!(StatedWorkload::decode(&other).is_err(), "another version");
    }

    #[test]
    fn containers_are_stated_once_and_in_order() {
        let encoded = |names: &[&str]| {
            let mut out = vec![VERSION];
            put_prefixed(&mut out, b"embedder");
            out.push(names.len() as u8);
            for name in names {
                put_prefixed(&mut out, name.as_bytes());
                out.extend_from_slice(&[7; 32]);
            }
            out
        };
        assert!(StatedWorkload::decode(&encoded(&["app", "sealane"])).is_ok());
        assert!(StatedWorkload::decode(&encoded(&["sealane", "app"])).is_err());
        assert!(StatedWorkload::decode(&encoded(&["app", "app"])).is_err());
    }

    #[test]
    fn names_and_numbers_are_bounded() {
        let images =
            |names: &[String]| names.iter().map(|name| (name.clone(), Digest::new([1; 32]))).collect();
        let many: Vec<_> = (0..=CONTAINERS_MAX).map(|number| format!("c{number}")).collect();
        assert!(StatedWorkload::new("a".to_owned(), images(&many)).is_err());
        let most = StatedWorkload::new("a".to_owned(), images(&many[1..])).unwrap();
        assert_eq!(StatedWorkload::decode(&most.encode()).unwrap(), most);
        assert!(StatedWorkload::new("a".to_owned(), BTreeMap::new()).is_err());
        for name in ["", "A", "a b", "ä", &"a".repeat(SERVICE_ACCOUNT_BYTES_MAX + 1)] {
            assert!(StatedWorkload::new(name.to_owned(), images(&["app".to_owned()])).is_err(), "{name}");
            assert!(StatedWorkload::new("a".to_owned(), images(&[name.to_owned()])).is_err(), "{name}");
        }
        // A length far beyond the bytes that are there is refused before anything is allocated for it.
        assert!(StatedWorkload::decode(&[1, 0xff, 0xff, 0xff, 0xff]).is_err());
    }
}

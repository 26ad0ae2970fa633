//! A pinned key in place of a platform.

use futures::future::{BoxFuture, FutureExt as _};
use sealane_attestation::{Format, KEY_PAYLOAD_TYPE, key_report};
use sealane_policy::SigningKey;

use super::ProviderInput;
use crate::evidence::provider::{Provider, ProviderError, Quote, QuoteRequest};

/// Signs what a platform would sign. It says who this is, and nothing of where it runs.
#[derive(Debug)]
pub(super) struct PinnedKey(SigningKey);

impl PinnedKey {
    /// Reads the key's file, whose problem is shown where the evidence is missed.
    pub(super) fn open(input: &ProviderInput) -> Result<Self, ProviderError> {
        const WHAT: &str = "the file of the pinned key: `keyFile` of the configuration, or Peer.spec.attestation.keySecretRef in a cluster";
        let file = input.key_file.as_ref().ok_or(ProviderError::MaterialMissing { what: WHAT })?;
        let key = file.read().map_err(|source| ProviderError::MaterialMalformed {
            what: "the file of the pinned key",
            source: Box::new(source),
        })?;
        tracing::info!(public_key = %key.public_key(), "evidence is the signature of a pinned key: there is no TEE");
        Ok(Self(key))
    }
}

impl Provider for PinnedKey {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        std::future::ready(Ok(Format::Key)).boxed()
    }

    /// One signature, some microseconds: nothing to wait for.
    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        let Self(key) = self;
        let signature = key.sign_as(KEY_PAYLOAD_TYPE, &request.report_data);
        let report = key_report(&key.public_key(), &request.report_data, &signature);
        std::future::ready(Ok(Quote { report, certificates: Vec::new(), workload: None })).boxed()
    }
}

#[cfg(test)]
mod tests {
    use sealane_attestation::{Collateral, Evidence, inspect};
    use sealane_types::{Digest, Platform, UnixSeconds};

    use super::*;

    #[tokio::test]
    async fn signs_what_it_is_asked_for_under_the_key_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        crate::evidence::key_file::create(&path).unwrap();
        let key_file = Some(crate::evidence::KeyFile::kept(path));
        let provider = PinnedKey::open(&ProviderInput { key_file, ..ProviderInput::default() }).unwrap();
        let request = QuoteRequest {
            report_data: [5; 64],
            tree_root: [6; 32],
            own_static: [7; 32],
            policy: Digest::new([8; 32]),
            trust: Digest::new([8; 32]),
            leaves: 1,
        };
        let Quote { report, certificates, .. } = provider.quote(request).await.unwrap();
        let format = provider.format().await.unwrap();
        assert_eq!(format.platform(), Platform::Key);
        let evidence = Evidence { format, report, certificates };
        let claims = inspect(&evidence, &Collateral::empty(), UnixSeconds(0)).unwrap();
        assert_eq!(claims.report_data(), Some(&[5; 64]));
    }

    #[test]
    fn without_a_file_there_is_no_key() {
        let missing = PinnedKey::open(&ProviderInput::default()).unwrap_err();
        assert!(missing.to_string().contains("keyFile"), "{missing}");
    }
}

//! What a simulated TDX platform is made of.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use sealane_types::Digest;
use serde::{Deserialize, Serialize};

use super::forge::{Authority, Recipe};
use super::processor::Processor;
use super::statements::hex;
use crate::error::SimulationError;
use crate::material::{Base64, SigningKey};

/// Largest JSON form that is read; what [`Material::to_json`] writes has about 12 KiB.
const JSON_BYTES_MAX: usize = 64 * 1024;

/// One simulated platform and the collateral for it, shared by all pods of an installation.
#[derive(Clone)]
pub struct Material {
    pub(super) processor: Processor,
    /// DER of platform, authority and root.
    pub(super) chain: [Vec<u8>; 3],
    pub(super) collateral: Collateral,
    pub(super) key: SigningKey,
}

/// What an issuer hands out beside the chain.
#[derive(Clone)]
pub(super) struct Collateral {
    pub(super) signer: Vec<u8>,
    pub(super) info: Vec<u8>,
    /// r ‖ s, like the other.
    pub(super) info_signature: Vec<u8>,
    pub(super) identity: Vec<u8>,
    pub(super) identity_signature: Vec<u8>,
    pub(super) root_list: Vec<u8>,
    pub(super) list: Vec<u8>,
}

impl Material {
    /// A new root with all below it, valid for two years from now. The keys of the issuers are dropped, so that the root
    /// certifies this platform and nothing else.
    ///
    /// # Errors
    /// [`SimulationError`] when the machine gives no randomness or no usable time.
    pub fn generate() -> Result<Self, SimulationError> {
        Authority::generate()?.issue(&Recipe::new()?)
    }

    /// SHA-256 of the root certificate: what a policy pins as `root`.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        let [_, _, root] = &self.chain;
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, root).as_ref());
        Digest::new(bytes)
    }

    #[must_use]
    pub const fn processor(&self) -> &Processor {
        &self.processor
    }

    /// DER of platform, authority and root.
    #[must_use]
    pub const fn chain(&self) -> &[Vec<u8>; 3] {
        &self.chain
    }

    /// What simulated evidence carries beside the quote: signer, TCB info and its signature, QE identity and its
    /// signature, the root's revocation list and the authority's.
    #[must_use]
    pub fn collateral(&self) -> Vec<Vec<u8>> {
        let Collateral { signer, info, info_signature, identity, identity_signature, root_list, list } =
            &self.collateral;
        [signer, info, info_signature, identity, identity_signature, root_list, list]
            .into_iter()
            .cloned()
            .collect()
    }

    /// The collateral in the JSON form of Intel's quote verification library.
    #[must_use]
    pub fn collateral_json(&self) -> String {
        let [_, authority, root] = &self.chain;
        let Collateral { signer, info, info_signature, identity, identity_signature, root_list, list } =
            &self.collateral;
        let signers = pem(&[signer, root]);
        serde_json::json!({
            "tcb_info": String::from_utf8_lossy(info),
            "tcb_info_signature": hex(info_signature),
            "tcb_info_issuer_chain": signers,
            "qe_identity": String::from_utf8_lossy(identity),
            "qe_identity_signature": hex(identity_signature),
            "qe_identity_issuer_chain": signers,
            "root_ca_crl": hex(root_list),
            "pck_crl": hex(list),
            "pck_crl_issuer_chain": pem(&[authority, root]),
        })
        .to_string()
    }

    /// The form in which an installation keeps it. It holds the private key, and still needs no protection.
    ///
    /// # Errors
    /// [`SimulationError::Material`] never happens for material that exists.
    pub fn to_json(&self) -> Result<String, SimulationError> {
        let kept = |bytes: &Vec<u8>| Base64(bytes.clone());
        Ok(serde_json::to_string_pretty(&Json {
            note: "A simulated TDX platform: it proves nothing, and its key is no secret.".to_owned(),
            processor: self.processor.clone(),
            chain: self.chain.each_ref().map(kept),
            collateral: self.collateral().iter().map(kept).collect(),
            key: Base64(self.key.0.clone()),
        })?)
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// [`SimulationError`] when `text` is anything else.
    pub fn from_json(text: &str) -> Result<Self, SimulationError> {
        if text.len() > JSON_BYTES_MAX {
            return Err(SimulationError::MaterialSize(JSON_BYTES_MAX));
        }
        let Json { processor, chain, collateral, key, .. } = serde_json::from_str(text)?;
        let collateral = collateral.into_iter().map(|bytes| bytes.0).collect::<Vec<_>>();
        let [signer, info, info_signature, identity, identity_signature, root_list, list] =
            collateral.try_into().map_err(|_| SimulationError::MaterialParts)?;
        Ok(Self {
            processor,
            chain: chain.map(|bytes| bytes.0),
            collateral: Collateral {
                signer,
                info,
                info_signature,
                identity,
                identity_signature,
                root_list,
                list,
            },
            key: SigningKey(key.0),
        })
    }
}

/// PEM of certificates, one after the other.
pub(super) fn pem(certificates: &[&Vec<u8>]) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let blocks = certificates.iter().map(|certificate| {
        let text = STANDARD.encode(certificate);
        let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n");
        format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
    });
    blocks.collect()
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material")
            .field("processor", &self.processor)
            .field("fingerprint", &self.fingerprint())
            .finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Json {
    /// For whoever finds the file.
    note: String,
    processor: Processor,
    chain: [Base64; 3],
    collateral: Vec<Base64>,
    key: Base64,
}

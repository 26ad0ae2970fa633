//! Collateral as its issuer hands it out, and as it lies in a file.

use serde::Deserialize;

use super::pem;
use crate::limits::TDX_COLLATERAL_BYTES_MAX;
use crate::piece::{Piece, SignedStatement};
use crate::rejection::Rejection;

/// Certificates and lists in DER, signatures as r ‖ s, statements as the exact text that was signed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Documents<'a> {
    pub(super) info: &'a [u8],
    pub(super) info_signature: &'a [u8],
    pub(super) info_signer: &'a [u8],
    pub(super) identity: &'a [u8],
    pub(super) identity_signature: &'a [u8],
    pub(super) identity_signer: &'a [u8],
    pub(super) root_list: &'a [u8],
    pub(super) list: &'a [u8],
}

/// The JSON form of Intel's quote verification library, once decoded.
pub(super) struct Stored {
    info: String,
    info_signature: Vec<u8>,
    info_chain: [Vec<u8>; 2],
    identity: String,
    identity_signature: Vec<u8>,
    identity_chain: [Vec<u8>; 2],
    root_list: Vec<u8>,
    list: Vec<u8>,
    list_chain: [Vec<u8>; 2],
}

/// Members beside these are passed over, `pck_certificate_chain` among them: a quote brings its own.
#[derive(Deserialize)]
struct Json {
    tcb_info: String,
    tcb_info_signature: String,
    tcb_info_issuer_chain: String,
    qe_identity: String,
    qe_identity_signature: String,
    qe_identity_issuer_chain: String,
    root_ca_crl: String,
    pck_crl: String,
    pck_crl_issuer_chain: String,
}

impl Stored {
    pub(super) fn read(text: &[u8]) -> Result<Self, Rejection> {
        const MALFORMED: Rejection = Rejection::CollateralMissing("the TDX collateral cannot be parsed");
        if text.len() > TDX_COLLATERAL_BYTES_MAX {
            return Err(Rejection::CollateralMissing("the TDX collateral is too large"));
        }
        let json: Json = serde_json::from_slice(text).map_err(|_| MALFORMED)?;
        json.read().ok_or(MALFORMED)
    }

    /// That each chain leads to `root`, byte for byte.
    pub(super) fn check_roots(&self, root: &[u8]) -> Result<(), Rejection> {
        let chains = [&self.info_chain, &self.identity_chain, &self.list_chain];
        if chains.iter().any(|[_, last]| last != root) {
            return Err(Rejection::CollateralMissing("the TDX collateral is under another root"));
        }
        Ok(())
    }

    /// The same, piece by piece.
    pub(super) fn into_pieces(self) -> Vec<Piece> {
        let Self { info, info_signature, info_chain, identity, identity_signature, .. } = self;
        let [info_signer, _] = info_chain;
        let [identity_signer, _] = self.identity_chain;
        let [authority, _] = self.list_chain;
        vec![
            Piece::TdxRootList(self.root_list),
            Piece::TdxList { list: self.list, authority },
            Piece::QeIdentity(SignedStatement {
                text: identity,
                signature: identity_signature,
                signer: identity_signer,
            }),
            Piece::TcbInfo(SignedStatement { text: info, signature: info_signature, signer: info_signer }),
        ]
    }

    pub(super) fn documents(&self) -> Documents<'_> {
        let [info_signer, _] = &self.info_chain;
        let [identity_signer, _] = &self.identity_chain;
        Documents {
            info: self.info.as_bytes(),
            info_signature: &self.info_signature,
            info_signer,
            identity: self.identity.as_bytes(),
            identity_signature: &self.identity_signature,
            identity_signer,
            root_list: &self.root_list,
            list: &self.list,
        }
    }
}

impl Json {
    fn read(self) -> Option<Stored> {
        Some(Stored {
            info_signature: hex::decode(&self.tcb_info_signature).ok()?,
            info_chain: pem::certificates(self.tcb_info_issuer_chain.as_bytes())?,
            identity_signature: hex::decode(&self.qe_identity_signature).ok()?,
            identity_chain: pem::certificates(self.qe_identity_issuer_chain.as_bytes())?,
            root_list: hex::decode(&self.root_ca_crl).ok()?,
            list: hex::decode(&self.pck_crl).ok()?,
            list_chain: pem::certificates(self.pck_crl_issuer_chain.as_bytes())?,
            info: self.tcb_info,
            identity: self.qe_identity,
        })
    }
}

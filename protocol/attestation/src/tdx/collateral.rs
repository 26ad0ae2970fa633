//! What quotes of one family of platforms are judged by: Intel's statements and revocation lists.

use std::fmt;
use std::sync::Arc;

use sealane_types::{CrlIssuer, Digest, Fmspc, UnixSeconds};

use super::chain::{self, RevocationList};
use super::documents::{Documents, Stored};
use super::enclave::signed;
use super::identity::QeIdentity;
use super::names::{self, Role};
use super::root::TdxRoot;
use super::statement::Dates;
use super::tcb_info::TcbInfo;
use crate::as_of::AsOf;
use crate::limits::{CERTIFICATE_BYTES_MAX, STATEMENT_BYTES_MAX};
use crate::naming::Naming;
use crate::piece::{ListHead, Term};
use crate::rejection::Rejection;

/// TCB info, QE identity and revocation lists for the platforms of one FMSPC, under one root.
///
/// Invariant: Intel's statements in it are signed by a key that the root certified and did not revoke. Whether they hold
/// at a given moment is asked each time. The revocation lists are verified with the chain that they are used on.
#[derive(Clone)]
pub struct TdxCollateral(Arc<Verified>);

struct Verified {
    root: TdxRoot,
    info: TcbInfo,
    identity: QeIdentity,
    root_list: RevocationList,
    list: RevocationList,
    dated: Vec<(Part, Dates)>,
}

/// The parts of which each has dates of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Root,
    Signer,
    TcbInfo,
    QeIdentity,
    RootList,
    PlatformList,
}

impl TdxCollateral {
    /// Reads collateral in the JSON form of Intel's quote verification library (`pck_crl`, `root_ca_crl` and signatures in
    /// hex, chains in PEM, statements as the exact text that was signed), under Intel's own root.
    ///
    /// A `pck_certificate_chain` in it is passed over: which platform signed a quote is for the quote to say.
    ///
    /// # Errors
    /// [`Rejection`] when a part is missing, too large, malformed, or not signed under the root.
    pub fn from_json(text: &[u8]) -> Result<Self, Rejection> {
        Self::from_json_under(text, &TdxRoot::intel())
    }

    /// As [`Self::from_json`], under a root that the caller vouches for.
    ///
    /// # Errors
    /// As [`Self::from_json`].
    pub fn from_json_under(text: &[u8], root: &TdxRoot) -> Result<Self, Rejection> {
        let stored = Stored::read(text)?;
        stored.check_roots(root.der())?;
        Self::verify(&stored.documents(), root)
    }

    pub(super) fn verify(documents: &Documents<'_>, root: &TdxRoot) -> Result<Self, Rejection> {
        let Documents { info, info_signature, info_signer, identity, .. } = *documents;
        let Documents { identity_signature, identity_signer, root_list, list, .. } = *documents;
        if info.len() > STATEMENT_BYTES_MAX || identity.len() > STATEMENT_BYTES_MAX {
            return Err(Rejection::CollateralMissing("the TCB info or QE identity is too large"));
        }
        let parsed_info = TcbInfo::parse(info)?;
        let parsed_identity = QeIdentity::parse(identity)?;
        let [root_list, list] = [RevocationList::parse(root_list)?, RevocationList::parse(list)?];
        let root_certificate = root.certificate()?;
        if root_list.revokes(&root_certificate) {
            return Err(Rejection::Revoked("Intel's root"));
        }
        let mut dated = vec![
            (Part::Root, chain::dates(&root_certificate)),
            (Part::TcbInfo, parsed_info.dates),
            (Part::QeIdentity, parsed_identity.dates),
            (Part::RootList, root_list.dates),
            (Part::PlatformList, list.dates),
        ];
        let signer = |certificate| Signer::verify(certificate, root, &root_list);
        let info_by = signer(info_signer)?;
        // Intel signs both with one key.
        let identity_by = if identity_signer == info_signer { info_by } else { signer(identity_signer)? };
        for (by, statement, signature) in
            [(info_by, info, info_signature), (identity_by, identity, identity_signature)]
        {
            signed(&by.key, statement, signature)
                .ok_or(Rejection::Untrusted("the signature of the TCB info or QE identity"))?;
            dated.push((Part::Signer, by.dates));
        }
        let (info, identity) = (parsed_info, parsed_identity);
        Ok(Self(Arc::new(Verified { root: root.clone(), info, identity, root_list, list, dated })))
    }

    /// The family of platforms that this is for.
    #[must_use]
    pub fn fmspc(&self) -> Fmspc {
        self.0.info.fmspc
    }

    /// SHA-256 of the root certificate.
    #[must_use]
    pub fn root(&self) -> &Digest {
        self.0.root.fingerprint()
    }

    /// The lower tcbEvaluationDataNumber of its statements.
    #[must_use]
    pub fn tcb_evaluation(&self) -> u32 {
        self.0.info.evaluation.min(self.0.identity.evaluation)
    }

    /// When the first of its parts expires.
    #[must_use]
    pub fn expires(&self) -> UnixSeconds {
        self.certificates_expire().min(self.statements_term().until)
    }

    /// When the first certificate above its statements expires.
    pub(super) fn certificates_expire(&self) -> UnixSeconds {
        self.end(Part::is_certificate)
    }

    /// When the oldest statement or list was issued, and when the first expires.
    pub(super) fn statements_term(&self) -> Term {
        let dated = self.0.dated.iter().filter(|(part, _)| !part.is_certificate());
        let from = dated.map(|(_, dates)| dates.from).min().unwrap_or(UnixSeconds(0));
        Term { from, until: self.end(|part| !part.is_certificate()) }
    }

    /// Its revocation lists, by issuer.
    pub(super) fn list_heads(&self) -> Vec<(CrlIssuer, ListHead)> {
        let Verified { root_list, list, .. } = &*self.0;
        let authority = names::authority(&list.issuer).map(|authority| (authority.into(), list.head()));
        [(CrlIssuer::IntelRoot, root_list.head())].into_iter().chain(authority).collect()
    }

    fn end(&self, counts: impl Fn(Part) -> bool) -> UnixSeconds {
        let dated = self.0.dated.iter().filter(|(part, _)| counts(*part));
        dated.map(|(_, dates)| dates.until).min().unwrap_or(UnixSeconds(0))
    }

    /// Whether evidence of the platforms of `other` is judged by this as well.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        self.fmspc() == other.fmspc()
            && self.0.info.pce_id == other.0.info.pce_id
            && self.root() == other.root()
            && self.0.list.issuer == other.0.list.issuer
    }

    /// That every part holds.
    pub(super) fn check_dates(&self, as_of: AsOf) -> Result<(), Rejection> {
        let now = as_of.now;
        for (part, dates) in &self.0.dated {
            if now < dates.from {
                return Err(Rejection::CollateralExpired(part.not_yet_valid()));
            }
            let until = if part.is_certificate() { dates.until } else { as_of.lasting(dates.until) };
            if now > until {
                return Err(Rejection::CollateralExpired(part.expired()));
            }
        }
        Ok(())
    }

    pub(super) fn info(&self) -> &TcbInfo {
        &self.0.info
    }

    pub(super) fn identity(&self) -> &QeIdentity {
        &self.0.identity
    }

    /// How certificates under its root are named.
    pub(super) fn naming(&self) -> Naming {
        self.0.root.naming()
    }

    pub(super) fn root_certificate(&self) -> &[u8] {
        self.0.root.der()
    }

    /// The root's list and the platforms'.
    pub(super) fn lists(&self) -> [&RevocationList; 2] {
        [&self.0.root_list, &self.0.list]
    }
}

/// A key that signs statements, and the dates of its certificate.
#[derive(Clone, Copy)]
struct Signer {
    key: [u8; 65],
    dates: Dates,
}

impl Signer {
    fn verify(certificate: &[u8], root: &TdxRoot, list: &RevocationList) -> Result<Self, Rejection> {
        const NAME: &str = "the signer of Intel's collateral";
        if certificate.len() > CERTIFICATE_BYTES_MAX {
            return Err(Rejection::CollateralMissing("a certificate of the collateral is too large"));
        }
        let parsed = chain::parse(certificate)
            .ok_or(Rejection::CollateralMissing("a certificate of the collateral cannot be parsed"))?;
        names::check(&parsed, Role::Signer, root.naming())?;
        let dates = chain::dates(&parsed);
        // Signatures do not change with time, and dates are held against the clock at each use: here they only must have
        // held together once.
        let once = dates.from.max(list.dates.from);
        let key = chain::verify(certificate, None, root.der(), &[list], once, NAME)?;
        Ok(Self { key, dates })
    }
}

impl Part {
    const fn is_certificate(self) -> bool {
        matches!(self, Self::Root | Self::Signer)
    }

    const fn expired(self) -> &'static str {
        match self {
            Self::Root => "Intel's root",
            Self::Signer => "the signer's certificate",
            Self::TcbInfo => "the TCB info",
            Self::QeIdentity => "the QE identity",
            Self::RootList => "the root's revocation list",
            Self::PlatformList => "the revocation list of platforms",
        }
    }

    const fn not_yet_valid(self) -> &'static str {
        match self {
            Self::Root => "Intel's root is from the future",
            Self::Signer => "the signer's certificate is from the future",
            Self::TcbInfo => "the TCB info is from the future",
            Self::QeIdentity => "the QE identity is from the future",
            Self::RootList => "the root's revocation list is from the future",
            Self::PlatformList => "the revocation list of platforms is from the future",
        }
    }
}

impl fmt::Debug for TdxCollateral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TdxCollateral")
            .field("fmspc", &self.fmspc())
            .field("root", self.root())
            .field("tcb_evaluation", &self.tcb_evaluation())
            .field("expires", &self.expires())
            .finish()
    }
}

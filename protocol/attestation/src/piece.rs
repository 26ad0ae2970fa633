//! Pieces of collateral: what vendors hand out one by one, each signed and dated by itself.

use std::fmt;

use sealane_policy::CollateralRules;
use sealane_types::{ChipId, CrlIssuer, Fmspc, Product, UnixSeconds};

use crate::claims::Tcb;

/// One revocation list, statement or certificate, in the bytes that its vendor signed.
#[derive(Clone, PartialEq, Eq)]
pub enum Piece {
    /// The revocation list of an AMD root, in DER.
    SnpList(Vec<u8>),
    /// The certificate of a chip's signing key, in DER.
    Vcek(Vec<u8>),
    TcbInfo(SignedStatement),
    QeIdentity(SignedStatement),
    /// The revocation list of Intel's root, in DER.
    TdxRootList(Vec<u8>),
    /// The revocation list of an authority over platforms, and the authority's certificate, in DER.
    TdxList {
        list: Vec<u8>,
        authority: Vec<u8>,
    },
}

/// TCB info or QE identity.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedStatement {
    /// The exact text that was signed.
    pub text: String,
    /// r ‖ s on P-256.
    pub signature: Vec<u8>,
    /// DER of the certificate of the key that signed it.
    pub signer: Vec<u8>,
}

/// Which piece of collateral something is. Of one name, a newer piece takes the place of an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PieceId {
    SnpList(Product),
    Vcek(VcekId),
    TcbInfo(Fmspc),
    QeIdentity,
    TdxRootList,
    TdxList(PckAuthority),
}

/// The key of one chip at one level of its firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VcekId {
    pub product: Product,
    pub chip: ChipId,
    pub tcb: Tcb,
}

/// Who certifies Intel's platforms: those with one package, or those with several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PckAuthority {
    Processor,
    Platform,
}

impl PckAuthority {
    pub const ALL: [Self; 2] = [Self::Processor, Self::Platform];
}

impl From<PckAuthority> for CrlIssuer {
    fn from(authority: PckAuthority) -> Self {
        match authority {
            PckAuthority::Processor => Self::IntelProcessor,
            PckAuthority::Platform => Self::IntelPlatform,
        }
    }
}

/// From when until when a piece is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    pub from: UnixSeconds,
    pub until: UnixSeconds,
}

/// What a revocation list says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListHead {
    pub(crate) term: Term,
    /// Among the lists of its issuer (RFC 5280 §5.2.3).
    pub(crate) number: Option<u64>,
}

/// A piece whose signature was verified under the pinned roots, and what it says of itself. Whether it holds at a given
/// moment is asked when it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPiece {
    pub(crate) id: PieceId,
    pub(crate) term: Term,
    pub(crate) evaluation: Option<u32>,
    pub(crate) crl_number: Option<u64>,
    pub(crate) piece: Piece,
}

impl VerifiedPiece {
    #[must_use]
    pub const fn id(&self) -> PieceId {
        self.id
    }

    #[must_use]
    pub const fn term(&self) -> Term {
        self.term
    }

    /// The tcbEvaluationDataNumber of a statement of Intel's.
    #[must_use]
    pub const fn evaluation(&self) -> Option<u32> {
        self.evaluation
    }

    /// The number of a revocation list among those of its issuer (RFC 5280 §5.2.3).
    #[must_use]
    pub const fn crl_number(&self) -> Option<u64> {
        self.crl_number
    }

    /// Whether a verdict under `rules` may rest on it at `now`. Revocations and signers are not looked at.
    #[must_use]
    pub fn counts(&self, rules: &CollateralRules, now: UnixSeconds) -> bool {
        let Term { from, until } = self.term;
        let new_enough = match self.id {
            PieceId::SnpList(product) => self.list_counts(product.into(), rules),
            PieceId::TdxRootList => self.list_counts(CrlIssuer::IntelRoot, rules),
            PieceId::TdxList(authority) => self.list_counts(authority.into(), rules),
            PieceId::TcbInfo(_) | PieceId::QeIdentity => {
                self.evaluation.is_none_or(|found| rules.permits_evaluation(found))
            }
            // A certificate holds for as long as it says.
            PieceId::Vcek(_) => return now < until,
        };
        new_enough && now < rules.end(from, until)
    }

    fn list_counts(&self, issuer: CrlIssuer, rules: &CollateralRules) -> bool {
        rules.permits_number(issuer, self.crl_number) && rules.permits_issue(issuer, self.term.from)
    }

    #[must_use]
    pub const fn piece(&self) -> &Piece {
        &self.piece
    }
}

impl fmt::Display for PieceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SnpList(product) => write!(f, "the revocation list of AMD's {product} root"),
            Self::Vcek(VcekId { product, chip, tcb }) => {
                let [a, b, c, d, ..] = chip.as_bytes();
                write!(f, "the VCEK of {product} chip {a:02x}{b:02x}{c:02x}{d:02x}… at {tcb}")
            }
            Self::TcbInfo(fmspc) => write!(f, "the TCB info of FMSPC {fmspc}"),
            Self::QeIdentity => f.write_str("the identity of Intel's TDX quoting enclave"),
            Self::TdxRootList => f.write_str("the revocation list of Intel's root"),
            Self::TdxList(authority) => write!(f, "the revocation list of Intel's {authority} authority"),
        }
    }
}

impl fmt::Display for PckAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processor => "Processor",
            Self::Platform => "Platform",
        })
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, bytes) = match self {
            Self::SnpList(list) => ("SnpList", list.len()),
            Self::Vcek(certificate) => ("Vcek", certificate.len()),
            Self::TcbInfo(statement) => ("TcbInfo", statement.text.len()),
            Self::QeIdentity(statement) => ("QeIdentity", statement.text.len()),
            Self::TdxRootList(list) => ("TdxRootList", list.len()),
            Self::TdxList { list, .. } => ("TdxList", list.len()),
        };
        write!(f, "{name}({bytes} bytes)")
    }
}

impl fmt::Debug for SignedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedStatement({} bytes)", self.text.len())
    }
}

//! Evidence in, verdict out: what a platform's bytes say once verified, and whether a policy accepts it.
//!
//! Three steps, each of which yields something the next cannot be had without:
//!
//! 1. [`Expected::bind`] recomputes the REPORT_DATA that honest evidence for *this* handshake must carry;
//! 2. [`inspect_under`] verifies signatures, certificate chains, dates and layout, and yields [`Claims`]; [`inspect`]
//!    does so where no policy grants collateral a grace;
//! 3. [`appraise`] holds both against a verified policy and yields a [`VerifiedPeer`].
//!
//! [`judge`] does all three on a received [`EvidenceMessage`], [`judge_with`] at less cost where it meets chains of
//! certificates that it verified before ([`ChainCache`]); [`rejudge`] repeats the last one when a new
//! policy epoch arrives, [`rejudge_with`] the last two when other collateral does.
//!
//! Invariant: a [`VerifiedPeer`] exists only if genuine, fresh, bound evidence satisfied an entry of a
//! quorum-signed policy. Everything fails closed, nothing panics on hostile bytes, and every allocation is
//! bounded by a constant in [`limits`] first.
//!
//! What vendors publish comes in pieces ([`Piece`]): [`VendorRoots`] verifies who signed each, [`Stock`] holds the newest
//! of each name and puts them together, and [`bundle`] carries them to where there is no network.
//!
//! Deliberately absent: I/O, clocks, tasks, HTTP, and any way to produce evidence.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)
)]

mod appraise;
mod as_of;
mod aspect;
pub mod binding;
pub mod bundle;
mod claims;
mod codec;
mod collateral;
mod der;
mod evidence;
mod expected;
mod forms;
mod initdata;
mod inspect;
mod key;
pub mod limits;
mod message;
mod naming;
mod nitro;
mod p384;
mod piece;
mod rejection;
mod seen;
mod snp;
mod stock;
mod tdx;
mod trust;
mod workload;

pub use appraise::{
    Degradation, Finding, VerifiedPeer, appraise, inspect_under, judge, judge_with, rejudge, rejudge_with,
    review, shortfall,
};
pub use aspect::Aspect;
pub use claims::{
    Claims, FirmwareVersions, GuestIdentity, KeyClaims, Mitigations, NitroClaims, Permission, Revocation,
    SnpClaims, Statement, Tcb, TcbVersions, TdxClaims,
};
pub use collateral::{Anchor, AnchorError, Collateral};
pub use evidence::{Evidence, Format};
pub use expected::{Binding, Expected};
pub use initdata::measures_initdata;
pub use inspect::{inspect, inspect_with};
pub use key::{KEY_PAYLOAD_TYPE, key_report};
pub use message::EvidenceMessage;
pub use piece::{PckAuthority, Piece, PieceId, SignedStatement, Term, VcekId, VerifiedPiece};
pub use rejection::{Rejection, TcbVersion};
pub use snp::{ChainCache, vcek_ids};
pub use stock::{Adoption, RecordError, Stock, Taken, VendorRoots};
pub use tdx::{TdxCollateral, TdxRoot};
pub use trust::{InvalidTrustConfiguration, TrustConfiguration};
pub use workload::{StatedWorkload, Unstatable};

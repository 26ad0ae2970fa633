//! Collateral that a verifier holds, piece by piece: who may vouch for pieces, and which of two is kept.
//!
//! Invariant: every held piece was verified under the pinned roots, and none ever gives way to an older one of its name.
//! Whether a piece holds is asked at each use; what is over is kept until something newer comes, because owners may sign a
//! grace.

mod record;

use std::sync::Arc;

use sealane_types::UnixSeconds;

use crate::bundle::{BundleError, VerifiedBundle};
use crate::collateral::Collateral;
use crate::evidence::{Evidence, Format};
use crate::limits::{BUNDLE_AHEAD_SECONDS_MAX, FAMILIES_MAX, VCEKS_MAX};
use crate::piece::{ListHead, PckAuthority, Piece, PieceId, VerifiedPiece};
use crate::rejection::Rejection;
use crate::snp;
use crate::tdx::{self, TdxRoot};
use record::{AdoptedBundle, Record};

pub use record::RecordError;

/// The roots of the vendors, under which pieces are verified.
#[derive(Debug, Clone)]
pub struct VendorRoots(Arc<Roots>);

#[derive(Debug)]
struct Roots {
    collateral: Collateral,
    tdx: TdxRoot,
}

impl VendorRoots {
    /// Those that this crate pins.
    #[must_use]
    pub fn pinned() -> Self {
        Self::new(Collateral::builtin(), TdxRoot::intel())
    }

    /// Roots that the caller vouches for: those of `collateral` for SEV-SNP and Nitro, and `tdx`.
    #[must_use]
    pub fn new(collateral: Collateral, tdx: TdxRoot) -> Self {
        Self(Arc::new(Roots { collateral, tdx }))
    }

    /// The same roots, beside which simulated evidence is inspected rather than refused
    /// ([`Collateral::allowing_simulated`]).
    #[must_use]
    pub fn allowing_simulated(&self) -> Self {
        let Roots { collateral, tdx } = &*self.0;
        Self::new(collateral.clone().allowing_simulated(), tdx.clone())
    }

    /// Verifies who signed `piece`, and reads what it is.
    ///
    /// # Errors
    /// [`Rejection`] when it is malformed, too large, or not signed under these roots.
    pub fn verify(&self, piece: Piece, now: UnixSeconds) -> Result<VerifiedPiece, Rejection> {
        let Roots { collateral, tdx } = &*self.0;
        let dated =
            |id, term| VerifiedPiece { id, term, evaluation: None, crl_number: None, piece: piece.clone() };
        let list = |id, head: ListHead| VerifiedPiece { crl_number: head.number, ..dated(id, head.term) };
        let statement = |id, term, number| VerifiedPiece { evaluation: Some(number), ..dated(id, term) };
        Ok(match &piece {
            Piece::SnpList(der) => {
                let (product, head) = snp::piece::verify_list(der, collateral.anchors())?;
                list(PieceId::SnpList(product), head)
            }
            Piece::Vcek(certificate) => {
                let (id, term) = snp::piece::verify_vcek(certificate, collateral.anchors(), now)?;
                dated(PieceId::Vcek(id), term)
            }
            Piece::TcbInfo(signed) => {
                let (fmspc, number, term) = tdx::piece::verify_tcb_info(signed, tdx)?;
                statement(PieceId::TcbInfo(fmspc), term, number)
            }
            Piece::QeIdentity(signed) => {
                let (number, term) = tdx::piece::verify_identity(signed, tdx)?;
                statement(PieceId::QeIdentity, term, number)
            }
            Piece::TdxRootList(der) => list(PieceId::TdxRootList, tdx::piece::verify_root_list(der, tdx)?),
            Piece::TdxList { list: der, authority } => {
                let (authority, head) = tdx::piece::verify_authority_list(der, authority, tdx)?;
                list(PieceId::TdxList(authority), head)
            }
        })
    }

    /// The pieces that a verdict on `evidence` rests on, beside roots. Nothing for evidence that leads to no root: it is
    /// a stranger's word.
    #[must_use]
    pub fn needs(&self, evidence: &Evidence) -> Vec<PieceId> {
        match evidence.format {
            Format::SevSnp => {
                let issuer = evidence.certificates.first().and_then(|signer| snp::piece::issuer_of(signer));
                issuer.map(PieceId::SnpList).into_iter().collect()
            }
            Format::Tdx => match tdx::piece::platform_of(&evidence.report, &self.0.tdx) {
                Some((fmspc, authority)) => vec![
                    PieceId::TdxRootList,
                    PieceId::TdxList(authority),
                    PieceId::QeIdentity,
                    PieceId::TcbInfo(fmspc),
                ],
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

/// What became of a piece that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is held from now on, in the place of an older one if there was one.
    New,
    /// It is the one that is held.
    Known,
    /// What is held is newer.
    Older,
}

/// What became of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adoption {
    /// Pieces that are held now and were not before.
    pub new: usize,
    /// Whether what is held differs from before.
    pub changed: bool,
    /// Pieces that are not kept, by their place in the bundle.
    pub refused: Vec<(usize, Rejection)>,
}

/// The newest verified piece of each name, and the newest bundle that was adopted.
#[derive(Debug, Clone)]
pub struct Stock {
    roots: VendorRoots,
    held: Vec<VerifiedPiece>,
    bundle: Option<AdoptedBundle>,
}

impl Stock {
    /// Holds nothing.
    #[must_use]
    pub const fn new(roots: VendorRoots) -> Self {
        Self { roots, held: Vec::new(), bundle: None }
    }

    #[must_use]
    pub const fn roots(&self) -> &VendorRoots {
        &self.roots
    }

    #[must_use]
    pub fn pieces(&self) -> &[VerifiedPiece] {
        &self.held
    }

    #[must_use]
    pub fn find(&self, id: &PieceId) -> Option<&VerifiedPiece> {
        self.held.iter().find(|held| held.id == *id)
    }

    /// When the bundle that was adopted last was issued.
    #[must_use]
    pub fn bundle_issued(&self) -> Option<UnixSeconds> {
        self.bundle.map(|bundle| bundle.issued)
    }

    /// Keeps `piece` unless something newer of its name is held. Statements by a signer of Intel's that its root's list
    /// revokes are neither taken nor kept: they would hold the place of those by another.
    ///
    /// # Errors
    /// [`Rejection`] when its tcbEvaluationDataNumber is below the floor of the bundle, its signer is revoked, or there is
    /// no place for more.
    pub fn take(&mut self, piece: VerifiedPiece, now: UnixSeconds) -> Result<Taken, Rejection> {
        if let Some(found) = piece.evaluation.filter(|found| *found < self.evaluation_floor()) {
            return Err(Rejection::TcbEvaluation { found });
        }
        if self.root_list().is_some_and(|list| tdx::piece::is_revoked(&piece.piece, list)) {
            return Err(Rejection::Revoked("the signer of Intel's collateral"));
        }
        let revokes = piece.id == PieceId::TdxRootList;
        if let Some(held) = self.held.iter_mut().find(|held| held.id == piece.id) {
            if held.piece == piece.piece {
                return Ok(Taken::Known);
            }
            if !supersedes(&piece, held, now) {
                return Ok(Taken::Older);
            }
            *held = piece;
        } else {
            self.make_room(&piece.id)?;
            self.held.push(piece);
        }
        if let Some(list) = self.root_list().filter(|_| revokes).map(<[u8]>::to_vec) {
            self.held.retain(|held| !tdx::piece::is_revoked(&held.piece, &list));
        }
        Ok(Taken::New)
    }

    /// Takes every piece of `bundle`, and its floor. A piece that is not in order is left out: the rest is no worse for
    /// it, and what is missing fails closed.
    ///
    /// # Errors
    /// [`BundleError::RolledBack`] and [`BundleError::Conflict`]; what is held stays.
    pub fn adopt(&mut self, bundle: &VerifiedBundle, now: UnixSeconds) -> Result<Adoption, BundleError> {
        let (issued, digest) = (bundle.bundle().issued, *bundle.digest());
        match self.bundle {
            Some(AdoptedBundle { issued: held, .. }) if issued < held => {
                return Err(BundleError::RolledBack { issued, held });
            }
            Some(held) if issued == held.issued && digest != held.digest => {
                return Err(BundleError::Conflict { issued });
            }
            _ => {}
        }
        let floor = bundle.bundle().min_tcb_evaluation.unwrap_or(0);
        self.bundle = Some(AdoptedBundle { issued, digest, min_tcb_evaluation: floor });
        let before = self.held.len();
        self.held.retain(|held| held.evaluation.is_none_or(|evaluation| evaluation >= floor));
        let fell = self.held.len() != before;
        let adoption = self.take_all(bundle.bundle().pieces.iter().cloned(), now);
        Ok(Adoption { changed: adoption.changed || fell, ..adoption })
    }

    /// Takes those that are in order.
    fn take_all(&mut self, pieces: impl IntoIterator<Item = Piece>, now: UnixSeconds) -> Adoption {
        let mut adoption = Adoption::default();
        for (place, piece) in pieces.into_iter().enumerate() {
            let verified = self.roots.verify(piece, now);
            match verified.and_then(|piece| self.take(piece, now)) {
                Ok(Taken::New) => adoption.new = adoption.new.saturating_add(1),
                Ok(Taken::Known | Taken::Older) => {}
                Err(rejection) => adoption.refused.push((place, rejection)),
            }
        }
        adoption.changed = adoption.new > 0;
        adoption
    }

    /// What the newest bundle says of statements that are too old.
    fn evaluation_floor(&self) -> u32 {
        self.bundle.map_or(0, |bundle| bundle.min_tcb_evaluation)
    }

    /// What is held, for [`Self::restore`] in a later process. Certificates of chips are left out: they do not grow old, and
    /// are to be had again.
    #[must_use]
    pub fn record(&self) -> Vec<u8> {
        let dated = self.held.iter().filter(|held| !matches!(held.id, PieceId::Vcek(_)));
        Record::new(self.bundle, dated.map(|held| &held.piece)).to_bytes()
    }

    /// Takes what `record` holds, so that nothing older follows what an earlier process saw. A bundle that this clock says is
    /// still to be issued is passed over: it would keep out all others.
    ///
    /// # Errors
    /// [`RecordError`]; what is held stays.
    pub fn restore(&mut self, record: &[u8], now: UnixSeconds) -> Result<Adoption, RecordError> {
        let record = Record::from_bytes(record)?;
        let pieces = record.pieces()?;
        let adoption = self.take_all(pieces, now);
        // A clock that was turned back before a restart is behind what vendors dated.
        let dated = self.held.iter().map(|held| held.term.from).max();
        let now = dated.map_or(now, |dated| dated.max(now));
        let newer = |seen: &AdoptedBundle| {
            seen.issued <= now.plus(BUNDLE_AHEAD_SECONDS_MAX)
                && self.bundle.is_none_or(|held| held.issued < seen.issued)
        };
        if let Some(seen) = record.bundle.filter(newer) {
            self.bundle = Some(seen);
        }
        Ok(adoption)
    }

    /// The certificate (DER) of the key that signed an SEV-SNP report, if it is held.
    #[must_use]
    pub fn vcek(&self, report: &[u8]) -> Option<&[u8]> {
        let ids = snp::vcek_ids(report);
        self.held.iter().find_map(|held| match (&held.id, &held.piece) {
            (PieceId::Vcek(id), Piece::Vcek(certificate)) if ids.contains(id) => Some(certificate.as_slice()),
            _ => None,
        })
    }

    /// What evidence is judged by, put together from all pieces; and why some of them could not be.
    #[must_use]
    pub fn assemble(&self, edition: u64) -> (Collateral, Vec<Rejection>) {
        let Roots { collateral, tdx } = &*self.roots.0;
        let mut assembled = collateral.clone().with_edition(edition);
        let mut problems = Vec::new();
        for anchor in collateral.anchors() {
            if let Some(Piece::SnpList(list)) = self.piece(&PieceId::SnpList(anchor.product())) {
                match anchor.clone().with_revocation_list(list) {
                    Ok(anchor) => assembled = assembled.with_anchor(anchor),
                    // No list that was verified is too large.
                    Err(_) => problems.push(Rejection::CollateralMissing("the revocation list is too large")),
                }
            }
        }
        let (Some(root_list), Some(Piece::QeIdentity(identity))) =
            (self.root_list(), self.piece(&PieceId::QeIdentity))
        else {
            return (assembled, problems);
        };
        for authority in PckAuthority::ALL {
            let Some(Piece::TdxList { list, .. }) = self.piece(&PieceId::TdxList(authority)) else {
                continue;
            };
            for info in self.held.iter().filter_map(|held| match &held.piece {
                Piece::TcbInfo(info) => Some(info),
                _ => None,
            }) {
                match tdx::piece::assemble(info, identity, root_list, list, tdx) {
                    Ok(family) => assembled = assembled.with_tdx(family),
                    Err(rejection) => problems.push(rejection),
                }
            }
        }
        (assembled, problems)
    }

    fn piece(&self, id: &PieceId) -> Option<&Piece> {
        self.find(id).map(|held| &held.piece)
    }

    /// The list of Intel's root, in DER.
    fn root_list(&self) -> Option<&[u8]> {
        match self.piece(&PieceId::TdxRootList) {
            Some(Piece::TdxRootList(list)) => Some(list),
            _ => None,
        }
    }

    /// Of chips, which come and go with machines and firmware, the one that is held for longest gives way.
    fn make_room(&mut self, id: &PieceId) -> Result<(), Rejection> {
        let is_chip = |held: &VerifiedPiece| matches!(held.id, PieceId::Vcek(_));
        let is_family = |held: &VerifiedPiece| matches!(held.id, PieceId::TcbInfo(_));
        let count = |kind: fn(&VerifiedPiece) -> bool| self.held.iter().filter(|held| kind(held)).count();
        match id {
            PieceId::Vcek(_) if count(is_chip) >= VCEKS_MAX => {
                if let Some(oldest) = self.held.iter().position(is_chip) {
                    self.held.remove(oldest);
                }
                Ok(())
            }
            PieceId::TcbInfo(_) if count(is_family) >= FAMILIES_MAX => {
                Err(Rejection::CollateralMissing("there is no place for more processor families"))
            }
            // As many as there are words for.
            _ => Ok(()),
        }
    }
}

/// Whether `new` takes the place of `held`. Vendors number their lists, and the higher number counts. Intel publishes two
/// series of statements at a time, of which the early one has the higher tcbEvaluationDataNumber: that one is kept for as
/// long as it holds. What is over never takes the place of what is not.
fn supersedes(new: &VerifiedPiece, held: &VerifiedPiece, now: UnixSeconds) -> bool {
    if new.term.until < now && held.term.until >= now {
        return false;
    }
    let order = |piece: &VerifiedPiece| (piece.evaluation, piece.crl_number, piece.term.from);
    let over = held.term.until < now && new.term.from > held.term.from && new.term.until > held.term.until;
    order(new) > order(held) || over
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::Term;

    const NOW: UnixSeconds = UnixSeconds(100);

    fn piece((evaluation, from, until): (u32, u64, u64)) -> VerifiedPiece {
        VerifiedPiece {
            id: PieceId::QeIdentity,
            term: Term { from: UnixSeconds(from), until: UnixSeconds(until) },
            evaluation: Some(evaluation),
            crl_number: None,
            piece: Piece::TdxRootList(vec![]),
        }
    }

    #[test]
    fn the_higher_number_counts_first_and_then_the_later_date() {
        for (new, held, expected) in [
            ((1, 50, 200), (1, 40, 200), true),
            ((1, 40, 300), (1, 40, 200), false),
            ((2, 30, 200), (1, 40, 200), true),
            ((0, 50, 300), (1, 40, 200), false),
            ((0, 30, 300), (1, 40, 200), false),
            // What is over gives way to what is later at both ends, and nothing does to what is over.
            ((0, 50, 200), (1, 40, 99), true),
            ((0, 50, 200), (1, 40, 100), false),
            ((0, 40, 200), (1, 40, 90), false),
            ((0, 50, 90), (1, 40, 90), false),
            ((0, 50, 91), (1, 40, 90), true),
            ((1, 50, 100), (1, 40, 200), true),
            ((1, 50, 99), (1, 40, 100), false),
            ((2, 50, 99), (1, 40, 99), true),
        ] {
            assert_eq!(supersedes(&piece(new), &piece(held), NOW), expected, "{new:?} for {held:?}");
            // The numbers of lists count in the same way.
            let list = |(number, from, until): (u32, u64, u64)| VerifiedPiece {
                evaluation: None,
                crl_number: Some(number.into()),
                ..piece((0, from, until))
            };
            assert_eq!(supersedes(&list(new), &list(held), NOW), expected, "list {new:?} for {held:?}");
        }
    }
}

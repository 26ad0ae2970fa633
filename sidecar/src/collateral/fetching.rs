//! When pieces are asked for again, and how long somebody waits for one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sealane_attestation::{PieceId, Stock, Term};
use sealane_collateral::Fetcher;
use sealane_types::UnixSeconds;

/// How often it is looked whether a piece is due.
pub(super) const LOOK: Duration = Duration::from_secs(60);
/// How long a handshake waits for what its verdict needs; it comes to be held later all the same. Both sides may wait in
/// turn, and a handshake has ten seconds.
pub(super) const VERDICT_WAIT: Duration = Duration::from_secs(2);
/// How long a quote waits for the certificate of its chip: less than a quote may take.
pub(super) const QUOTE_WAIT: Duration = Duration::from_secs(6);
/// Vendors revoke and rate anew before what they said is over, so that even a fresh piece is asked for this often.
pub(super) const REFRESH: Duration = Duration::from_secs(12 * 60 * 60);
/// One that is about to end, or that could not be had the last time, is asked for this often.
pub(super) const REFRESH_LATE: Duration = Duration::from_secs(10 * 60);
/// The part of its term in which a piece is about to end.
const LATE_PART: u64 = 8;

/// Asks services, and remembers when it did.
#[derive(Debug)]
pub(super) struct Fetching {
    pub(super) fetcher: Fetcher,
    asked: Mutex<HashMap<PieceId, Asked>>,
    /// When a newer version was asked for last because the policy wanted one.
    wanted: Mutex<HashMap<PieceId, Instant>>,
}

/// When a piece was asked for last.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Instant,
    failed: bool,
}

impl Fetching {
    pub(super) fn new(fetcher: Fetcher) -> Self {
        Self { fetcher, asked: Mutex::default(), wanted: Mutex::default() }
    }

    /// Lists and statements of `stock` that are to be asked for now. The certificate of a chip never changes.
    pub(super) fn due(&self, stock: &Stock, now: UnixSeconds, moment: Instant) -> Vec<PieceId> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let dated = stock.pieces().iter().filter(|piece| !matches!(piece.id(), PieceId::Vcek(_)));
        let due = dated.filter(|piece| {
            // One that came in a bundle counts as asked for when it is seen first.
            let last = *asked.entry(piece.id()).or_insert(Asked { at: moment, failed: false });
            is_due(piece.term(), now, moment.saturating_duration_since(last.at), last.failed)
        });
        let due: Vec<_> = due.map(sealane_attestation::VerifiedPiece::id).collect();
        asked.extend(due.iter().map(|id| (*id, Asked { at: moment, failed: false })));
        due
    }

    /// Whether `id`, which is held and too old for the policy, is to be asked for at `moment`: a service that has no newer one
    /// is not asked at every handshake.
    pub(super) fn wants_newer(&self, id: &PieceId, moment: Instant) -> bool {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = wanted.get(id).is_some_and(|last| moment.saturating_duration_since(*last) < REFRESH_LATE);
        if !waits {
            wanted.insert(*id, moment);
        }
        !waits
    }

    /// A piece could not be had. One that is not held is asked for when somebody needs it.
    pub(super) fn failed(&self, id: &PieceId) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.entry(*id).and_modify(|asked| asked.failed = true);
    }
}

fn is_due(term: Term, now: UnixSeconds, since: Duration, failed: bool) -> bool {
    let Term { from, until } = term;
    let late = until.0.saturating_sub(until.0.saturating_sub(from.0) / LATE_PART);
    since >= if failed || now.0 >= late { REFRESH_LATE } else { REFRESH }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_asked_for_twice_a_day_and_more_often_towards_its_end() {
        let term = Term { from: UnixSeconds(1_000_000), until: UnixSeconds(1_800_000) };
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        for (now, since, due) in [
            (1_000_001, minutes(11), false),
            (1_000_001, minutes(719), false),
            (1_000_001, minutes(720), true),
            (1_699_999, minutes(11), false),
            (1_700_000, minutes(11), true),
            (1_700_000, minutes(9), false),
            (1_900_000, minutes(10), true),
        ] {
            assert_eq!(is_due(term, UnixSeconds(now), since, false), due, "{now} {since:?}");
            let soon = since >= minutes(10);
            assert_eq!(is_due(term, UnixSeconds(now), since, true), soon, "{now} {since:?}, after a failure");
        }
    }
}

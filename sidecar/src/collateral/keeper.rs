//! Holds the collateral, and tells everybody when there is other collateral.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use sealane_attestation::bundle::{self, BundleError};
use sealane_attestation::{Adoption, Collateral, PieceId, Stock, Taken, VendorRoots, vcek_ids};
use sealane_collateral::{Fetched, Fetcher};
use sealane_policy::CollateralRules;
use sealane_types::PublicKey;
use tokio::sync::watch;

use super::fetching::{Fetching, LOOK, QUOTE_WAIT, VERDICT_WAIT};
use super::record::RecordFile;
use crate::metrics::Collateral as Metrics;
use crate::metrics::labels::OutcomeLabel;
use crate::session::clock::Clock;

/// Holds the collateral of this process. The only place where pieces of it are taken.
#[derive(Debug)]
pub(crate) struct CollateralKeeper {
    clock: Arc<Clock>,
    roots: VendorRoots,
    /// Replaced as a whole, by whoever holds `changing`: to make the next one takes signatures, and those who move bytes
    /// look here meanwhile.
    stock: Mutex<Arc<Stock>>,
    changing: Mutex<()>,
    current: watch::Sender<Arc<Collateral>>,
    /// None: nothing is fetched.
    fetching: Option<Fetching>,
    /// None: what is held is forgotten with the process.
    record: Option<RecordFile>,
    metrics: Metrics,
}

impl CollateralKeeper {
    /// Knows the roots, and nothing that is dated. What is missing comes from `fetcher`, if there is one.
    #[must_use]
    pub(crate) fn new(
        roots: VendorRoots,
        clock: Arc<Clock>,
        fetcher: Option<Fetcher>,
        metrics: Metrics,
    ) -> Self {
        let stock = Stock::new(roots.clone());
        let (first, _) = stock.assemble(1);
        let (stock, current) = (Mutex::new(Arc::new(stock)), watch::Sender::new(Arc::new(first)));
        let fetching = fetcher.map(Fetching::new);
        Self { clock, roots, stock, changing: Mutex::default(), current, fetching, record: None, metrics }
    }

    /// Begins with what an earlier process saw, and leaves what is held to later ones, in `directory`. Verifies signatures: not
    /// for threads that move bytes.
    #[must_use]
    pub(crate) fn remembering(mut self, directory: PathBuf) -> Self {
        let record = RecordFile::within(directory);
        if let Err(problem) = self.restore(&record) {
            let file = record.path().display();
            tracing::error!(%file, "what was seen of collateral before cannot be read: {problem}");
        }
        self.record = Some(record);
        self
    }

    fn restore(&self, record: &RecordFile) -> Result<(), Box<dyn Error>> {
        let Some(bytes) = record.read()? else { return Ok(()) };
        let mut stock = Stock::clone(&self.stock());
        let adoption = stock.restore(&bytes, self.clock.unix())?;
        for (place, rejection) in &adoption.refused {
            let file = record.path().display();
            tracing::warn!(%file, place, reason = %rejection.reason(), "a piece of collateral is not taken: {rejection}");
        }
        tracing::info!(pieces = adoption.new, "what was seen of collateral before counts");
        self.replace(stock, adoption.changed);
        Ok(())
    }

    /// What evidence is judged by now.
    #[must_use]
    pub(crate) fn current(&self) -> Arc<Collateral> {
        Arc::clone(&self.current.borrow())
    }

    /// The current collateral, and every later one.
    #[must_use]
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Collateral>> {
        self.current.subscribe()
    }

    /// The roots under which pieces are looked for, if any are looked for at all.
    #[must_use]
    pub(crate) fn looks_for(&self) -> Option<VendorRoots> {
        self.fetching.as_ref().map(|_| self.roots.clone())
    }

    /// The certificate (DER) of the chip that signed an SEV-SNP report, if it is held or can be had soon.
    pub(crate) async fn vcek(self: &Arc<Self>, report: &[u8]) -> Option<Vec<u8>> {
        let held = |stock: &Stock| stock.vcek(report).map(<[u8]>::to_vec);
        let found = held(&self.stock());
        if found.is_some() {
            return found;
        }
        let ids = vcek_ids(report).into_iter().map(PieceId::Vcek).collect();
        self.obtain(ids, QUOTE_WAIT).await;
        held(&self.stock())
    }

    /// Waits a little while those of `needed` come that are not held, or do not count under `rules`.
    pub(crate) async fn complete(self: &Arc<Self>, needed: Vec<PieceId>, rules: &CollateralRules) {
        let now = self.clock.unix();
        let stock = self.stock();
        let moment = Instant::now();
        let newer =
            |id: &PieceId| self.fetching.as_ref().is_some_and(|fetching| fetching.wants_newer(id, moment));
        let missing = needed.into_iter().filter(|id| match stock.find(id) {
            Some(held) if now < held.term().until => !held.counts(rules, now) && newer(id),
            _ => true,
        });
        let missing = missing.collect();
        self.obtain(missing, VERDICT_WAIT).await;
    }

    /// Asks for newer versions of what is held, for the life of the process.
    pub(crate) async fn renew(self: Arc<Self>) {
        while let Some(fetching) = &self.fetching {
            let due = fetching.due(&self.stock(), self.clock.unix(), Instant::now());
            self.obtain(due, LOOK).await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Fetches these and takes them, if they come within `wait` or later.
    async fn obtain(self: &Arc<Self>, ids: Vec<PieceId>, wait: Duration) {
        let Some(fetching) = self.fetching.as_ref().filter(|_| !ids.is_empty()) else { return };
        let (keeper, fetcher, now) = (Arc::clone(self), fetching.fetcher.clone(), self.clock.unix());
        let task = tokio::spawn(async move {
            let each = ids.iter().map(|id| fetcher.fetch(*id, now));
            let fetched = join_all(each).await;
            // Putting pieces together verifies signatures.
            let taking = tokio::task::spawn_blocking(move || keeper.take(ids, fetched));
            if let Err(failed) = taking.await {
                std::panic::resume_unwind(failed.into_panic());
            }
        });
        // Whoever waits no longer leaves it running.
        let _ = tokio::time::timeout(wait, task).await;
    }

    fn take(&self, ids: Vec<PieceId>, fetched: Vec<Fetched>) {
        let _turn = lock(&self.changing);
        let mut stock = Stock::clone(&self.stock());
        let mut changed = false;
        for (id, fetched) in ids.into_iter().zip(fetched) {
            self.metrics.fetched(&id, fetched.is_ok());
            // Why not is in the log of whoever asked.
            let Ok(piece) = fetched else {
                if let Some(fetching) = &self.fetching {
                    fetching.failed(&id);
                }
                continue;
            };
            match stock.take((*piece).clone(), self.clock.unix()) {
                Ok(taken) => changed |= taken == Taken::New,
                Err(rejection) => {
                    tracing::warn!(%id, reason = %rejection.reason(), "fetched and not taken: {rejection}");
                }
            }
        }
        self.replace(stock, changed);
        if changed {
            self.remember();
        }
    }

    /// Takes what a bundle's file holds, if one of `owners` signed it. Verifies signatures: not for threads that move
    /// bytes.
    ///
    /// # Errors
    /// [`BundleError`]; what is held stays.
    pub(crate) fn adopt(&self, file: &[u8], owners: &BTreeSet<PublicKey>) -> Result<Adoption, BundleError> {
        let now = self.clock.unix();
        let bundle = bundle::open(file, owners, now)?;
        let _turn = lock(&self.changing);
        let mut stock = Stock::clone(&self.stock());
        let adoption = stock.adopt(&bundle, now)?;
        self.replace(stock, adoption.changed);
        // A bundle that brings nothing new keeps out earlier ones all the same.
        self.remember();
        Ok(adoption)
    }

    /// A bundle was found, and taken or not.
    pub(super) fn found_bundle(&self, taken: bool) {
        let outcome = if taken { "taken" } else { "refused" };
        self.metrics.bundles.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Holds `stock` from now on. What is judged by comes first: whoever finds a piece held may count on it.
    fn replace(&self, stock: Stock, changed: bool) {
        if changed {
            self.publish(&stock);
        }
        *lock(&self.stock) = Arc::new(stock);
    }

    fn remember(&self) {
        if let Some(record) = &self.record {
            record.write(&self.stock().record());
        }
    }

    /// Tells everybody what is held now. Each piece is dated by its vendor, so that the time
    /// is not before any of them began.
    fn publish(&self, stock: &Stock) {
        for piece in stock.pieces() {
            self.clock.at_least(piece.term().from);
        }
        self.metrics.tell(stock);
        let edition = self.current.borrow().edition().saturating_add(1);
        let (assembled, problems) = stock.assemble(edition);
        for rejection in problems {
            tracing::error!(reason = %rejection.reason(), "pieces of collateral do not go together: {rejection}");
        }
        self.current.send_replace(Arc::new(assembled));
    }

    fn stock(&self) -> Arc<Stock> {
        Arc::clone(&lock(&self.stock))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use sealane_attestation::{Anchor, Piece, TdxRoot};
    use sealane_collateral::{FetchError, Sources};
    use sealane_simulated::forge::{Authority, Dates, Recipe};
    use sealane_types::{Product, UnixSeconds};

    use super::super::fetching::{REFRESH, REFRESH_LATE};
    use super::*;
    use crate::metrics::Metrics;

    /// A keeper that may ask services, and one list of a vendor's for a year.
    fn holding_a_list() -> (Arc<CollateralKeeper>, PieceId) {
        let authority = Authority::generate().unwrap();
        let recipe = Recipe { marked: false, ..Recipe::new(Product::Genoa).unwrap() };
        let chip = authority.issue(&recipe).unwrap();
        let [_, ask, ark] = chip.certificates();
        let anchors = Collateral::empty().with_anchor(Anchor::new(ark, ask).unwrap());
        let roots = VendorRoots::new(anchors, TdxRoot::intel());
        let clock = Arc::new(Clock::new());
        let now = Duration::from_secs(clock.unix().0);
        let dates = Dates { from: now, until: now + Duration::from_secs(365 * 86_400) };
        let list = authority.revocation_list(&recipe, dates, false).unwrap();
        let piece = roots.verify(Piece::SnpList(list), clock.unix()).unwrap();
        let id = piece.id();
        let nowhere = || "http://127.0.0.1:1".to_owned();
        let sources = Sources { kds: nowhere(), pcs: nowhere(), thim: None, authorities: None };
        let fetcher = Fetcher::new(&sources, roots.clone()).unwrap();
        let metrics = Metrics::new(UnixSeconds(0)).collateral;
        let keeper = CollateralKeeper::new(roots, clock, Some(fetcher), metrics);
        keeper.take(vec![id], vec![Ok(Arc::new(piece))]);
        (Arc::new(keeper), id)
    }

    #[test]
    fn what_could_not_be_renewed_is_asked_for_again_soon() {
        let (keeper, id) = holding_a_list();
        let fetching = keeper.fetching.as_ref().unwrap();
        let begin = Instant::now();
        let due = |after: Duration| fetching.due(&keeper.stock(), keeper.clock.unix(), begin + after);
        assert_eq!(due(Duration::ZERO), [], "it has just come");
        assert_eq!(due(REFRESH), [id]);
        keeper.take(vec![id], vec![Err(Arc::new(FetchError::Interrupted))]);
        assert_eq!(due(REFRESH + REFRESH_LATE / 2), []);
        assert_eq!(due(REFRESH + REFRESH_LATE), [id]);
        assert_eq!(due(REFRESH + 2 * REFRESH_LATE), [], "it is being asked for, and did not fail");
    }

    #[test]
    fn a_service_that_has_no_newer_list_is_not_asked_at_every_handshake() {
        let (keeper, id) = holding_a_list();
        let fetching = keeper.fetching.as_ref().unwrap();
        let begin = Instant::now();
        let after = |wait: Duration| fetching.wants_newer(&id, begin + wait);
        assert!(after(Duration::ZERO), "the first time at once");
        assert!(!after(Duration::from_secs(1)) && !after(REFRESH_LATE / 2));
        assert!(after(REFRESH_LATE));
        assert!(!after(REFRESH_LATE + Duration::from_secs(1)));
    }

    #[test]
    fn what_is_held_is_looked_at_while_it_changes() {
        let (keeper, id) = holding_a_list();
        let _changing = lock(&keeper.changing);
        assert!(keeper.stock().find(&id).is_some());
        assert!(keeper.looks_for().is_some());
    }
}

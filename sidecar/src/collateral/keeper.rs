//! Holds the collateral, and tells everybody when there is other collateral.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use sealane_attestation::bundle::{self, BundleError};
use sealane_attestation::{Collateral, PieceId, Stock, Taken, VendorRoots, vcek_ids};
use sealane_collateral::{Fetched, Fetcher};
use sealane_policy::Timestamp;
use sealane_types::PublicKey;
use tokio::sync::watch;

use super::fetching::{Fetching, LOOK, QUOTE_WAIT, VERDICT_WAIT};
use crate::metrics::Collateral as Metrics;
use crate::metrics::labels::OutcomeLabel;
use crate::session::clock::Clock;

/// Holds the collateral of this process. The only place where pieces of it are taken.
#[derive(Debug)]
pub(crate) struct CollateralKeeper {
    clock: Arc<Clock>,
    stock: Mutex<Stock>,
    current: watch::Sender<Arc<Collateral>>,
    /// None: nothing is fetched.
    fetching: Option<Fetching>,
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
        let stock = Stock::new(roots);
        let (first, _) = stock.assemble(1);
        let (stock, current) = (Mutex::new(stock), watch::Sender::new(Arc::new(first)));
        Self { clock, stock, current, fetching: fetcher.map(Fetching::new), metrics }
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
        self.fetching.as_ref().map(|_| self.lock().roots().clone())
    }

    /// The certificate (DER) of the chip that signed an SEV-SNP report, if it is held or can be had soon.
    pub(crate) async fn vcek(self: &Arc<Self>, report: &[u8]) -> Option<Vec<u8>> {
        let held = |stock: &Stock| stock.vcek(report).map(<[u8]>::to_vec);
        let found = held(&self.lock());
        if found.is_some() {
            return found;
        }
        let ids = vcek_ids(report).into_iter().map(PieceId::Vcek).collect();
        self.obtain(ids, QUOTE_WAIT).await;
        held(&self.lock())
    }

    /// Waits a little while those of `needed` come that are not held, or are over.
    pub(crate) async fn complete(self: &Arc<Self>, needed: Vec<PieceId>) {
        let now = self.clock.unix();
        let missing = {
            let stock = self.lock();
            let holds = |id: &PieceId| stock.find(id).is_some_and(|held| now < held.term().until);
            needed.into_iter().filter(|id| !holds(id)).collect()
        };
        self.obtain(missing, VERDICT_WAIT).await;
    }

    /// Asks for newer versions of what is held, for the life of the process.
    pub(crate) async fn renew(self: Arc<Self>) {
        while let Some(fetching) = &self.fetching {
            let due = fetching.due(&self.lock(), self.clock.unix(), Instant::now());
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
        let mut stock = self.lock();
        let mut changed = false;
        for (id, fetched) in ids.into_iter().zip(fetched) {
            self.metrics.fetched(&id, fetched.is_ok());
            // Why not is in the log of whoever asked.
            let Ok(piece) = fetched else { continue };
            match stock.take((*piece).clone(), self.clock.unix()) {
                Ok(taken) => changed |= taken == Taken::New,
                Err(rejection) => {
                    tracing::warn!(%id, reason = %rejection.reason(), "fetched and not taken: {rejection}");
                }
            }
        }
        if changed {
            self.publish(&stock);
        }
    }

    /// Takes what a bundle's file holds, if one of `owners` signed it. Verifies signatures: not for threads that move
    /// bytes.
    ///
    /// # Errors
    /// [`BundleError`]; what is held stays.
    pub(crate) fn adopt(&self, file: &[u8], owners: &BTreeSet<PublicKey>) -> Result<(), BundleError> {
        let outcome = self.take_bundle(file, owners);
        let outcome_word = if outcome.is_ok() { "taken" } else { "refused" };
        self.metrics.bundles.get_or_create(&OutcomeLabel { outcome: outcome_word }).inc();
        outcome
    }

    fn take_bundle(&self, file: &[u8], owners: &BTreeSet<PublicKey>) -> Result<(), BundleError> {
        let bundle = bundle::open(file, owners, self.clock.unix())?;
        let mut stock = self.lock();
        let adoption = stock.adopt(&bundle, self.clock.unix())?;
        for (place, rejection) in &adoption.refused {
            tracing::warn!(place, reason = %rejection.reason(), "a piece of the bundle is not taken: {rejection}");
        }
        let (issued, pieces) = (Timestamp::from(bundle.bundle().issued), bundle.bundle().pieces.len());
        tracing::info!(%issued, pieces, new = adoption.new, "a bundle of collateral is taken");
        if adoption.changed {
            self.publish(&stock);
        }
        Ok(())
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

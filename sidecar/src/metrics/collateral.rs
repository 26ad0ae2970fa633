//! What is held of the vendors' collateral, and until when.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use sealane_attestation::{PieceId, Stock};

use super::labels::{FetchLabels, KindLabel, OutcomeLabel};
use super::register::{begin, register, register_in};
use super::state::{Known, tell};

/// Collateral, whichever way it came.
#[derive(Debug, Clone)]
pub(crate) struct Collateral {
    pub(crate) bundles: Family<OutcomeLabel, Counter>,
    pub(super) fetches: Family<FetchLabels, Counter>,
    pub(super) pieces: Family<KindLabel, Gauge>,
    pub(super) expires: Family<KindLabel, Gauge>,
    pub(super) issued: Known,
}

impl Collateral {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let bundles = register(registry, "collateral_bundles", "Bundles of collateral that were found");
        begin(&bundles, ["taken", "refused"].map(|outcome| OutcomeLabel { outcome }));
        Self {
            bundles,
            fetches: register(
                registry,
                "collateral_fetches",
                "Pieces of collateral that services were asked for",
            ),
            pieces: register(registry, "collateral_pieces", "Verified pieces of collateral that are held"),
            expires: register_in(
                registry,
                "collateral_expires_timestamp",
                Unit::Seconds,
                "When the first piece of a kind expires, in seconds since 1970",
            ),
            issued: register_in(
                registry,
                "collateral_bundle_issued_timestamp",
                Unit::Seconds,
                "When the bundle in use was issued, in seconds since 1970",
            ),
        }
    }

    /// A service was asked.
    pub(crate) fn fetched(&self, id: &PieceId, came: bool) {
        let outcome = if came { "fetched" } else { "failed" };
        self.fetches.get_or_create(&FetchLabels { kind: kind(id), outcome }).inc();
    }

    /// Brings the gauges up to date.
    pub(crate) fn tell(&self, stock: &Stock) {
        self.pieces.clear();
        self.expires.clear();
        for piece in stock.pieces() {
            let label = KindLabel { kind: kind(&piece.id()) };
            self.pieces.get_or_create(&label).inc();
            let until = i64::try_from(piece.term().until.0).unwrap_or(i64::MAX);
            let first = self.expires.get_or_create(&label);
            // A series that was not there begins at zero.
            if first.get() == 0 || until < first.get() {
                first.set(until);
            }
        }
        tell(&self.issued, stock.bundle_issued().map(|issued| issued.0 as f64));
    }
}

const fn kind(id: &PieceId) -> &'static str {
    match id {
        PieceId::SnpList(_) => "snp_list",
        PieceId::Vcek(_) => "vcek",
        PieceId::TcbInfo(_) => "tcb_info",
        PieceId::QeIdentity => "qe_identity",
        PieceId::TdxRootList | PieceId::TdxList(_) => "tdx_list",
    }
}

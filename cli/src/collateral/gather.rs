//! Pieces from files, verified one by one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use sealane_attestation::bundle;
use sealane_attestation::limits::BUNDLE_FILE_BYTES_MAX;
use sealane_attestation::{Piece, PieceId, Stock, Taken, VendorRoots};
use sealane_collateral::{Fetcher, Sources};
use sealane_policy::Timestamp;

use crate::output;
use crate::source::{read_bytes, shown};

/// What is gathered so far.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) stock: Stock,
    now: Timestamp,
}

impl Gathered {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { stock: Stock::new(VendorRoots::pinned()), now }
    }

    /// Everything in these files. One that is not in order, or over, is an error: its author should know.
    pub(super) fn files(&mut self, paths: &[PathBuf]) -> Result<()> {
        for path in paths {
            let bytes = read_file(path)?;
            for piece in Piece::read(&bytes).with_context(|| shown(path))? {
                self.piece(piece).with_context(|| shown(path))?;
            }
        }
        Ok(())
    }

    /// What an earlier bundle holds and is not over; gives the least tcbEvaluationDataNumber that it demands.
    pub(super) fn earlier(&mut self, path: &Path) -> Result<Option<u32>> {
        let (earlier, _) = bundle::read(&read_file(path)?).with_context(|| shown(path))?;
        for piece in earlier.pieces {
            if let Err(error) = self.piece(piece) {
                output::say(&format!("note: left out of {}: {error:#}", shown(path)));
            }
        }
        Ok(earlier.min_tcb_evaluation)
    }

    /// Everything in `wanted`, from the vendors' services. AMD's lets itself be asked once in ten seconds.
    pub(super) fn fetch(&mut self, wanted: Vec<PieceId>, sources: &Sources) -> Result<()> {
        if wanted.is_empty() {
            return Ok(());
        }
        let fetcher = Fetcher::new(sources, self.stock.roots().clone())?;
        let now = self.now.unix();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(async {
            for id in wanted {
                output::say(&format!("Fetching {id} …"));
                let piece =
                    fetcher.fetch(id, now).await.map_err(|error| anyhow!("cannot fetch {id}: {error}"))?;
                self.stock.take((*piece).clone(), now)?;
            }
            Ok(())
        })
    }

    /// Verifies one piece and keeps it unless a newer one is held.
    pub(super) fn piece(&mut self, piece: Piece) -> Result<()> {
        let now = self.now.unix();
        let verified = self.stock.roots().verify(piece, now)?;
        let (id, until) = (verified.id(), verified.term().until);
        if until <= now {
            bail!("{id} expired at {}; get a newer one from its vendor", Timestamp::from(until));
        }
        if self.stock.take(verified, now)? == Taken::Older {
            output::say(&format!("note: {id} is there in a newer version already"));
        }
        Ok(())
    }
}

pub(super) fn read_file(path: &Path) -> Result<Vec<u8>> {
    read_bytes(path, BUNDLE_FILE_BYTES_MAX as u64, "it is no collateral")
}

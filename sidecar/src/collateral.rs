//! The collateral that this process judges by: pinned roots, and the newest verified pieces from wherever they come.
//!
//! Pieces come from bundles in a directory ([`directory`]) that an owner of the policy signed, and from the vendors'
//! services where configuration says so ([`fetching`]). The vendors signed each
//! piece, and [`Stock`](sealane_attestation::Stock) verifies that before it keeps one; where a piece came from decides
//! nothing about trust. What was seen survives a restart where there is a directory for it ([`record`]).
//! Whoever judges asks for the collateral each time, and is told when other collateral is there.

mod directory;
mod fetching;
mod keeper;
mod record;

pub(crate) use directory::Directory;
pub(crate) use keeper::CollateralKeeper;

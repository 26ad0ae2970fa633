//! What a benchmark found on one node, in the form that crosses a cluster: short enough for the termination message of a
//! container, signed with the run's key, and comparable with what other runs found.
//!
//! Invariant: pure. A [`Summary`] comes out of [`Sealed::open`] only if the run's key signed its exact bytes, for this run,
//! pool and node, and every bound held. Deliberately absent: clients, clocks, files, and how anything is measured.

mod compare;
mod figure;
mod record;
mod seal;
mod summary;
mod words;

pub use compare::{Change, Comparison, compare};
pub use figure::{Better, Interval, RowId, Unit, Verdict};
pub use record::{NodeRecord, Record};
pub use seal::{OpenError, RunKey, RunPublicKey, SEALED_BYTES_MAX, SealError, Sealed};
pub use summary::{Line, Node, Place, Site, Summary, VERSION, plain};
pub use words::{figure, number};

//! What applications of a fault test noted, joined into a verdict: nothing twice, nothing silently lost, `Uncertain`
//! and `Interrupted` exactly where DESIGN §8 says.
//!
//! Pure: entries in, findings out. What the ledgers themselves do not show (a sidecar that was killed, a node that was
//! cut off) comes from the test as [`Rules`].

mod accounts;
mod entry;
mod finding;
mod judge;
mod rules;
#[cfg(test)]
mod tests;

pub use entry::{Book, Entry, Role, Run};
pub use finding::{Figures, Finding, Verdict};
pub use judge::judge;
pub use rules::{Delivery, Rules};

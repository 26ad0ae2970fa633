//! What the end-to-end tests share: the cluster they run on, a namespace per test, policies signed by throw-away
//! owners, workloads that are plain Python programs, and for faults a load whose applications keep ledgers.
//!
//! Invariant: a test touches only its own namespace and waits on conditions, never on time; those that break more than
//! their own pods say so in their names and run alone. Deliberately absent: anything that brings a cluster up;
//! `cargo xtask test` does that and names it in the environment.

mod cluster;
pub mod faults;
mod hold;
mod kinds;
pub mod ledger;
mod load;
pub mod matrix;
mod metrics;
mod outage;
mod policy;
mod release;
mod report;
mod wait;
mod workload;

pub use cluster::{Cluster, Outcome, Sandbox};
pub use kinds::every_kind;
pub use load::{Load, Member, loaded, named, programs};
pub use outage::Outage;
pub use policy::{Owners, Signing};
pub use release::{RELEASE, REPLICAS};
pub use wait::{PATIENCE, until};
pub use workload::{Workload, carried_by, flow, forward, peer, session};

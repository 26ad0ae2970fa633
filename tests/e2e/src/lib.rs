//! What the end-to-end tests share: the cluster they run on, a namespace per test, policies signed by throw-away
//! owners, and workloads that are plain Python programs.
//!
//! Invariant: a test touches only its own namespace and waits on conditions, never on time. Deliberately absent:
//! anything that brings a cluster up; `cargo xtask test` does that and names it in the environment.

mod cluster;
mod policy;
mod wait;
mod workload;

pub use cluster::{Cluster, Sandbox};
pub use policy::{Owners, Signing};
pub use wait::{PATIENCE, until};
pub use workload::{Workload, session};

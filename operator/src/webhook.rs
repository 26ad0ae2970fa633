//! The admission webhooks: one adds the sidecar to pods, one refuses custom resources that no schema can judge.
//!
//! Invariant: no answer depends on leadership, or on a cache that is behind. What a cache has counts only while the API
//! server has the same version, and what it has not is asked for, so a pod made a moment after its Peer is injected.

pub mod af_xdp;
mod caches;
mod clients;
mod cluster;
pub mod decide;
mod mutate;
mod neighbours;
mod peers;
mod resources;
mod review;
mod serve;
pub mod validate;

pub use clients::{ClientAuthorities, parse_sources};
pub use cluster::Cluster;
pub use mutate::Mutator;
pub use resources::Validator;
pub use serve::{Webhooks, serve};

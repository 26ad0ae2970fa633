//! The admission webhooks: one adds the sidecar to pods, one refuses custom resources that no schema can judge.
//!
//! Invariant: no answer depends on leadership, or on a cache that is behind. What a cache has counts only while the API
//! server has the same version, and what it has not is asked for, so a pod made a moment after its Peer is injected.

pub mod af_xdp;
mod amount;
pub mod bounds;
mod caches;
mod clients;
mod cluster;
pub mod context;
pub mod decide;
pub mod inject;
mod mutate;
mod neighbours;
mod patch;
mod peers;
mod pod_shape;
mod resources;
mod serve;
mod sidecar;
mod sizing;
pub mod validate;

pub use amount::is_quantity;
pub use clients::{ClientAuthorities, parse_sources};
pub use cluster::Cluster;
pub use mutate::Mutator;
pub use resources::Validator;
pub use serve::{Webhooks, serve};

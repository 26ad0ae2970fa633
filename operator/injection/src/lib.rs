//! What makes a pod one with a sidecar: a pod and its context in, a JSON patch out.
//!
//! The webhook injects by it while pods are admitted, and `kubectl sealane render` before, where the manifest is measured.
//! Pure: what it depends on is in [`InjectionContext`], and whoever calls has read it.

mod amount;
mod bounds;
mod context;
mod inject;
mod patch;
mod pod_shape;
mod settings;
mod sidecar;
mod simulation;
mod sizing;

pub use amount::is_quantity;
pub use bounds::Bounds;
pub use context::InjectionContext;
pub use inject::{Injected, inject, simulated_initdata};
pub use pod_shape::{InjectError, has_cluster_dns, has_sidecar, on_host_network};
pub use settings::{ARENA_BYTES, REQUIRED_CPU_LIMIT, RESOURCES, SidecarSettings};
pub use sidecar::CAPABILITIES;
pub use simulation::Simulation;

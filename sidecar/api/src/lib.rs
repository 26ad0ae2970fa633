//! Messages and services between sidecar and operator, generated from `proto/`.
//!
//! Invariant: nothing here is trusted by its receiver. Deliberately absent: behaviour.

#[allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::use_self,
    clippy::large_futures,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod control {
    tonic::include_proto!("sealane.control.v1");
}

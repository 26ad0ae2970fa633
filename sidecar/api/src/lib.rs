//! Messages and services between sidecar and operator, generated from `proto/`.
//!
//! Invariant: nothing here is trusted by its receiver. Deliberately absent: behaviour.

#[allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::use_self,
    reason = "generated code"
)]
pub mod control {
    tonic::include_proto!("sealane.control.v1");
}

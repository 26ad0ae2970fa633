//! Messages and services between sidecar and operator, generated from `proto/`.
//!
//! Invariant: nothing here is trusted by its receiver. Deliberately absent: behaviour.

#[expect(missing_debug_implementations, clippy::all, reason = "generated code")]
pub mod control {
    tonic::include_proto!("sealane.control.v1");
}

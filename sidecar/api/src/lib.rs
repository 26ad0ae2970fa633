//! Messages and services between sidecar and operator, of the gRPC door, and between kubelet and node agent, generated
//! from `proto/`.
//!
//! Invariant: nothing here is trusted by its receiver. Deliberately absent: behaviour, apart from the decoder of
//! [`put_tensor`], which keeps no more of a list than its receiver would look at.

pub mod put_tensor;

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

/// What the kubelet asks of the node agent's CSI driver.
#[allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::use_self,
    clippy::large_futures,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod csi {
    tonic::include_proto!("csi.v1");
}

/// How the kubelet comes to know the driver.
#[allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::use_self,
    clippy::large_futures,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod registration {
    tonic::include_proto!("pluginregistration");
}

/// The gRPC door; `proto/door.proto` says what its messages mean.
#[allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::use_self,
    clippy::large_futures,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod door {
    tonic::include_proto!("sealane.door.v1");

    pub use crate::put_tensor::PutTensor;

    /// The encoded file descriptor set, for reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("door");
}

//! Messages and services between sidecar and operator, of the gRPC door, and between node agent, kubelet and runtime, generated
//! from `proto/` into `src/generated`, which the test in `drift` compares with it. Generated files are included rather than
//! named as modules: rustfmt then leaves them as they were written.
//!
//! Invariant: nothing here is trusted by its receiver. Deliberately absent: behaviour, apart from the decoders of
//! [`put_tensor`], which keeps no more of a list than its receiver would look at, and of [`bounded`], and [`delta`], which both
//! ends of the control channel have to do alike.

pub mod bounded;
mod control_bounds;
pub mod delta;
#[cfg(test)]
mod drift;
pub mod put_tensor;

/// A module of what was generated for one file of `proto/`.
macro_rules! generated {
    ($(#[doc = $doc:literal])* $name:ident, $file:literal $(; $($own:item)*)?) => {
        $(#[doc = $doc])*
        #[allow(
            missing_debug_implementations,
            unreachable_pub,
            clippy::all,
            clippy::use_self,
            clippy::large_futures,
            clippy::allow_attributes_without_reason,
            reason = "generated code"
        )]
        pub mod $name {
            include!(concat!("generated/", $file));
            $($($own)*)?
        }
    };
}

generated! {
    control, "control.rs"
}

generated! {
    /// What the kubelet asks of the node agent's CSI driver.
    csi, "csi.rs"
}

generated! {
    /// How the kubelet comes to know the driver.
    registration, "registration.rs"
}

generated! {
    /// What the node agent asks of the container runtime.
    cri, "cri.rs"
}

generated! {
    /// The gRPC door; `proto/door.proto` says what its messages mean.
    door, "door.rs";

    pub use crate::put_tensor::PutTensor;

    /// The encoded file descriptor set, for reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/door.bin");
}

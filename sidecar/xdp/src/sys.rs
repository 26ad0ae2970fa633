//! Safe wrappers over the system calls and kernel structures that the standard library has no words for.
//!
//! Invariant: whatever a caller passes, no function here reads or writes memory that its arguments do not own.

pub(crate) mod bpf;
pub(crate) mod capability;
pub(crate) mod ethtool;
pub(crate) mod plain;
pub(crate) mod socket;
pub(crate) mod xdp;

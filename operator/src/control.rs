//! The control channel: sidecars dial the leader, prove which pod they are, and get their configuration.
//!
//! Invariant: an identity in the registry was stated by the API server for a token with our audience and names a
//! pod that was alive then. Everything else that a sidecar says is a claim: addresses are compared with the pod's
//! status before another sidecar learns them, and reports only feed status.

pub mod authenticate;
pub mod convert;
mod feed;
mod listener;
mod outgoing;
pub mod registry;
mod rendered;
pub mod report;
mod server;
pub mod token;

pub use listener::Listener;
pub use registry::Registry;
pub use server::{Server, serve};

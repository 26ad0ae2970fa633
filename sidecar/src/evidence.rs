//! Evidence of this replica, and the verdict on that of others.
//!
//! A [`Provider`] turns a [`QuoteRequest`] into a quote. The bytes are composed inside this crate from
//! values that the sidecar itself holds, so a provider is never an oracle for someone else's bytes. Which providers
//! exist is decided where the binary is linked: a [`Platforms`] without simulation cannot be talked into it by
//! configuration.

pub(crate) mod completed;
pub(crate) mod judge;
pub(crate) mod key_file;
pub(crate) mod measured;
pub(crate) mod node_message;
pub(crate) mod own;
pub mod platforms;
pub(crate) mod prover;
pub mod provider;

pub use sealane_attestation::Format;

pub use key_file::{KeyFile, KeyFileError};
pub use platforms::{OpenProvider, Platforms, ProviderInput};
pub use provider::{Provider, ProviderError, Quote, QuoteRequest};

//! The sidecar: the shell around the protocol. It moves bytes and time, and decides nothing about trust by itself.
//!
//! Invariant: what the control channel sends is a proposal. A tensor leaves or enters only over a connection whose
//! peer was verified against a policy that this process verified against its own roots.
//! Deliberately absent: any Kubernetes client, any parsing of evidence, any cipher.

pub mod evidence;
pub mod handoff;
mod run;

pub use run::main_with;

//! The sidecar: the shell around the protocol. It moves bytes and time, and decides nothing about trust by itself.
//!
//! Invariant: what the control channel sends is a proposal. A tensor leaves or enters only over a connection whose
//! peer was verified against a policy that this process verified against its own roots.
//!
//! A tensor going out: `door → handoff → session/outgoing → session/driver → protocol → link`; and in at the peer:
//! `link → protocol → session/driver → session/incoming → handoff → door`.
//!
//! The same program is the agent of a confidential node: `agent`, which asks the platform for the sidecars of its pods.
//!
//! Forwarded TCP connections take the same way between `session/forward` at either end.
//!
//! Deliberately absent: any Kubernetes client, any parsing of evidence, any cipher.

mod admin;
mod agent;
mod collateral;
pub mod config;
mod context;
pub mod control;
pub mod desired;
pub mod door;
pub mod evidence;
mod gauges;
pub mod handoff;
pub mod link;
mod metrics;
pub mod node;
mod policy;
mod rate;
mod route;
mod run;
mod session;
mod signals;
mod throttling;
mod trace;
mod volume;

pub use run::{main_with, main_with_clock};

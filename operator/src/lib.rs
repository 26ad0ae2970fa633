//! The operator: injects sidecars, tells them whom to talk to, and shows what they report.
//!
//! Invariant: the operator proposes and sidecars verify. Nothing here holds a key of the data plane or reads a
//! payload, and nothing that it writes is trusted without a signature that it cannot make. A reconciliation is a
//! pipeline (gather → validate → choose → plan → apply → status) of which validate, choose, plan and status
//! are pure.
//!
//! Deliberately absent: judgement of evidence, the protocol, finalizers, and any state that is not in the API
//! server or comes back when sidecars attach again.

pub mod admin;
pub mod advice;
mod announce;
pub mod benchmark;
pub mod causes;
pub mod certificates;
pub mod clock;
mod condition;
pub mod config;
pub mod control;
pub mod desired;
pub mod external;
pub mod lead;
pub mod lease;
pub mod limits;
pub mod membership;
pub mod metrics;
pub mod names;
pub mod ports;
pub mod probe;
pub mod queue;
pub mod reconcile;
pub mod run;
pub mod spec;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod watch;
pub mod webhook;
pub mod workload;

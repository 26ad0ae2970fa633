//! The project's benchmarks as a library: rows, the statistics under them, reports, and suites that measure our protocol
//! and our sidecars beside peers, in turn, in one run on one machine.
//!
//! Invariant: a figure is the median of samples that were taken in turn with the peer's, every timed result was compared
//! with what it had to be, and no difference is called significant on a machine that was too busy to tell. What was not
//! measured is listed as missing; nothing is estimated.
//!
//! Deliberately absent: anything that decides. A report is data; limits that are missed do not fail a run, wrong results
//! do.

pub mod bench;
mod bottleneck;
pub mod build;
mod carrier;
pub mod command;
pub mod contest;
mod cores;
mod ends;
mod fleet;
pub mod held;
mod link;
pub mod machine;
mod message;
mod micro;
mod ours;
mod packets;
mod pair;
mod peer;
pub mod plan;
mod programs;
mod published;
mod queue;
mod random;
mod remote;
pub mod report;
mod result;
pub mod row;
mod samples;
pub mod sampling;
pub mod statistics;
mod steady;
pub mod stranger;
mod suites;
mod wire;
mod world;

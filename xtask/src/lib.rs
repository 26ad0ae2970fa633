//! The project's own tooling: the local cluster, images, and the commands behind `make`.
//!
//! Invariant: everything a command makes lies under the cache folder, the state folder or `target/`; the machine
//! itself (packages, network, firewall, sysctls) is left as it was.
//!
//! Deliberately absent: anything that ships. No image and no chart contains code from this crate.

pub mod bench;
pub mod cluster;
pub mod demo;
pub mod dependencies;
pub mod fuzz;
pub mod images;
pub mod install;
pub mod judge;
pub mod kubectl;
pub mod model;
pub mod oci;
pub mod process;
pub mod progress;
mod python;
pub mod removals;
pub mod target;
pub mod test;
pub mod tidy;

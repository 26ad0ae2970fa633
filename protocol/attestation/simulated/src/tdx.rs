//! A TDX platform made of software: quotes, the chain of the key behind them, and the collateral that an issuer would hand
//! out for it.
//!
//! Everything that the crate's first page says of simulation holds here too. Roots are made per installation, and each
//! name of theirs says SIM.

mod certificate;
pub mod forge;
mod material;
mod platform;
mod processor;
mod quote;
mod statements;

pub use material::Material;
pub use platform::{Platform, mr_config_id, rtmr};
pub use processor::Processor;
pub use quote::{Body, Draft};

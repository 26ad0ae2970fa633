//! AWS Nitro Enclaves made of software: attestation documents under a root of their own.

mod cbor;
mod document;
mod enclave;
mod forge;
mod material;

pub use document::{Document, PROTECTED, cose_sign1};
pub use enclave::{Enclave, measurements, register};
pub use forge::{Chain, Recipe};
pub use material::Material;

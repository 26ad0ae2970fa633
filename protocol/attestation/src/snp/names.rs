//! Subject names of AMD's hierarchy: `ARK-Milan` signs `SEV-Milan` (the ASK, for VCEKs) and
//! `SEV-VLEK-Milan` (the ASVK, for VLEKs). Simulated ones put `SIM-` in front.

use sealane_types::Product;
use x509_cert::name::Name;

use super::SigningKey;
use crate::naming::Naming;

const SIMULATED_PREFIX: &str = "SIM-";

/// The product of an ARK.
pub(crate) fn root_product(name: &Name, naming: Naming) -> Option<Product> {
    naming.common_name(name, SIMULATED_PREFIX)?.strip_prefix("ARK-")?.parse().ok()
}

/// The product of an ASK or ASVK, and the kind of key that it certifies.
pub(crate) fn issuer_product(name: &Name, naming: Naming) -> Option<(Product, SigningKey)> {
    let issuer = naming.common_name(name, SIMULATED_PREFIX)?.strip_prefix("SEV-")?;
    match issuer.strip_prefix("VLEK-") {
        Some(product) => Some((product.parse().ok()?, SigningKey::Vlek)),
        None => Some((issuer.parse().ok()?, SigningKey::Vcek)),
    }
}

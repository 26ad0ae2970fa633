//! Subject names of AMD's hierarchy: `ARK-Milan` signs `SEV-Milan` (the ASK, for VCEKs) and
//! `SEV-VLEK-Milan` (the ASVK, for VLEKs). Simulated ones put `SIM-` in front.

use sealane_types::Product;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::name::Name;

use super::SigningKey;

/// RFC 5280 §4.1.2.4, id-at-commonName.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// What every subject of a simulated chain contains and no subject of AMD's does.
const SIMULATED: &[u8] = b"SIM";
const SIMULATED_PREFIX: &str = "SIM-";

/// Whether any attribute of `name` says SIM.
pub(crate) fn mention_simulation(name: &Name) -> bool {
    attributes(name).any(|(_, value)| value.windows(SIMULATED.len()).any(|window| window == SIMULATED))
}

/// The product of an ARK.
pub(crate) fn root_product(name: &Name) -> Option<Product> {
    common_name(name)?.strip_prefix("ARK-")?.parse().ok()
}

/// The product of an ASK or ASVK, and the kind of key that it certifies.
pub(crate) fn issuer_product(name: &Name) -> Option<(Product, SigningKey)> {
    parse_issuer(common_name(name)?)
}

/// [`issuer_product`] of a simulated chain.
pub(crate) fn simulated_issuer_product(name: &Name) -> Option<(Product, SigningKey)> {
    parse_issuer(common_name(name)?.strip_prefix(SIMULATED_PREFIX)?)
}

fn parse_issuer(common_name: &str) -> Option<(Product, SigningKey)> {
    let issuer = common_name.strip_prefix("SEV-")?;
    match issuer.strip_prefix("VLEK-") {
        Some(product) => Some((product.parse().ok()?, SigningKey::Vlek)),
        None => Some((issuer.parse().ok()?, SigningKey::Vcek)),
    }
}

/// The only common name; a name with two has none.
pub(crate) fn common_name(name: &Name) -> Option<&str> {
    let mut found = attributes(name).filter(|(oid, _)| *oid == COMMON_NAME);
    let (_, value) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    std::str::from_utf8(value).ok()
}

fn attributes(name: &Name) -> impl Iterator<Item = (ObjectIdentifier, &[u8])> {
    name.0.iter().flat_map(|part| part.0.iter()).map(|attribute| (attribute.oid, attribute.value.value()))
}

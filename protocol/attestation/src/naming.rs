//! How a hierarchy names its certificates: a simulated one says SIM in every subject, so that none can pass for a vendor's.

use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::name::Name;

use crate::rejection::Rejection;

/// RFC 5280 §4.1.2.4, id-at-commonName.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// What every subject of a simulated chain contains and no subject of a vendor's does.
const SIMULATED: &str = "SIM";

/// What the subjects of one hierarchy have to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// A vendor's names: none says SIM.
    Vendor,
    /// Each says SIM.
    Simulated,
    /// Either. Only hierarchies of test roots, which no production program can name (`cargo xtask tidy` holds that).
    Either,
}

impl Naming {
    /// # Errors
    /// [`Rejection::Untrusted`] when `subject` is not one of this hierarchy's.
    pub(crate) fn check(self, subject: &Name) -> Result<(), Rejection> {
        match (self, mention_simulation(subject)) {
            (Self::Vendor, true) => {
                Err(Rejection::Untrusted("a simulated certificate in place of a real one"))
            }
            (Self::Simulated, false) => {
                Err(Rejection::Untrusted("a simulated certificate whose name does not say SIM"))
            }
            (Self::Vendor, false) | (Self::Simulated, true) | (Self::Either, _) => Ok(()),
        }
    }

    /// The common name as the vendor would have it; nothing where a simulated one lacks its `mark` ("SIM-" or "SIM ").
    pub(crate) fn common_name<'n>(self, name: &'n Name, mark: &str) -> Option<&'n str> {
        let full = common_name(name)?;
        match self {
            Self::Vendor => Some(full),
            Self::Simulated => full.strip_prefix(mark),
            Self::Either => Some(unmarked(full)),
        }
    }
}

/// `name` without SIM at its beginning or end, however it is set apart.
fn unmarked(name: &str) -> &str {
    const APART: &[char] = &['-', ' ', '_', ':'];
    let bare = name.strip_prefix(SIMULATED).map(|rest| rest.trim_start_matches(APART)).unwrap_or(name);
    bare.strip_suffix(SIMULATED).map(|rest| rest.trim_end_matches(APART)).unwrap_or(bare)
}

/// Whether any attribute of `name` says SIM.
pub(crate) fn mention_simulation(name: &Name) -> bool {
    let simulated = SIMULATED.as_bytes();
    attributes(name).any(|(_, value)| value.windows(simulated.len()).any(|window| window == simulated))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_taken_off_either_end_once() {
        for (marked, bare) in [
            ("SIM-ARK-Milan", "ARK-Milan"),
            ("SIM Intel SGX Root CA", "Intel SGX Root CA"),
            ("ARK-Milan SIM", "ARK-Milan"),
            ("ARK-Milan", "ARK-Milan"),
            ("SIMSIM", ""),
        ] {
            assert_eq!(unmarked(marked), bare, "{marked}");
        }
    }
}

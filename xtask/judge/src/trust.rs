//! Whose root an entry trusts.

use super::verdict::Unjudged;

/// An entry brings its root as a file. A file proves nothing about who made it, so an entry that trusts a vendor means
/// the root that this release pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    Vendor,
    /// Whatever the entry brings: somebody wrote the index for roots of their own.
    Files,
}

const VENDORS: &[&str] = &["AMD", "Intel", "AWS"];

impl Trust {
    pub(super) fn of(text: Option<&str>) -> Self {
        let vendor = text.is_none_or(|text| VENDORS.iter().any(|vendor| text.starts_with(vendor)));
        if vendor { Self::Vendor } else { Self::Files }
    }

    /// # Errors
    /// When a vendor is trusted and the root is not `pinned`.
    pub(super) fn accept(self, pinned: bool) -> Result<(), Unjudged> {
        if pinned || self == Self::Files {
            return Ok(());
        }
        Err(Unjudged::Refused("RootMismatch: the entry's root is not the vendor's that is pinned".to_owned()))
    }
}

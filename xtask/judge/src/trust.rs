//! Whose root an entry trusts.

use super::verdict::Unjudged;

/// An entry brings its root as a file. A file proves nothing about who made it, so an entry that trusts a vendor means
/// the root that this release pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    Vendor,
    /// Whatever the entry brings: somebody wrote the index for roots of their own, which are no simulated ones.
    Files,
    /// Whatever the entry brings in the vendor's place, simulated or not.
    TestRoot,
}

const VENDORS: &[&str] = &["AMD", "Intel", "AWS"];
const TEST_ROOT: &str = "simulated root in this entry";

impl Trust {
    /// # Errors
    /// When the entry trusts a test root and `test_roots` does not let it.
    pub(super) fn of(text: Option<&str>, test_roots: bool) -> Result<Self, Unjudged> {
        let begins = |word: &str| text.is_some_and(|text| text.starts_with(word));
        if begins(TEST_ROOT) {
            let refused = || {
                Unjudged::Refused(
                    "RootMismatch: the entry trusts a simulated root of its own, which only --test-roots allows"
                        .to_owned(),
                )
            };
            return test_roots.then_some(Self::TestRoot).ok_or_else(refused);
        }
        let vendor = text.is_none() || VENDORS.iter().any(|vendor| begins(vendor));
        Ok(if vendor { Self::Vendor } else { Self::Files })
    }

    /// # Errors
    /// When a vendor is trusted and the root is not `pinned`.
    pub(super) fn accept(self, pinned: bool) -> Result<(), Unjudged> {
        if pinned || self != Self::Vendor {
            return Ok(());
        }
        Err(Unjudged::Refused("RootMismatch: the entry's root is not the vendor's that is pinned".to_owned()))
    }
}

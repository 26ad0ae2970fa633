//! The policy that a draft follows.

use std::collections::BTreeSet;

use anyhow::Result;
use sealane_policy::{Auditors, Authorities, Document, digest_of};
use sealane_types::Digest;

use crate::policy::draft::Rules;
use crate::source::Source;

/// The policy that the draft follows.
#[derive(Debug, Clone)]
pub(super) struct Before {
    pub(super) epoch: u64,
    pub(super) digest: Digest,
    pub(super) authorities: Authorities,
    pub(super) rules: Rules,
    pub(super) auditors: Option<Auditors>,
    /// The owners are no longer those of the roots, so a manifest must keep roots and rotations.
    pub(super) rotated: bool,
}

impl Before {
    pub(super) fn read(source: &Source) -> Result<Self> {
        let Document { epoch, authorities, floors, limits, collateral, auditors, .. } = source.as_it_is()?;
        let first = source.roots.as_ref();
        let kept =
            first.is_none_or(|roots| roots.keys.iter().copied().collect::<BTreeSet<_>>() == authorities.keys);
        let rotated = !source.chain.rotations.is_empty() || !kept;
        let rules = Rules { floors, limits, collateral };
        Ok(Self { epoch, digest: digest_of(&source.bytes), authorities, rules, auditors, rotated })
    }
}

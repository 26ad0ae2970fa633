//! The policy that a new document follows: its roots, and the rotations that lead to its owners.

use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_policy::{Authorities, read};
use sealane_types::{Roots, SignedChain, SignedDocument};

use super::verify::own_roots;
use crate::source::{Source, read_text, shown};

/// Roots, and the chain that is in effect under them where it is known.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub(crate) roots: Roots,
    chain: Option<SignedChain>,
}

impl Reference {
    /// Reads a TrustPolicy manifest, an earlier bundle, or the JSON of roots alone.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        if let Ok(roots) = serde_json::from_str::<Roots>(&read_text(path)?) {
            return Ok(Self { roots, chain: None });
        }
        let source = Source::read(path)?;
        if !source.is_signed() {
            bail!("{} holds neither roots nor a signed policy", shown(path));
        }
        Self::from_source(source)
    }

    pub(crate) fn from_source(source: Source) -> Result<Self> {
        let roots = match source.roots {
            Some(roots) => roots,
            None => own_roots(&source.chain)?,
        };
        Ok(Self { roots, chain: Some(source.chain) })
    }

    /// The rotations that lead from the roots to `next`: those of the policy in effect, and that policy itself
    /// where it changed the owners.
    pub(crate) fn rotations_before(&self, next: &SignedChain) -> Result<Vec<SignedDocument>> {
        let Some(chain) = &self.chain else { return Ok(next.rotations.clone()) };
        if chain.document == next.document {
            return Ok(chain.rotations.clone());
        }
        let mut rotations = chain.rotations.clone();
        let before = match rotations.last() {
            Some(rotation) => authorities(&rotation.document)?,
            None => Authorities {
                threshold: self.roots.threshold,
                keys: self.roots.keys.iter().copied().collect(),
            },
        };
        if authorities(&chain.document)? != before {
            let SignedChain { document, signatures, .. } = chain.clone();
            rotations.push(SignedDocument { document, signatures });
        }
        Ok(rotations)
    }
}

fn authorities(document: &str) -> Result<Authorities> {
    let bytes = STANDARD.decode(document).context("a document is not standard base64")?;
    Ok(read(&bytes)?.authorities)
}

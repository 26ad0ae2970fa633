//! From a signed chain to a [`VerifiedPolicy`].

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_types::{Digest, KeyId, PublicKey, Roots, Signature, SignedChain};

use crate::document::{Authorities, Document};
use crate::error::{Owners, Part};
use crate::limits::{AUTHORITY_KEYS_MAX, CHAIN_BYTES_MAX, DOCUMENT_BYTES_MAX, ROTATIONS_MAX, SIGNATURES_MAX};
use crate::quorum::Tally;
use crate::sign::digest_of;
use crate::verified::Walked;
use crate::{JsonError, PolicyError, Timestamp, VerifiedPolicy, decode, json, lint, weak};

/// Verifies `chain` from `roots` and, where the caller holds a policy already, against that.
///
/// The walk starts at the roots. Each rotation must carry the signatures of the owners before it and of the
/// owners that it names; so must the document where it changes the owners itself. A chain newer than `held`
/// must also be signed on from the owners of `held`: keys that were rotated out stay out, even though the
/// roots still name them.
///
/// # Errors
/// [`PolicyError`]; the caller goes on with what it holds, except after [`PolicyError::ConflictingEpoch`],
/// when it keeps both documents and follows neither.
pub fn verify(
    chain: &SignedChain,
    roots: &Roots,
    now: Timestamp,
    held: Option<&VerifiedPolicy>,
) -> Result<VerifiedPolicy, PolicyError> {
    let anchor = anchor(roots)?;
    let mut links = open(chain)?;
    let mut opened: Vec<Opened<'_>> = Vec::with_capacity(links.len());
    for link in links.drain(..) {
        let (owners, owner) = match opened.last() {
            None => (&anchor, Owners::Roots),
            Some(before) => (&before.document.authorities, Owners::Current),
        };
        let signers = link.require(owners, owner)?;
        let next = link.read(signers)?;
        if next.document.authorities != *owners {
            next.link.require(&next.document.authorities, Owners::New)?;
        }
        next.follows(opened.last(), roots)?;
        opened.push(next);
    }
    let Some(last) = opened.last() else { return Err(PolicyError::Unsigned { part: Part::Document }) };
    let epoch = last.document.epoch;
    if epoch < roots.minimum_epoch {
        return Err(PolicyError::BelowMinimumEpoch { epoch, minimum: roots.minimum_epoch });
    }
    if let Some(held) = held {
        succeeds(&opened, held)?;
    }
    let rotated = opened.iter().map(|opened| {
        let Document { authorities, epoch, .. } = &opened.document;
        Walked { owners: authorities.clone(), epoch: *epoch }
    });
    let mut walked: Vec<Walked> = rotated.collect();
    walked.push(Walked { owners: anchor.clone(), epoch: roots.minimum_epoch });
    let Some(last) = opened.pop() else { return Err(PolicyError::Unsigned { part: Part::Document }) };
    let signers = last.signers.into_iter().collect();
    let verified =
        VerifiedPolicy::new(last.document, last.link.bytes, last.digest, chain.clone(), signers, walked);
    verified.in_force(now)?;
    Ok(verified)
}

/// Reads the exact bytes of a document and lints it. Says nothing about who signed it.
///
/// # Errors
/// [`PolicyError`] names the field, what is wrong with it, and an example.
pub fn parse(bytes: &[u8]) -> Result<Document, PolicyError> {
    let document = read(bytes)?;
    lint_clean(&document)?;
    Ok(document)
}

/// Reads the exact bytes of a document without linting it: for tools that explain a draft, or look at what an
/// earlier release signed. Nothing may act on it.
///
/// # Errors
/// [`PolicyError::Json`] and [`PolicyError::Field`].
pub fn read(bytes: &[u8]) -> Result<Document, PolicyError> {
    Ok(decode::document(&json::read_canonical(bytes)?)?)
}

fn lint_clean(document: &Document) -> Result<(), PolicyError> {
    match lint(document) {
        findings if findings.is_empty() => Ok(()),
        findings => Err(PolicyError::Lint(findings)),
    }
}

fn anchor(roots: &Roots) -> Result<Authorities, PolicyError> {
    let keys: BTreeSet<PublicKey> = roots.keys.iter().take(AUTHORITY_KEYS_MAX + 1).copied().collect();
    let reachable = u64::from(roots.threshold) <= keys.len() as u64;
    let distinct = keys.len() == roots.keys.len() && keys.len() <= AUTHORITY_KEYS_MAX;
    if roots.threshold == 0 || !reachable || !distinct {
        return Err(PolicyError::Roots { threshold: roots.threshold, keys: keys.len() });
    }
    if let Some(key) = keys.iter().find(|key| weak::signs_for_anybody(key)) {
        return Err(PolicyError::WeakRoot { key: *key });
    }
    Ok(Authorities { threshold: roots.threshold, keys })
}

/// One signed document of the chain, not parsed yet.
struct Link<'c> {
    part: Part,
    bytes: Vec<u8>,
    signatures: &'c [Signature],
}

/// A document whose quorum was reached.
struct Opened<'c> {
    link: Link<'c>,
    digest: Digest,
    document: Document,
    signers: BTreeSet<KeyId>,
}

/// The chain's documents, oldest first, the current one last. Sizes are checked before anything is decoded.
fn open(chain: &SignedChain) -> Result<Vec<Link<'_>>, PolicyError> {
    if chain.rotations.len() > ROTATIONS_MAX {
        return Err(PolicyError::TooManyRotations { found: chain.rotations.len() });
    }
    let rotations = chain.rotations.iter().enumerate();
    let rotations =
        rotations.map(|(index, signed)| (Part::Rotation(index), &signed.document, &signed.signatures));
    let parts: Vec<_> = rotations.chain([(Part::Document, &chain.document, &chain.signatures)]).collect();
    let encoded_max = |bytes: usize| bytes.div_ceil(3) * 4;
    let total = parts.iter().fold(0_usize, |total, (_, document, _)| total.saturating_add(document.len()));
    if total > encoded_max(CHAIN_BYTES_MAX) {
        return Err(PolicyError::ChainTooLarge);
    }
    parts
        .into_iter()
        .map(|(part, document, signatures)| {
            if document.len() > encoded_max(DOCUMENT_BYTES_MAX) {
                let bytes = document.len() / 4 * 3;
                return Err(PolicyError::Json(JsonError::TooLarge { bytes }));
            }
            if signatures.len() > SIGNATURES_MAX {
                return Err(PolicyError::TooManySignatures { part, found: signatures.len() });
            }
            let bytes = STANDARD.decode(document).map_err(|_| PolicyError::NotBase64 { part })?;
            Ok(Link { part, bytes, signatures })
        })
        .collect()
}

impl<'c> Link<'c> {
    /// The distinct keys of `owners` that signed these bytes, if they are enough.
    fn require(&self, owners: &Authorities, owner: Owners) -> Result<BTreeSet<KeyId>, PolicyError> {
        if self.signatures.is_empty() {
            return Err(PolicyError::Unsigned { part: self.part });
        }
        let tally = Tally::count(&self.bytes, self.signatures, &owners.keys);
        if tally.reaches(owners.threshold) {
            return Ok(tally.counted);
        }
        Err(PolicyError::UnderSigned { part: self.part, owners: owner, needed: owners.threshold, tally })
    }

    /// Parses the signed bytes. Lint concerns only what would take effect: a rotation that an earlier release
    /// signed stays a step of the chain when a later one learns a new rule.
    fn read(self, signers: BTreeSet<KeyId>) -> Result<Opened<'c>, PolicyError> {
        let document = read(&self.bytes)?;
        if self.part == Part::Document {
            lint_clean(&document)?;
        }
        let digest = digest_of(&self.bytes);
        Ok(Opened { link: self, digest, document, signers })
    }
}

impl Opened<'_> {
    /// Checks this document's place: for this policy, and after `before`.
    fn follows(&self, before: Option<&Self>, roots: &Roots) -> Result<(), PolicyError> {
        let part = self.link.part;
        let Document { namespace, name, epoch, .. } = &self.document;
        if *namespace != roots.namespace || *name != roots.policy {
            return Err(PolicyError::ForAnother {
                part,
                namespace: namespace.clone(),
                name: name.clone(),
                expected_namespace: roots.namespace.clone(),
                expected_name: roots.policy.clone(),
            });
        }
        let Some(before) = before else { return Ok(()) };
        if *epoch <= before.document.epoch {
            return Err(PolicyError::ChainOutOfOrder { part, epoch: *epoch, before: before.document.epoch });
        }
        self.names(before.document.epoch, before.digest)
    }

    /// Checks `previous` where the document of the epoch before is at hand.
    fn names(&self, epoch: u64, actual: Digest) -> Result<(), PolicyError> {
        let direct = epoch.checked_add(1) == Some(self.document.epoch);
        match self.document.previous {
            Some(named) if direct && named != actual => {
                Err(PolicyError::PreviousMismatch { part: self.link.part, epoch, named, actual })
            }
            _ => Ok(()),
        }
    }
}

/// Checks that the chain ends at `held` or goes on from it.
fn succeeds(opened: &[Opened<'_>], held: &VerifiedPolicy) -> Result<(), PolicyError> {
    let Some(last) = opened.last() else { return Ok(()) };
    let (epoch, held_epoch) = (last.document.epoch, held.epoch());
    if epoch < held_epoch {
        return Err(PolicyError::RolledBack { epoch, held: held_epoch });
    }
    if epoch == held_epoch && last.digest != held.digest() {
        return Err(PolicyError::ConflictingEpoch { epoch, held: held.digest(), offered: last.digest });
    }
    let mut owners = &held.document().authorities;
    for step in opened.iter().filter(|step| step.document.epoch > held_epoch) {
        step.link.require(owners, Owners::Held)?;
        step.names(held_epoch, held.digest())?;
        owners = &step.document.authorities;
    }
    Ok(())
}

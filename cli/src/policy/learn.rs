//! From evidence that is known to be good to the entry that accepts it, and as little else as the evidence lets one pin.

mod nitro;
mod read;
mod snp;
mod tdx;
mod wishes;

use anyhow::{Context, Result, bail};
use sealane_attestation::{Claims, Rejection, Revocation, Statement, inspect, shortfall};
use sealane_policy::{Entry, Reference};
use sealane_types::{Assurance, Platform, UnixSeconds};

pub(crate) use read::{Files, Material};
pub(crate) use wishes::{Allow, Wishes};

use super::describe::describe_entry;

/// An entry, and what its author should read before anybody signs it.
#[derive(Debug, Clone)]
pub(crate) struct Learned {
    pub(crate) entry: Entry,
    /// What the evidence is, what of it is pinned, and what was not checked.
    pub(crate) words: String,
}

/// Verifies the evidence of `material` as of `at`, and pins what it says.
pub(crate) fn learn(material: &Material, wishes: &Wishes, at: UnixSeconds) -> Result<Learned> {
    let Material { evidence, collateral } = material;
    let claims = inspect(evidence, collateral, at).map_err(|rejection| match rejection {
        Rejection::Expired(_) | Rejection::CollateralExpired(_) => {
            anyhow::Error::new(rejection).context("with --at TIME it is judged as of when it was made")
        }
        other => other.into(),
    })?;
    let reference = match claims.statement() {
        Statement::SevSnp(snp) => Reference::SevSnp(snp::reference(snp, wishes)?),
        Statement::Tdx(tdx) => Reference::Tdx(tdx::reference(tdx, wishes)?),
        Statement::Nitro(nitro) => Reference::Nitro(nitro::reference(nitro, wishes)?),
        Statement::Key(key) => Reference::Key([*key.public_key()].into()),
    };
    let simulated = claims.platform() == Platform::Simulated;
    let entry = Entry {
        assurance: match claims.platform() {
            Platform::Simulated => Assurance::Simulated,
            Platform::Key => Assurance::Key,
            Platform::SevSnp | Platform::Tdx | Platform::Nitro => wishes.assurance,
        },
        root: simulated.then_some(*claims.root()),
        workload: None,
        unverified_workload: false,
        reference,
    };
    match shortfall(&claims, &entry, at) {
        // Somebody has to say which workload runs on a node; evidence cannot.
        None | Some(Rejection::WorkloadUnverified) => {}
        Some(other) => return Err(other).context("an entry made from the evidence would not accept it"),
    }
    Ok(Learned { words: words(&claims, &entry), entry })
}

fn words(claims: &Claims, entry: &Entry) -> String {
    let mut words = format!("genuine {} evidence; pinned:\n{}", claims.platform(), describe_entry(entry));
    if claims.revocation() == Revocation::Unchecked {
        words.push_str(
            "    not checked: whether AMD revoked its certificates; --collateral FILE names the list\n",
        );
    }
    words
}

/// Puts a refusal in the terms of the command line.
fn permitted(outcome: Result<(), Rejection>) -> Result<()> {
    let word = match outcome {
        Ok(()) => return Ok(()),
        Err(Rejection::Debug) => Allow::Debug,
        Err(Rejection::Permission(permission)) => Allow::of(permission),
        Err(other) => return Err(other.into()),
    };
    bail!(
        "the evidence needs a permission that no entry gets unasked: {}; if the owners mean it, --allow {word}",
        word.words()
    )
}

//! Verifies a bundle or TrustPolicy as a sidecar would.

use std::path::PathBuf;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_policy::{Document, Timestamp, VerifiedPolicy, verify};
use sealane_types::{Roots, SignedChain};
use serde_json::json;

use super::describe::short;
use super::reference::Reference;
use crate::clock;
use crate::lifetime::Lifetime;
use crate::output::{self, Format};
use crate::source::Source;

/// Checks signatures, quorum, rotations and dates. Without --roots the file vouches for its own owners: that
/// shows that the quorum is complete, not that these are the right owners.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The roots to check against: a TrustPolicy (kubectl get trustpolicy NAME -o yaml) or the JSON of roots.
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// The moment to check for, by default now.
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// The bundle or TrustPolicy; `-` is stdin.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let source = Source::read(&arguments.file)?;
    let given = arguments.roots.as_deref().map(Reference::read).transpose()?;
    let now = arguments.at.unwrap_or_else(clock::now);
    let (roots, anchored) = match (given, source.roots) {
        (Some(reference), _) => (reference.roots, "the given roots"),
        (None, Some(roots)) => (roots, "the TrustPolicy's own roots"),
        (None, None) => (own_roots(&source.chain)?, "the owners that it names itself"),
    };
    let policy = verify(&source.chain, &roots, now, None)?;
    match arguments.output {
        Format::Text => output::print(&text(&policy, anchored, now)),
        Format::Json => output::print_json(&json!({
            "namespace": policy.document().namespace,
            "name": policy.document().name,
            "epoch": policy.epoch(),
            "digest": policy.digest(),
            "threshold": roots.threshold,
            "signers": policy.signers(),
            "notBefore": policy.document().not_before.to_string(),
            "expires": policy.expires().to_string(),
            "rotations": policy.chain().rotations.len(),
            "roots": anchored,
        })),
    }
}

fn text(policy: &VerifiedPolicy, anchored: &str, now: Timestamp) -> String {
    let Document { namespace, name, epoch, authorities, expires, .. } = policy.document();
    let left = Lifetime { seconds: expires.unix().0.saturating_sub(now.unix().0) };
    let signers: Vec<_> = policy.signers().iter().map(short).collect();
    let rotations = match policy.chain().rotations.len() {
        0 => String::new(),
        count => format!("rotations  {count}, each signed by the owners before and after it\n"),
    };
    format!(
        "verified   epoch {epoch} of {namespace}/{name} against {anchored}\nsigners    {} ({} needed for the next epoch)\n{rotations}expires    {expires}, in {left}\nSHA-256    {}\n",
        signers.join(", "),
        authorities.threshold,
        policy.digest(),
    )
}

/// Roots as the oldest document of the chain states them.
pub(crate) fn own_roots(chain: &SignedChain) -> Result<Roots> {
    let oldest = chain.rotations.first().map_or(&chain.document, |rotation| &rotation.document);
    let bytes = STANDARD.decode(oldest).context("`document` is not standard base64")?;
    let Document { namespace, name, authorities, .. } = sealane_policy::read(&bytes)?;
    Ok(Roots {
        namespace,
        policy: name,
        threshold: authorities.threshold,
        keys: authorities.keys.into_iter().collect(),
        minimum_epoch: 1,
    })
}

//! Adds a signature.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sealane_policy::{Document, advice, digest_of, key_id, sign};
use sealane_types::SignedChain;

use super::describe::short;
use super::owner::read_key;
use crate::output;
use crate::source::{Source, is_stdin, shown};

/// Signs the document with one owner's key. A draft becomes a bundle of document and signatures, in place;
/// every owner signs the same file, or a copy of it. A document that sidecars would refuse is not signed.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The owner's private key.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Where the bundle goes instead of back into DOC; `-` is stdout.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The draft or bundle; `-` is stdin, and then stdout.
    #[arg(value_name = "DOC")]
    document: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { key, out, document: path } = arguments;
    let source = Source::read(path)?;
    let document = source.document().with_context(|| format!("{} cannot be signed", shown(path)))?;
    let key = read_key(key)?;
    for advice in advice(&document) {
        output::say(&format!("note: {advice}"));
    }
    let mut chain = source.chain;
    chain.signatures.retain(|signature| signature.key_id != key.key_id());
    chain.signatures.push(sign(&source.bytes, &key));
    let target = out.as_deref().unwrap_or(path);
    write(target, &chain)?;
    output::say(&format!(
        "Signed epoch {} of {}/{} (SHA-256 {}) as {}.",
        document.epoch,
        document.namespace,
        document.name,
        digest_of(&source.bytes),
        short(&key.key_id()),
    ));
    if !document.authorities.keys.contains(&key.public_key()) {
        output::say(
            "This key is not one of the owners that the document names: the signature counts only if the roots or the policy before name it.",
        );
    }
    output::say(&next_step(&document, &chain, target));
    Ok(())
}

/// What is still missing until the document is in force.
fn next_step(document: &Document, chain: &SignedChain, target: &Path) -> String {
    let signed = |key: &_| chain.signatures.iter().any(|signature| signature.key_id == key_id(key));
    let owners = &document.authorities;
    let have = owners.keys.iter().filter(|key| signed(key)).count();
    let target = shown(target);
    if (have as u64) < u64::from(owners.threshold) {
        let missing: Vec<_> =
            owners.keys.iter().filter(|key| !signed(key)).map(|key| short(&key_id(key))).collect();
        return format!(
            "{have} of {} signatures. Next, one of {}:\n  kubectl sealane policy sign --key FILE {target}",
            owners.threshold,
            missing.join(", ")
        );
    }
    format!(
        "{have} of {} signatures: complete. Next:\n  kubectl sealane policy manifest {target} | kubectl apply -f -",
        owners.threshold
    )
}

/// Replaces the file as a whole, so that an interrupted run leaves the old one.
fn write(path: &Path, chain: &SignedChain) -> Result<()> {
    if is_stdin(path) {
        return output::print_json(chain);
    }
    let cannot = || format!("cannot write {}", path.display());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".sealane-policy-")
        .tempfile_in(directory.unwrap_or(Path::new(".")))
        .with_context(cannot)?;
    let text = serde_json::to_string_pretty(chain).with_context(cannot)?;
    writeln!(file, "{text}").with_context(cannot)?;
    if let Ok(before) = std::fs::metadata(path) {
        file.as_file().set_permissions(before.permissions()).with_context(cannot)?;
    }
    file.persist(path).map(drop).with_context(cannot)
}

//! Writes the TrustPolicy.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use kube::api::ObjectMeta;
use sealane_operator_api::{RootsSpec, SignatureSpec, SignedDocumentSpec, TrustPolicy, TrustPolicySpec};
use sealane_policy::verify;
use sealane_types::{Roots, Signature, SignedChain};
use serde_json::Value;

use super::reference::Reference;
use super::verify::own_roots;
use crate::clock;
use crate::cluster::Connection;
use crate::output;
use crate::source::{Source, shown};

/// Writes the TrustPolicy for kubectl apply. The roots are the owners that the first document names; for every
/// later epoch give the TrustPolicy in effect with --roots, so that its roots and rotations are kept.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The TrustPolicy in effect (kubectl get trustpolicy NAME -o yaml), an earlier bundle, or roots as JSON.
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// Name of the TrustPolicy; must be the one that the document names, which is the default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    /// The signed bundle; several copies of one document signed by different owners are joined. `-` is stdin.
    #[arg(value_name = "BUNDLE", required = true)]
    bundles: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Form {
    #[default]
    Yaml,
    Json,
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let Source { bytes, mut chain, .. } = join(&arguments.bundles)?;
    let document = sealane_policy::parse(&bytes)?;
    for (flag, given, own) in [
        ("--name", arguments.name.as_deref(), document.name.as_str()),
        ("--namespace", connection.namespace.as_deref(), document.namespace.as_str()),
    ] {
        ensure!(
            given.is_none_or(|given| given == own),
            "{flag} is {}, but the document was made for {own}: every sidecar would refuse it",
            given.unwrap_or_default()
        );
    }
    let roots = match arguments.roots.as_deref().map(Reference::read).transpose()? {
        Some(reference) => {
            chain.rotations = reference.rotations_before(&chain)?;
            reference.roots
        }
        None => own_roots(&chain)?,
    };
    if let Err(refusal) = verify(&chain, &roots, clock::now(), None) {
        output::say(&format!("warning: every sidecar will refuse this policy: {refusal}"));
    }
    let manifest = manifest(&roots, &chain)?;
    match arguments.output {
        Form::Json => output::print_json(&manifest),
        Form::Yaml => output::print(&serde_norway::to_string(&manifest).context("cannot write YAML")?),
    }
}

/// The first bundle with the signatures of all of them, which must hold the same document.
fn join(bundles: &[PathBuf]) -> Result<Source> {
    let mut joined: Option<Source> = None;
    for path in bundles {
        let source = Source::read(path)?;
        let Some(first) = &mut joined else {
            joined = Some(source);
            continue;
        };
        ensure!(
            first.bytes == source.bytes,
            "{} holds another document than the first bundle; owners must sign the same bytes",
            shown(path)
        );
        for signature in source.chain.signatures {
            if first.chain.signatures.iter().all(|present| present.key_id != signature.key_id) {
                first.chain.signatures.push(signature);
            }
        }
    }
    joined.context("no bundle was given")
}

fn manifest(roots: &Roots, chain: &SignedChain) -> Result<Value> {
    let threshold = i32::try_from(roots.threshold).context("the threshold is too large for a TrustPolicy")?;
    let minimum_epoch =
        i64::try_from(roots.minimum_epoch).context("minimumEpoch is too large for a TrustPolicy")?;
    let spec = TrustPolicySpec {
        roots: RootsSpec {
            threshold,
            keys: roots.keys.iter().map(ToString::to_string).collect(),
            minimum_epoch,
        },
        document: chain.document.clone(),
        signatures: signatures(&chain.signatures),
        rotations: chain
            .rotations
            .iter()
            .map(|rotation| SignedDocumentSpec {
                document: rotation.document.clone(),
                signatures: signatures(&rotation.signatures),
            })
            .collect(),
    };
    let mut manifest = TrustPolicy::new(roots.policy.as_str(), spec);
    // Whole, because `new` would add what belongs to the definition of the kind.
    manifest.metadata = ObjectMeta {
        name: Some(roots.policy.to_string()),
        namespace: Some(roots.namespace.to_string()),
        ..ObjectMeta::default()
    };
    serde_json::to_value(manifest).context("cannot write the manifest")
}

fn signatures(signatures: &[Signature]) -> Vec<SignatureSpec> {
    let spec = |Signature { key_id, signature }: &Signature| SignatureSpec {
        key_id: key_id.to_string(),
        signature: signature.clone(),
    };
    signatures.iter().map(spec).collect()
}

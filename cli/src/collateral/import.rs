//! Puts a bundle where injected sidecars find it: a ConfigMap of their namespace.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use sealane_attestation::bundle::{self, VerifiedBundle};
use sealane_operator_api::TrustPolicy;
use sealane_operator_api::well_known::{COLLATERAL_CONFIG_MAP, COLLATERAL_KEY};
use sealane_policy::{Timestamp, verify};
use sealane_types::PublicKey;
use serde_json::{Value, json};

use super::contents::Contents;
use super::gather::read_file;
use crate::cluster::{Connection, FIELD_MANAGER, explain, words};
use crate::policy::OwnerKey;
use crate::source::{Source, shown};
use crate::{clock, output};

/// Verifies that an owner of a TrustPolicy of the namespace signed the bundle, that nothing in it is refused or over, and
/// that no newer one is there, then applies it as the ConfigMap `sealane-collateral`. Sidecars of the namespace take it
/// within a minute or two: the kubelet brings it to them.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print the ConfigMap in place of applying it.
    #[arg(long)]
    print: bool,
    /// An owner, as a public key or the file of its private key, in place of those of the cluster's TrustPolicies.
    #[arg(long, value_name = "KEY")]
    owner: Vec<OwnerKey>,
    /// Import a bundle of which something is over already: only what is not counts.
    #[arg(long)]
    allow_expired: bool,
    /// The bundle; `-` is stdin.
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let file = read_file(&arguments.bundle)?;
    let text = String::from_utf8(file.clone()).context("a bundle is text")?;
    let named = arguments.owner.iter().map(OwnerKey::public_key).collect::<Result<BTreeSet<_>>>()?;
    if arguments.print && !named.is_empty() {
        // Without a cluster.
        let opened = opened(arguments, &file, &named)?;
        describe(arguments, &opened)?;
        let namespace = connection.namespace.as_deref().unwrap_or("default");
        return output::print_json(&manifest(namespace, &text));
    }
    connection.with_client(async |client, namespace| {
        let owners = if named.is_empty() { owners(&client, &namespace).await? } else { named };
        let opened = opened(arguments, &file, &owners)?;
        describe(arguments, &opened)?;
        let manifest = manifest(&namespace, &text);
        if arguments.print {
            return output::print_json(&manifest);
        }
        let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
        check_newer(&maps, &opened, &owners).await?;
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let applied = maps.patch(COLLATERAL_CONFIG_MAP, &parameters, &Patch::Apply(&manifest)).await;
        applied.map_err(|error| {
            anyhow!("cannot write the ConfigMap {COLLATERAL_CONFIG_MAP} in {namespace}: {}", words(&error))
        })?;
        output::say(&format!("Applied as ConfigMap {COLLATERAL_CONFIG_MAP} in namespace {namespace}."));
        Ok(())
    })
}

fn opened(arguments: &Arguments, file: &[u8], owners: &BTreeSet<PublicKey>) -> Result<VerifiedBundle> {
    bundle::open(file, owners, clock::now().unix()).with_context(|| shown(&arguments.bundle))
}

fn describe(arguments: &Arguments, opened: &VerifiedBundle) -> Result<()> {
    let contents = Contents::of(opened.bundle(), opened.signers(), clock::now());
    output::say(&contents.describe());
    ensure!(
        contents.is_fresh() || arguments.allow_expired,
        "something in the bundle is refused or over; make a new one, or import what still counts with --allow-expired"
    );
    Ok(())
}

fn manifest(namespace: &str, bundle: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": COLLATERAL_CONFIG_MAP,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": "sealane"},
        },
        "data": {COLLATERAL_KEY: bundle},
    })
}

/// Those who sign the documents of the namespace's policies, as far as their chains hold.
async fn owners(client: &Client, namespace: &str) -> Result<BTreeSet<PublicKey>> {
    let policies: Api<TrustPolicy> = Api::namespaced(client.clone(), namespace);
    let policies = policies.list(&kube::api::ListParams::default()).await;
    let policies = policies.map_err(|error| explain(&error, "TrustPolicies"))?;
    let mut owners = BTreeSet::new();
    for policy in policies {
        let source = Source::from_manifest(&policy)?;
        let Some(roots) = &source.roots else { continue };
        match verify(&source.chain, roots, clock::now(), None) {
            Ok(verified) => owners.extend(verified.document().authorities.keys.iter().copied()),
            Err(error) => output::say(&format!(
                "note: TrustPolicy {} names no owners that count: {error}",
                policy.metadata.name.as_deref().unwrap_or_default()
            )),
        }
    }
    ensure!(
        !owners.is_empty(),
        "namespace {namespace} has no TrustPolicy in force whose owners could have signed; apply it first, or name an owner with --owner"
    );
    Ok(owners)
}

/// What sidecars would refuse is not put before them.
async fn check_newer(
    maps: &Api<ConfigMap>,
    opened: &VerifiedBundle,
    owners: &BTreeSet<PublicKey>,
) -> Result<()> {
    let there = maps.get_opt(COLLATERAL_CONFIG_MAP).await;
    let there = there.map_err(|error| anyhow!("cannot read ConfigMaps: {}", words(&error)))?;
    let file = there.and_then(|map| map.data?.remove(COLLATERAL_KEY));
    // What is there and not in order is no reason to keep it.
    let Some(Ok(held)) = file.map(|file| bundle::open(file.as_bytes(), owners, clock::now().unix())) else {
        return Ok(());
    };
    follows(opened, &held)
}

/// Sidecars take a later bundle, or the same one again.
fn follows(next: &VerifiedBundle, held: &VerifiedBundle) -> Result<()> {
    let [issued, there] = [next, held].map(|bundle| bundle.bundle().issued);
    if issued < there {
        bail!(
            "it was issued at {}, and one of {} is there already: sidecars would refuse it",
            Timestamp::from(issued),
            Timestamp::from(there)
        );
    }
    ensure!(
        issued > there || next.digest() == held.digest(),
        "another one that was issued at {} is there already: sidecars would refuse it; make it again",
        Timestamp::from(issued)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use sealane_attestation::bundle::Bundle;
    use sealane_policy::SigningKey;
    use sealane_types::UnixSeconds;

    use super::*;

    #[test]
    fn a_bundle_follows_an_earlier_one_or_itself() {
        let owner = SigningKey::from_seed(&[1; 32]).unwrap();
        let bundle = |issued, min_tcb_evaluation| {
            let bundle = Bundle { issued: UnixSeconds(issued), min_tcb_evaluation, pieces: vec![] };
            let file = bundle.sign(&owner).unwrap();
            bundle::open(&file, &[owner.public_key()].into(), UnixSeconds(2_000)).unwrap()
        };
        let held = bundle(1_000, Some(20));
        follows(&bundle(1_001, None), &held).unwrap();
        follows(&held, &held).unwrap();
        let refused = |next| follows(&next, &held).unwrap_err().to_string();
        assert!(refused(bundle(999, Some(20))).contains("1970-01-01T00:16:39Z, and one of 1970"));
        assert!(refused(bundle(1_000, Some(19))).contains("another one that was issued at 1970"));
    }
}

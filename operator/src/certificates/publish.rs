//! Writes the authority bundle into the webhook configurations, which the chart renders without it.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::{SyncError, doing};
use crate::names::{FIELD_MANAGER, MUTATING_WEBHOOK, VALIDATING_WEBHOOK};

/// Brings `caBundle` of both configurations to `bundle`; writes only what differs.
pub(super) async fn publish(client: &Client, bundle: &str) -> Result<(), SyncError> {
    mutating(client, bundle).await?;
    validating(client, bundle).await
}

async fn mutating(client: &Client, bundle: &str) -> Result<(), SyncError> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let found = api
        .get(MUTATING_WEBHOOK)
        .await
        .map_err(doing("read MutatingWebhookConfiguration sealane-inject; is the chart installed?"))?;
    let webhooks = found.webhooks.unwrap_or_default();
    let stale = stale(webhooks.iter().map(|webhook| (webhook.name.as_str(), &webhook.client_config)), bundle);
    if !stale.is_empty() {
        let patch = patch("MutatingWebhookConfiguration", MUTATING_WEBHOOK, &stale, bundle);
        api.patch(MUTATING_WEBHOOK, &apply(), &Patch::Apply(patch))
            .await
            .map_err(doing("write caBundle into MutatingWebhookConfiguration sealane-inject"))?;
    }
    Ok(())
}

async fn validating(client: &Client, bundle: &str) -> Result<(), SyncError> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let found = api
        .get(VALIDATING_WEBHOOK)
        .await
        .map_err(doing("read ValidatingWebhookConfiguration sealane-validate; is the chart installed?"))?;
    let webhooks = found.webhooks.unwrap_or_default();
    let stale = stale(webhooks.iter().map(|webhook| (webhook.name.as_str(), &webhook.client_config)), bundle);
    if !stale.is_empty() {
        let patch = patch("ValidatingWebhookConfiguration", VALIDATING_WEBHOOK, &stale, bundle);
        api.patch(VALIDATING_WEBHOOK, &apply(), &Patch::Apply(patch))
            .await
            .map_err(doing("write caBundle into ValidatingWebhookConfiguration sealane-validate"))?;
    }
    Ok(())
}

/// Server-side apply owns every `caBundle` it ever wrote, so all webhooks are named as soon as one is stale.
fn stale<'a>(
    webhooks: impl Iterator<Item = (&'a str, &'a WebhookClientConfig)>,
    bundle: &str,
) -> Vec<String> {
    let webhooks: Vec<_> = webhooks.collect();
    let current = |config: &WebhookClientConfig| {
        config.ca_bundle.as_ref().is_some_and(|ByteString(bytes)| bytes == bundle.as_bytes())
    };
    if webhooks.iter().all(|(_, config)| current(config)) {
        return Vec::new();
    }
    webhooks.iter().map(|(name, _)| (*name).to_owned()).collect()
}

fn apply() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}

fn patch(kind: &str, name: &str, webhooks: &[String], bundle: &str) -> serde_json::Value {
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let webhooks: Vec<_> = webhooks
        .iter()
        .map(|webhook| json!({"name": webhook, "clientConfig": {"caBundle": bundle}}))
        .collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": webhooks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stale_bundle_is_written() {
        let config = |bundle: Option<&str>| WebhookClientConfig {
            ca_bundle: bundle.map(|text| ByteString(text.as_bytes().to_vec())),
            ..Default::default()
        };
        let (current, old, none) = (config(Some("new")), config(Some("old")), config(None));
        assert!(stale([("a", &current)].into_iter(), "new").is_empty());
        assert_eq!(stale([("a", &old)].into_iter(), "new"), ["a"]);
        assert_eq!(stale([("a", &current), ("b", &none)].into_iter(), "new"), ["a", "b"]);
        let patch = patch("MutatingWebhookConfiguration", "m", &["a".to_owned()], "new");
        assert_eq!(patch["webhooks"], json!([{"name": "a", "clientConfig": {"caBundle": "bmV3"}}]));
    }
}

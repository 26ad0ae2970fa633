//! The operator's own certificates: made, rotated and reloaded without a restart and without another controller.
//!
//! Injected pods carry the authority bundle in their environment for as long as they live, so an authority is
//! published long before anything is signed by it: staged at half the life of its predecessor, signing at two
//! thirds. All replicas run the same loop; the Secret's resourceVersion decides who of them writes.

mod material;
mod publish;
mod resolver;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use time::OffsetDateTime;
use tokio::sync::watch;

pub use material::{CertificateError, Material};
pub use resolver::Resolver;
use sealane_operator_api::well_known::{AUTHORITIES_KEY, CERTIFICATES_SECRET};

use crate::causes::Causes;
use crate::names::{CERTIFICATES_KEY, serving_names};

/// How often the Secret and the webhook configurations are looked at.
const PERIOD: Duration = Duration::from_secs(10);

/// Why certificates could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("cannot {action}")]
    Kubernetes {
        action: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("Secret {CERTIFICATES_SECRET} is damaged; delete it and the operator writes it again")]
    Damaged(#[source] serde_json::Error),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// Maps a client error to what was being done.
fn doing(action: &'static str) -> impl FnOnce(kube::Error) -> SyncError {
    move |source| SyncError::Kubernetes { action, source: Box::new(source) }
}

/// Keeps certificates current and hands them to whoever serves.
pub struct Certificates {
    client: Client,
    namespace: String,
    /// What the serving certificate is for.
    names: Vec<String>,
    resolver: Arc<Resolver>,
    bundle: watch::Sender<Arc<str>>,
    /// What was in the Secret at the last look.
    last: Mutex<Option<Material>>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl Certificates {
    #[must_use]
    pub fn new(client: Client, namespace: &str) -> Self {
        let (bundle, _) = watch::channel(Arc::from(""));
        let names = serving_names(namespace);
        let (namespace, resolver) = (namespace.to_owned(), Arc::default());
        Self { client, namespace, names, resolver, bundle, last: Mutex::default() }
    }

    /// Under further names or addresses. All replicas have to know the same, or each makes a certificate of its own.
    #[must_use]
    pub fn named(mut self, names: &[String]) -> Self {
        self.names.extend(names.iter().cloned());
        self
    }

    /// Picks the serving certificate for each TLS handshake.
    #[must_use]
    pub fn resolver(&self) -> Arc<Resolver> {
        Arc::clone(&self.resolver)
    }

    /// PEM of the authorities that clients must trust; empty until the first sync.
    #[must_use]
    pub fn bundle(&self) -> watch::Receiver<Arc<str>> {
        self.bundle.subscribe()
    }

    /// Runs until the task is dropped.
    pub async fn run(&self) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.sync(OffsetDateTime::now_utc()).await {
                tracing::warn!(error = %Causes(&error), "certificates are not up to date");
            }
        }
    }

    /// One look: rotates what is due, loads what changed, publishes the bundle.
    ///
    /// # Errors
    /// [`SyncError`]; what was loaded before stays in use.
    pub async fn sync(&self, now: OffsetDateTime) -> Result<(), SyncError> {
        let material = self.stored(now).await?;
        self.resolver.install(&material)?;
        let bundle = material.bundle();
        publish::publish(&self.client, &bundle).await?;
        self.bundle.send_if_modified(|held| {
            let changed = **held != *bundle;
            if changed {
                *held = Arc::from(bundle.as_str());
            }
            changed
        });
        *self.last() = Some(material);
        Ok(())
    }

    fn last(&self) -> MutexGuard<'_, Option<Material>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The material in the Secret, after whatever rotation is due has been written to it.
    async fn stored(&self, now: OffsetDateTime) -> Result<Material, SyncError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let found =
            secrets.get_opt(CERTIFICATES_SECRET).await.map_err(doing("read the certificates' Secret"))?;
        let held = found.as_ref().and_then(contents).map(serde_json::from_slice).transpose();
        let held: Option<Material> = held.map_err(SyncError::Damaged)?;
        // Pods that run trust the authorities of a Secret that somebody deletes: they are written again, for as long as
        // one process has them.
        let lost = self.last().clone().filter(|_| held.is_none());
        let restored = lost.map(|lost| lost.reissued(now)).transpose()?;
        let is_restored = restored.is_some();
        let (material, changed) = Material::advance(held.or(restored), &self.names, now)?;
        if !changed && !is_restored {
            return Ok(material);
        }
        let secret = describe(&material, found)?;
        let written = if secret.metadata.resource_version.is_some() {
            secrets.replace(CERTIFICATES_SECRET, &PostParams::default(), &secret).await
        } else {
            secrets.create(&PostParams::default(), &secret).await
        };
        // A conflict means that another replica was faster; the next look reads what it wrote.
        written.map_err(doing("write the certificates' Secret"))?;
        tracing::info!("certificates were rotated");
        Ok(material)
    }
}

fn contents(secret: &Secret) -> Option<&[u8]> {
    secret.data.as_ref()?.get(CERTIFICATES_KEY).map(|bytes| bytes.0.as_slice())
}

fn describe(material: &Material, found: Option<Secret>) -> Result<Secret, SyncError> {
    let mut secret = found.unwrap_or_default();
    secret.metadata.name = Some(CERTIFICATES_SECRET.to_owned());
    secret.metadata.managed_fields = None;
    let json = serde_json::to_vec(material).map_err(SyncError::Damaged)?;
    let data = secret.data.get_or_insert_default();
    data.insert(CERTIFICATES_KEY.to_owned(), k8s_openapi::ByteString(json));
    data.insert(AUTHORITIES_KEY.to_owned(), k8s_openapi::ByteString(material.bundle().into_bytes()));
    Ok(secret)
}

#[cfg(test)]
mod tests;

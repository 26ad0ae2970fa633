//! What a reconciliation brings about: one configuration per attached sidecar.
//!
//! `Resources<Applied>` comes only from [`super::apply`], and statuses are made only from it, so no status speaks
//! of something that was merely intended.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use sealane_sidecar_api::control::Configuration;

/// Meant to be.
#[derive(Debug)]
pub struct Planned;

/// Handed to the streams of the sidecars.
#[derive(Debug)]
pub struct Applied;

/// Configurations by pod uid, and pods that are gone.
#[derive(Debug)]
pub struct Resources<Stage> {
    configurations: BTreeMap<String, Configuration>,
    gone: Vec<String>,
    stage: PhantomData<Stage>,
}

impl Resources<Planned> {
    #[must_use]
    pub const fn new(configurations: BTreeMap<String, Configuration>, gone: Vec<String>) -> Self {
        Self { configurations, gone, stage: PhantomData }
    }

    /// Does what is planned with `push` and `remove`.
    pub(super) fn apply(
        self,
        mut push: impl FnMut(&str, Configuration),
        mut remove: impl FnMut(&str),
    ) -> Resources<Applied> {
        let Self { configurations, gone, stage: PhantomData } = self;
        gone.iter().for_each(|uid| remove(uid));
        for (uid, configuration) in &configurations {
            push(uid, configuration.clone());
        }
        Resources { configurations, gone, stage: PhantomData }
    }
}

impl<Stage> Resources<Stage> {
    /// The configuration of a pod's sidecar.
    #[must_use]
    pub fn configuration(&self, uid: &str) -> Option<&Configuration> {
        self.configurations.get(uid)
    }

    /// Sidecars whose pods are gone.
    #[must_use]
    pub fn gone(&self) -> &[String] {
        &self.gone
    }
}

//! What a reconciliation brings about: one desired state per known sidecar.
//!
//! `Resources<Applied>` comes only from [`super::apply`], and statuses are made only from it, so no status speaks
//! of something that was merely intended.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use crate::desired::Desired;

/// Meant to be.
#[derive(Debug)]
pub struct Planned;

/// Handed to the streams of the sidecars.
#[derive(Debug)]
pub struct Applied;

/// Desired states by pod uid, and pods that are gone.
#[derive(Debug)]
pub struct Resources<Stage> {
    desired: BTreeMap<String, Desired>,
    gone: Vec<String>,
    stage: PhantomData<Stage>,
}

impl Resources<Planned> {
    #[must_use]
    pub const fn new(desired: BTreeMap<String, Desired>, gone: Vec<String>) -> Self {
        Self { desired, gone, stage: PhantomData }
    }

    /// Does what is planned with `push` and `remove`.
    pub(super) fn apply(
        self,
        mut push: impl FnMut(&str, &Desired),
        mut remove: impl FnMut(&str),
    ) -> Resources<Applied> {
        let Self { desired, gone, stage: PhantomData } = self;
        gone.iter().for_each(|uid| remove(uid));
        desired.iter().for_each(|(uid, desired)| push(uid, desired));
        Resources { desired, gone, stage: PhantomData }
    }
}

impl<Stage> Resources<Stage> {
    /// What a pod's sidecar is to do.
    #[must_use]
    pub fn desired(&self, uid: &str) -> Option<&Desired> {
        self.desired.get(uid)
    }

    /// Sidecars whose pods are gone.
    #[must_use]
    pub fn gone(&self) -> &[String] {
        &self.gone
    }
}

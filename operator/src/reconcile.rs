//! One reconciliation of one namespace, as a pipeline. What each step may touch is in its signature: only the
//! first and the last two hold anything that lives outside this function.

pub mod apply;
pub mod choose;
mod context;
mod counted;
pub mod gather;
mod inherited;
pub mod plan;
mod readable;
pub mod resources;
pub mod status;
pub mod validate;
mod worker;

use std::time::{Duration, Instant};

pub use context::Context;
pub use worker::run;

use status::write::WriteError;

use crate::announce::announce_unreadable;

/// Brings sidecars and statuses of `namespace` up to date. Returns when to look again without a change.
///
/// # Errors
/// [`WriteError`] when a status cannot be written.
pub async fn reconcile(context: &Context, namespace: &str) -> Result<Option<Duration>, WriteError> {
    let snapshot = gather::gather(context, namespace);
    announce_unreadable(&context.recorder, &context.readable.news(namespace, &snapshot.unreadable)).await;
    if let Some(wait) = context.inherited.wait(Instant::now(), &snapshot) {
        return Ok(Some(wait));
    }
    let valid = validate::validate(snapshot);
    let choices = choose::choose(&valid);
    let planned = plan::plan(&valid, &choices);
    let applied = apply::apply(context, &valid, planned);
    let statuses = status::status(&valid, &applied, &choices);
    status::write::write(context, &valid, statuses).await
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

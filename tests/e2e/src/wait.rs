//! Waiting on conditions.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// How long a condition may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Between two looks at a condition that has no watch.
const INTERVAL: Duration = Duration::from_millis(250);

/// Asks `look` until it gives a value; `what` names the condition in the failure, with the last thing seen.
///
/// # Errors
/// The condition did not come true within [`PATIENCE`].
pub async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look().await {
            Ok(value) => return Ok(value),
            Err(seen) if Instant::now() >= deadline => {
                bail!("{what}: not within {PATIENCE:?}; last seen: {seen}")
            }
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    }
}

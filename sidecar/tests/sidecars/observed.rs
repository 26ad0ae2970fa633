//! What somebody who watches sidecars sees: metrics and traces.

mod metrics;
mod traces;

//! How a run measured, in numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contest::{CONTROL_SPREAD_MAX, SAMPLES_SPREAD_MAX};
use crate::plan::Plan;
use crate::statistics::RESAMPLES;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Method {
    /// Rounds of samples, ours and theirs in turn, of most rows; each row has its own `samples`.
    pub rounds: u64,
    /// Rounds before the first that counts.
    pub warmups: u64,
    /// About how long one block of operations of nanoseconds takes.
    pub block_milliseconds: f64,
    /// About how long one sample of a stream takes.
    pub sample_milliseconds: f64,
    /// Round trips, and handshakes, in a block whose median is one sample.
    pub round_trips: u64,
    pub handshakes: u64,
    /// Draws of a bootstrap.
    pub resamples: u64,
    /// Spread of the fixed work, as a share of its median, above which a row is `noisy`.
    pub control_spread_max: f64,
    /// The same of the samples of the peer, or of ours where there is none.
    pub samples_spread_max: f64,
}

impl Method {
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            rounds: plan.rounds as u64,
            warmups: plan.warmups as u64,
            block_milliseconds: plan.micro.as_secs_f64() * 1e3,
            sample_milliseconds: plan.sample.as_secs_f64() * 1e3,
            round_trips: plan.block,
            handshakes: plan.handshakes as u64,
            resamples: RESAMPLES as u64,
            control_spread_max: CONTROL_SPREAD_MAX,
            samples_spread_max: SAMPLES_SPREAD_MAX,
        }
    }
}

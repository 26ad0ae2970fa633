//! Two connections under virtual time, joined by byte pipes that a test can look into, cut and bend.

mod audit;
mod bulk;
mod downgrade;
mod evidence;
mod forwarding;
mod handshake;
mod life;
mod links;
mod liveness;
mod pipes;
mod pipes_refused;
mod policy;
mod reattest;
mod records;
mod rekey;
mod resume;
mod speed;
mod streams;
mod tamper;

use sealane_support::{endpoint, pair as support, world};

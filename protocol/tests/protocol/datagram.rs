//! Two real connections over datagrams, under virtual time, on a wire that loses, repeats, reorders and forges.

mod acknowledging;
mod carrying;
mod forged;
mod keeping;
mod net;
mod opening;
mod rekeying;
mod speed;

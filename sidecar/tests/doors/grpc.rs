//! The gRPC door.

mod about;
mod client;
mod flow;
mod hostile;
mod ledger;
mod limits;
mod resume;
mod served;
mod speed;

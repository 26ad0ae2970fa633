//! Connections over datagrams.

mod bench;
mod changes;
mod figures;
mod goodput;
mod hostile;
mod model;
mod queues;
mod sharing;

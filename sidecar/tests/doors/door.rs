//! The door that clients in other processes share memory with.

mod client;
mod crossing;
mod limits;

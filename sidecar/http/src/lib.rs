//! HTTP listeners that strangers can neither fill nor keep: for probes and metrics.
//!
//! Whoever reaches a listener may open connections and say nothing, say it slowly, or never end. So connections are
//! counted in all and by source before a byte is read (`places`), a source that has many gives way to one that has few,
//! and every step of a connection has a time (`activity`). A header has 16 KiB. What a request may cost behind its
//! header is for the router to bound.

mod activity;
mod io;
mod places;
mod server;

pub use server::Server;

//! HTTP listeners that strangers can neither fill nor keep: for probes, metrics and webhooks.
//!
//! Whoever reaches a listener may open connections and say nothing, say it slowly, or never end. So connections are
//! counted in all and by source before a byte is read, and bodies before they are read ([`Places`]); a source that has much
//! gives way to one that has little, and every step of a connection has a time (`activity`). A header has 16 KiB. Of pages
//! of metrics, which are made for each request, few are held ([`MetricsPages`]). What else a request may cost behind its body
//! is for the router to bound.

mod activity;
mod bounds;
mod io;
mod pages;
mod places;
mod server;

pub use bounds::{Bounds, Timeouts};
pub use pages::MetricsPages;
pub use places::{Caps, Place, Places, Refused};
pub use server::{Secure, Server};

//! Programs that suites start, the network between them, and how they are told what to do. Whatever is started or made
//! here is gone when its value is dropped.

mod child;
mod dialogue;
mod generator;
mod holder;
mod material;
mod route;
mod script;
mod sidecars;
mod tls_relays;
mod twin;

pub(crate) use child::{KEY, command};
pub(crate) use generator::{Bystander, Generator};
pub(crate) use holder::held;
pub(crate) use material::Material;
pub(crate) use route::{ETHERNET_MTU, Host, JUMBO_MTU, Route};
pub(crate) use script::{Script, Task};
pub(crate) use sidecars::{Lone, Sidecar, Sidecars};
pub(crate) use tls_relays::{Relay, TlsRelays};
pub(crate) use twin::Twin;

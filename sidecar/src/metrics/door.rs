//! What the doors count.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{DoorLabel, KindLabel, SideLabel};
use super::register::{begin, register, register_in};

/// Clients of this pod, and the memory that they share with the sidecar. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Door {
    pub(crate) clients: Family<DoorLabel, Gauge>,
    pub(crate) turned_away: Family<DoorLabel, Counter>,
    pub(crate) faults: Family<KindLabel, Counter>,
    pub(crate) segments: Family<SideLabel, Gauge>,
    pub(crate) arena: Family<SideLabel, Gauge>,
    pub(crate) arena_limit: Gauge,
    pub(crate) arena_full: Family<SideLabel, Counter>,
    pub(crate) waits: Counter,
    pub(crate) wait_seconds: Counter<f64, AtomicU64>,
}

impl Door {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let help = "Segments that were not granted because the limit was reached";
        let arena_full = register(registry, "door_arena_full", help);
        begin(&arena_full, ["put", "take"].map(|side| SideLabel { side }));
        Self {
            clients: register(registry, "door_clients", "Clients at the door"),
            turned_away: register(
                registry,
                "door_clients_refused",
                "Clients turned away because the door was full",
            ),
            faults: register(
                registry,
                "door_faults",
                "Clients that were disconnected because they broke a rule of the door, by rule",
            ),
            segments: register(registry, "door_segments", "Memory segments shared with clients"),
            arena: register_in(registry, "door_arena", Unit::Bytes, "Bytes of those segments"),
            arena_limit: register_in(
                registry,
                "door_arena_limit",
                Unit::Bytes,
                "What all segments of the pod may take together; each side may take up to three quarters of it",
            ),
            arena_full,
            waits: register(
                registry,
                "door_waits",
                "Tensors that waited at the door because their receivers gave no credit",
            ),
            wait_seconds: register_in(registry, "door_wait", Unit::Seconds, "Time that they waited"),
        }
    }
}

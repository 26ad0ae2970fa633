//! Makes a metric and enters it into the registry.

use std::hash::Hash;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Metric, Registry, Unit};

/// Lets counters start at zero: a rate does not see the event with which a series appears.
pub(super) fn begin<L: Clone + Hash + Eq, const N: usize>(family: &Family<L, Counter>, labels: [L; N]) {
    for one in labels {
        drop(family.get_or_create(&one));
    }
}

/// Names have no unit.
pub(super) fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// The unit is appended to the name.
pub(super) fn register_in<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: &str,
    unit: Unit,
    help: &str,
) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, unit, metric.clone());
    metric
}

//! What pools and pairs have in common in a status: a name, and what is known of the transports within. Pure.

use sealane_operator_api::{KnownTransports, PairStatus, PoolStatus};

/// Pools, and pairs, that a status tells.
pub(super) const GROUPS_MAX: usize = 64;

/// Nodes whose figures are told together.
pub(super) trait Group: Clone {
    fn name(&self) -> &str;
    /// The pools that its nodes are of.
    fn pools(&self) -> impl Iterator<Item = &String>;
    fn known(&self) -> &KnownTransports;
    fn known_mut(&mut self) -> &mut KnownTransports;
    /// As a run that did not reach it tells it: without figures.
    fn unreached(&self) -> Self;
}

impl Group for PoolStatus {
    fn name(&self) -> &str {
        &self.name
    }

    fn pools(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name)
    }

    fn known(&self) -> &KnownTransports {
        &self.known
    }

    fn known_mut(&mut self) -> &mut KnownTransports {
        &mut self.known
    }

    fn unreached(&self) -> Self {
        Self { nodes: 0, figures: Vec::new(), regressions: Vec::new(), ..self.clone() }
    }
}

impl Group for PairStatus {
    fn name(&self) -> &str {
        &self.name
    }

    fn pools(&self) -> impl Iterator<Item = &String> {
        [&self.from, &self.to].into_iter()
    }

    fn known(&self) -> &KnownTransports {
        &self.known
    }

    fn known_mut(&mut self) -> &mut KnownTransports {
        &mut self.known
    }

    fn unreached(&self) -> Self {
        Self { figures: Vec::new(), regressions: Vec::new(), ..self.clone() }
    }
}

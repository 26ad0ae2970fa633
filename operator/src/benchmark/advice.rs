//! What all Benchmarks together advise, told to whoever follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealane_operator_api::{
    BenchmarkSpec, BenchmarkStatus, KnownTransports, PairStatus, Placement, PoolStatus,
};
use sealane_types::UnixSeconds;
use tokio::sync::watch;

use super::pool::{NodeView, pools};
use crate::advice::{Advice, Contribution, Figures, Transport};

/// What the Benchmark `key` knows about `nodes`. Pure.
#[must_use]
pub(super) fn contribution(
    key: &str,
    spec: &BenchmarkSpec,
    status: &BenchmarkStatus,
    nodes: &[NodeView],
) -> Contribution {
    if !spec.is_followed() {
        return Contribution::default();
    }
    let members = pools(&spec.node_pools, nodes, &[]);
    let figures = |pool: &str, known: &KnownTransports| {
        let measured = UnixSeconds(u64::try_from(known.transports_time.as_ref()?.0.as_second()).ok()?);
        let transports = transports(known);
        let figures = Figures {
            benchmark: key.to_owned(),
            run: known.transports_run.clone()?,
            pool: pool.to_owned(),
            measured,
            valid_until: measured.plus(u64::try_from(spec.recommendation.valid_seconds).unwrap_or_default()),
            hysteresis_percent: u32::try_from(spec.recommendation.hysteresis_percent).unwrap_or_default(),
            transports,
        };
        (!known.transports.is_empty()).then(|| Arc::new(figures))
    };
    let of_pool = |pool: &PoolStatus| {
        let nodes = members.iter().find(|one| one.name == pool.name)?.nodes.clone();
        Some((figures(&pool.name, &pool.known)?, nodes))
    };
    let of_pair =
        |pair: &PairStatus| Some((pair.from.clone(), pair.to.clone(), figures(&pair.name, &pair.known)?));
    // Two pods of a node say nothing about two nodes.
    let apart = status.pairs.iter().filter(|pair| pair.placement != Placement::SameNode);
    Contribution {
        pools: status.pools.iter().filter_map(of_pool).collect(),
        pairs: apart.filter_map(of_pair).collect(),
    }
}

fn transports(known: &KnownTransports) -> BTreeMap<Transport, u64> {
    let known = known.transports.iter().filter_map(|figure| {
        let goodput = u64::try_from(figure.megabytes_per_second).ok()?;
        Some((Transport::read(&figure.carrier, &figure.cipher)?, goodput))
    });
    known.collect()
}

/// Puts together what Benchmarks know, and tells it when it changes.
#[derive(Debug)]
pub(super) struct Publisher {
    /// Where the operator runs Benchmarks: what the status of another says is not its own.
    namespaces: Vec<String>,
    known: BTreeMap<String, Contribution>,
    /// Benchmarks that were looked at since this replica began to lead.
    seen: BTreeSet<String>,
    /// Whether something is known by now that was not told.
    untold: bool,
    advice: watch::Sender<Arc<Advice>>,
}

impl Publisher {
    pub(super) const fn new(namespaces: Vec<String>, advice: watch::Sender<Arc<Advice>>) -> Self {
        Self { namespaces, known: BTreeMap::new(), seen: BTreeSet::new(), untold: true, advice }
    }

    /// The Benchmark `key` knows this now; nothing when it is gone.
    pub(super) fn hear(&mut self, key: &str, mut contribution: Contribution) {
        let namespace = key.split_once('/').map(|(namespace, _)| namespace);
        if !self.namespaces.iter().any(|enabled| Some(enabled.as_str()) == namespace) {
            contribution = Contribution::default();
        }
        let known = self.known.get(key);
        if known.is_some_and(|known| *known == contribution) || (known.is_none() && contribution.is_empty()) {
            return;
        }
        self.untold = true;
        if contribution.is_empty() {
            self.known.remove(key);
        } else {
            self.known.insert(key.to_owned(), contribution);
        }
    }

    /// `key` was looked at, whatever came of it; `all` are there. Nothing is told before each was looked at once: half of
    /// what is known would take back what the rest recommends. One that cannot be read keeps nobody waiting.
    pub(super) fn publish(&mut self, key: Option<&str>, mut all: impl Iterator<Item = String>) {
        self.seen.extend(key.map(str::to_owned));
        if self.untold && all.all(|one| self.seen.contains(&one)) {
            self.untold = false;
            self.advice.send_replace(Arc::new(Advice::new(self.known.values())));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::advice::Standing;
    use crate::advice::tests::{AES128, AES256, figures};
    use crate::benchmark::pool::tests::node;

    #[test]
    fn figures_count_for_all_nodes_that_a_pool_has_now() {
        let spec: BenchmarkSpec = serde_json::from_value(json!({
            "nodePools": {"key": "pool"}, "recommendation": {"validSeconds": 3600, "hysteresisPercent": 25},
        }))
        .unwrap();
        let figure = |cipher: &str, speed: i64| json!({"carrier": "Tcp", "cipher": cipher, "megabytesPerSecond": speed});
        let measured = [figure("Aes256Gcm", 7), figure("Aes128Gcm", 9), figure("Rot13", 99)];
        let status: BenchmarkStatus = serde_json::from_value(json!({"pools": [
            {"name": "x", "nodes": 1, "cpu": "", "kernel": "", "transports": measured,
             "transportsRun": "1", "transportsTime": "1970-01-01T00:01:40Z"},
            {"name": "gone", "nodes": 1, "cpu": "", "kernel": "", "transports": measured,
             "transportsRun": "1", "transportsTime": "1970-01-01T00:01:40Z"},
            {"name": "y", "nodes": 1, "cpu": "", "kernel": ""},
        ]}))
        .unwrap();
        let nodes = [node("a", &[("pool", "x")]), node("b", &[("pool", "x")]), node("c", &[("pool", "y")])];
        let known = contribution("bench/nightly", &spec, &status, &nodes);
        let [(found, members)] = known.pools.as_slice() else { panic!("{known:?}") };
        assert_eq!(members, &["a", "b"]);
        assert_eq!((found.pool.as_str(), found.measured.0, found.valid_until.0), ("x", 100, 3700));
        assert_eq!(found.hysteresis_percent, 25);
        assert_eq!(found.transports, BTreeMap::from([(AES256, 7), (AES128, 9)]), "words that are known");
    }

    #[test]
    fn figures_under_settings_of_their_own_count_only_where_that_is_asked_for() {
        let known = |spec: serde_json::Value| {
            let spec: BenchmarkSpec = serde_json::from_value(spec).unwrap();
            let status: BenchmarkStatus = serde_json::from_value(json!({"pools": [{
                "name": "all", "nodes": 1, "cpu": "", "kernel": "", "transportsRun": "1",
                "transports": [{"carrier": "Tcp", "cipher": "Aes256Gcm", "megabytesPerSecond": 7}],
                "transportsTime": "1970-01-01T00:01:40Z",
            }]}))
            .unwrap();
            !contribution("bench/nightly", &spec, &status, &[node("a", &[])]).is_empty()
        };
        let env = json!([{"name": "OPENSSL_ia32cap", "value": "~0x2"}]);
        assert!(known(json!({})) && !known(json!({"env": env})));
        assert!(known(json!({"env": env, "recommendation": {"follow": true}})));
        assert!(!known(json!({"recommendation": {"follow": false}})));
    }

    fn of_pool(figures: Arc<Figures>, node: &str) -> Contribution {
        Contribution { pools: vec![(figures, vec![node.to_owned()])], pairs: Vec::new() }
    }

    fn told(publisher: &mut Publisher, key: &str, all: &[&str]) -> Standing {
        publisher.publish(Some(key), all.iter().map(|key| (*key).to_owned()));
        publisher.advice.borrow().standing()
    }

    fn publisher() -> Publisher {
        Publisher::new(vec!["bench".to_owned()], watch::Sender::new(Arc::new(Advice::pending())))
    }

    #[test]
    fn nothing_is_told_before_every_benchmark_was_looked_at() {
        let mut publisher = publisher();
        let all = ["bench/a", "bench/b"];
        publisher.hear("bench/a", of_pool(figures("x", 1, &[(AES256, 1)]), "n"));
        assert_eq!(told(&mut publisher, "bench/a", &all), Standing::Pending);
        // It cannot be read, which is nobody else's fault.
        assert_eq!(told(&mut publisher, "bench/b", &all), Standing::Known);
        assert!(publisher.advice.borrow().of_node("n", UnixSeconds(1)).is_ok());
        publisher.hear("bench/a", Contribution::default());
        told(&mut publisher, "bench/a", &all[1..]);
        assert!(publisher.advice.borrow().of_node("n", UnixSeconds(1)).is_err(), "it is gone");
    }

    #[test]
    fn who_follows_is_told_only_of_changes() {
        let mut publisher = publisher();
        let mut follower = publisher.advice.subscribe();
        let known = || of_pool(figures("x", 1, &[(AES256, 1)]), "n");
        for changed in [true, false] {
            publisher.hear("bench/a", known());
            told(&mut publisher, "bench/a", &["bench/a"]);
            assert_eq!(follower.has_changed().unwrap(), changed);
            follower.mark_unchanged();
        }
    }

    #[test]
    fn a_status_in_a_namespace_without_benchmarks_is_not_the_operators() {
        let mut publisher = publisher();
        publisher.hear("tenant/a", of_pool(figures("x", 1, &[(AES256, 1)]), "n"));
        assert_eq!(told(&mut publisher, "tenant/a", &["tenant/a"]), Standing::Known);
        assert_eq!(publisher.advice.borrow().of_node("n", UnixSeconds(1)), Err(None));
    }
}

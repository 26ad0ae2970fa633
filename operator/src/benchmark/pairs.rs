//! What a run measures: nodes by themselves, and pairs of them. Pure.

use sealane_operator_api::{Placement, word};
use sealane_results::Site;

use super::pool::Pool;
use crate::spec::Problem;

/// Results of one run: they have to fit a ConfigMap, and the status has to name them.
const PARTS_MAX: usize = 128;
/// Pairs of one run, which the status tells one by one.
const PAIRS_MAX: usize = 64;

/// One part of a run: a node by itself, or a client on a node and a server on this or another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) client: Site,
    pub(super) server: Option<Site>,
}

/// The parts of a run, nodes by themselves first, and what is left out.
#[must_use]
pub(super) fn parts(placements: &[Placement], pools: &[Pool]) -> (Vec<Part>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut parts: Vec<Part> = pools
        .iter()
        .flat_map(|pool| pool.chosen.iter().flatten().map(|node| site(pool, node)))
        .map(|client| Part { client, server: None })
        .collect();
    // In an order of their own, whatever order the spec has them in.
    let order = [Placement::SameNode, Placement::SamePool, Placement::AcrossPools];
    let wanted = order.into_iter().filter(|placement| placements.contains(placement));
    let between: Vec<Part> = wanted.flat_map(|placement| pairs(placement, pools, &mut problems)).collect();
    problems.extend(left_out("pairs", between.len(), PAIRS_MAX));
    parts.extend(between.into_iter().take(PAIRS_MAX));
    problems.extend(left_out("nodes and pairs", parts.len(), PARTS_MAX));
    parts.truncate(PARTS_MAX);
    (parts, problems)
}

/// Says that there are too many, if there are.
fn left_out(what: &str, count: usize, max: usize) -> Option<Problem> {
    let beyond = count.checked_sub(max).filter(|beyond| *beyond > 0)?;
    let message = format!("a run has {max} {what} at most: {beyond} are left out");
    Some(Problem { reason: word::POOL_UNUSABLE, message })
}

fn pairs(placement: Placement, pools: &[Pool], problems: &mut Vec<Problem>) -> Vec<Part> {
    let usable = pools.iter().filter_map(|pool| Some((pool, pool.usable.first()?)));
    let pair = |client, server| Part { client, server: Some(server) };
    match placement {
        Placement::SameNode => usable.map(|(pool, node)| pair(site(pool, node), site(pool, node))).collect(),
        Placement::SamePool => usable
            .filter_map(|(pool, first)| {
                let Some(second) = pool.usable.get(1) else {
                    let message = format!("pool {} has one node: SamePool needs two", pool.name);
                    problems.push(Problem { reason: word::POOL_UNUSABLE, message });
                    return None;
                };
                Some(pair(site(pool, first), site(pool, second)))
            })
            .collect(),
        Placement::AcrossPools => {
            let sites: Vec<Site> = usable.map(|(pool, node)| site(pool, node)).collect();
            let others = |place: usize| sites.iter().skip(place.saturating_add(1));
            let from = sites.iter().enumerate();
            from.flat_map(|(place, from)| others(place).map(|to| pair(from.clone(), to.clone()))).collect()
        }
    }
}

fn site(pool: &Pool, node: &str) -> Site {
    Site { pool: pool.name.clone(), node: node.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, nodes: &[&str]) -> Pool {
        let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
        Pool {
            name: name.to_owned(),
            chosen: Ok(nodes.iter().take(1).cloned().collect()),
            usable: nodes.clone(),
            nodes,
            tee: None,
        }
    }

    fn told(parts: &[Part]) -> Vec<String> {
        let word = |part: &Part| match &part.server {
            None => part.client.node.clone(),
            Some(server) => format!("{}-{}", part.client.node, server.node),
        };
        parts.iter().map(word).collect()
    }

    #[test]
    fn every_two_pools_meet_once() {
        let pools = [pool("x", &["a", "b"]), pool("y", &["c"]), pool("z", &["d", "e"])];
        let of = |placements: &[Placement]| told(&parts(placements, &pools).0);
        assert_eq!(of(&[]), ["a", "c", "d"]);
        assert_eq!(of(&[Placement::AcrossPools])[3..], ["a-c", "a-d", "c-d"]);
        assert_eq!(of(&[Placement::SameNode])[3..], ["a-a", "c-c", "d-d"]);
        assert_eq!(of(&[Placement::AcrossPools, Placement::SamePool])[3..5], ["a-b", "d-e"]);
    }

    #[test]
    fn a_pool_with_one_node_has_no_pair_of_its_own_and_says_so() {
        let (found, problems) = parts(&[Placement::SamePool], &[pool("y", &["c"]), pool("z", &[])]);
        assert_eq!(told(&found), ["c"]);
        assert_eq!(problems.len(), 1, "an empty pool is told elsewhere");
        assert_eq!(problems[0].message, "pool y has one node: SamePool needs two");
    }

    #[test]
    fn a_run_has_an_end() {
        let names: Vec<String> = (0..20).map(|number| format!("n{number:02}")).collect();
        let pools: Vec<Pool> = names.iter().map(|name| pool(name, &[name])).collect();
        let (found, problems) = parts(&[Placement::AcrossPools], &pools);
        assert_eq!(found.len(), 20 + PAIRS_MAX);
        assert_eq!(problems[0].message, "a run has 64 pairs at most: 126 are left out");
    }
}

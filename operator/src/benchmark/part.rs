//! A part of a run that goes on, as the status holds it: its nodes, and what is told and kept of it. Pure.

use sealane_operator_api::{ActiveNode, ActiveServer, NodePhase};
use sealane_results::{NodeRecord, Site};

/// Whether nothing more comes of it.
pub(super) const fn is_final(node: &ActiveNode) -> bool {
    matches!(node.phase, NodePhase::Succeeded | NodePhase::Failed)
}

/// Pools and nodes of both ends.
pub(super) fn sites(node: &ActiveNode) -> impl Iterator<Item = (&str, &str)> {
    let of_server = node.server.iter().map(|ActiveServer { pool, node, .. }| (pool.as_str(), node.as_str()));
    std::iter::once((node.pool.as_str(), node.node.as_str())).chain(of_server)
}

/// Where the server of a pair is, as results name it.
pub(super) fn server_site(node: &ActiveNode) -> Option<Site> {
    let site =
        |ActiveServer { pool, node, .. }: &ActiveServer| Site { pool: pool.clone(), node: node.clone() };
    node.server.as_ref().map(site)
}

/// How people are told of it.
pub(super) fn ends(node: &ActiveNode) -> String {
    let server = node.server.as_ref().map(|server| format!(" → {}", server.node));
    format!("{}{}", node.node, server.unwrap_or_default())
}

/// What is kept of it when it is over.
pub(super) fn record(node: &ActiveNode, sealed: Option<String>) -> NodeRecord {
    NodeRecord {
        pool: node.pool.clone(),
        node: node.node.clone(),
        server: server_site(node),
        sealed,
        failure: node.message.clone(),
    }
}

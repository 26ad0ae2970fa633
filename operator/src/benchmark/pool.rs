//! Node pools: which nodes belong together, which of them can be measured, and why the others cannot. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};
use kube::core::{Selector, SelectorExt};
use sealane_operator_api::{NodePools, word};

use crate::spec::Problem;

/// Words for the keys by which clouds name their pools, in the order in which `Auto` looks for them.
const KEYS: [(&str, &str); 4] = [
    ("Gke", "cloud.google.com/gke-nodepool"),
    ("Eks", "eks.amazonaws.com/nodegroup"),
    ("Aks", "kubernetes.azure.com/agentpool"),
    ("Karpenter", "karpenter.sh/nodepool"),
];
const AUTO: &str = "Auto";
/// The one pool of nodes without a key.
const ALL: &str = "all";
/// Kubernetes' label of a node's operating system.
const OS: &str = "kubernetes.io/os";
/// What node-feature-discovery and GKE say of a node that is a confidential guest.
const TDX_GUEST: &str = "feature.node.kubernetes.io/cpu-security.tdx.protected";
const GKE_CONFIDENTIAL: &str = "cloud.google.com/gke-confidential-nodes-instance-type";
/// Taints of nodes on which nothing should begin; a cordoned node has it too.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What matters of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodeView {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) cordoned: bool,
    pub(super) ready: bool,
}

impl NodeView {
    /// `None` for a node without a name.
    #[must_use]
    pub(super) fn new(node: &Node) -> Option<Self> {
        let spec = node.spec.as_ref();
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        Some(Self {
            name: node.metadata.name.clone()?,
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            cordoned: spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
            ready: conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True"),
        })
    }

    /// What the node's labels say of its hardware.
    #[must_use]
    pub(super) fn tee(&self) -> Option<&'static str> {
        let gke = self.labels.get(GKE_CONFIDENTIAL).map(String::as_str);
        match (self.labels.get(TDX_GUEST).map(String::as_str), gke) {
            (Some("true"), _) | (_, Some("TDX")) => Some("Tdx"),
            (_, Some("SEV_SNP")) => Some("SevSnp"),
            _ => None,
        }
    }

    /// Whether it could run what measures; one that says nothing is taken for what most are.
    fn is_linux(&self) -> bool {
        self.labels.get(OS).is_none_or(|os| os == "linux")
    }

    /// Why no pod of a run would begin on it.
    fn obstacle(&self, tolerations: &[Toleration]) -> Option<String> {
        let name = &self.name;
        if !self.ready {
            return Some(format!("node {name} is not ready"));
        }
        if self.cordoned {
            return Some(format!("node {name} is cordoned"));
        }
        let repels = |taint: &&Taint| {
            taint.effect != "PreferNoSchedule"
                && taint.key != UNSCHEDULABLE
                && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
        };
        let taint = self.taints.iter().find(repels)?;
        let value = taint.value.as_deref().map(|value| format!("={value}")).unwrap_or_default();
        Some(format!(
            "node {name} is tainted {}{value}:{}, which the Benchmark does not tolerate",
            taint.key, taint.effect
        ))
    }
}

/// As the scheduler decides it.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect =
        toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
    let key = toleration.key.as_deref().unwrap_or_default();
    let value =
        || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    effect && (key == taint.key && (exists || value()) || key.is_empty() && exists)
}

/// A pool as it is now.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pool {
    pub(super) name: String,
    /// All of its nodes.
    pub(super) nodes: Vec<String>,
    /// Those that can be measured.
    pub(super) usable: Vec<String>,
    /// Those of them that are to be measured, or why none can be.
    pub(super) chosen: Result<Vec<String>, Problem>,
    pub(super) tee: Option<&'static str>,
}

/// The pools that `wanted` describes, in the order of names, those in `expected` among them although they are empty.
#[must_use]
pub(super) fn pools(wanted: &NodePools, nodes: &[NodeView], expected: &[String]) -> Vec<Pool> {
    let selector = wanted.selector.clone().map(Selector::try_from);
    // Admission refused a selector that cannot be read; then none matches.
    let matches = |node: &NodeView| match &selector {
        Some(Ok(selector)) => selector.matches(&node.labels),
        Some(Err(_)) => false,
        None => true,
    };
    let nodes: Vec<&NodeView> = nodes.iter().filter(|node| node.is_linux() && matches(node)).collect();
    let key = key(&wanted.key, &nodes);
    let mut members: BTreeMap<&str, Vec<&NodeView>> = BTreeMap::new();
    let named = if wanted.names.is_empty() { expected } else { &wanted.names };
    named.iter().for_each(|name| _ = members.entry(name).or_default());
    for node in nodes {
        let pool = match key {
            // A label without a value, such as that of a role, makes one pool.
            Some(key) => node.labels.get(key).map(|value| if value.is_empty() { ALL } else { value }),
            None => Some(ALL),
        };
        if let Some(pool) =
            pool.filter(|pool| wanted.names.is_empty() || wanted.names.iter().any(|name| name == pool))
        {
            members.entry(pool).or_default().push(node);
        }
    }
    members.into_iter().map(|(name, nodes)| pool(wanted, name, nodes)).collect()
}

fn pool(wanted: &NodePools, name: &str, mut nodes: Vec<&NodeView>) -> Pool {
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    let (usable, obstacles): (Vec<_>, Vec<_>) = nodes
        .iter()
        .map(|node| (node, node.obstacle(&wanted.tolerations)))
        .partition(|(_, obstacle)| obstacle.is_none());
    let count = usize::try_from(wanted.nodes_per_pool).unwrap_or(1);
    let usable: Vec<String> = usable.into_iter().map(|(node, _)| node.name.clone()).collect();
    let chosen: Vec<String> = usable.iter().take(count).cloned().collect();
    let first = obstacles.into_iter().find_map(|(_, obstacle)| obstacle);
    let chosen = match (chosen.is_empty(), first) {
        (false, _) => Ok(chosen),
        (true, Some(obstacle)) => Err(Problem {
            reason: word::POOL_UNUSABLE,
            message: format!("pool {name} has no node that can be measured: {obstacle}"),
        }),
        (true, None) => {
            Err(Problem { reason: word::POOL_EMPTY, message: format!("pool {name} has no nodes") })
        }
    };
    Pool {
        name: name.to_owned(),
        usable,
        nodes: nodes.iter().map(|node| node.name.clone()).collect(),
        chosen,
        tee: nodes.iter().find_map(|node| node.tee()),
    }
}

/// The label key that `word` stands for; none when `Auto` finds none.
fn key<'a>(word: &'a str, nodes: &[&NodeView]) -> Option<&'a str> {
    if word == AUTO {
        let used = |key: &str| nodes.iter().any(|node| node.labels.contains_key(key));
        return KEYS.into_iter().map(|(_, key)| key).find(|key| used(key));
    }
    let known = KEYS.into_iter().find(|(name, _)| *name == word);
    Some(known.map_or(word, |(_, key)| key))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in crate::benchmark) fn node(name: &str, labels: &[(&str, &str)]) -> NodeView {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        NodeView { name: name.to_owned(), labels, taints: Vec::new(), cordoned: false, ready: true }
    }

    fn taint(key: &str, value: Option<&str>, effect: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            effect: effect.to_owned(),
            ..Taint::default()
        }
    }

    fn of(key: &str) -> NodePools {
        NodePools { key: key.to_owned(), ..NodePools::default() }
    }

    fn named(found: &[Pool]) -> Vec<(&str, Vec<&str>)> {
        let chosen = |pool: &Pool| pool.chosen.clone().unwrap_or_default();
        let words = |pool: &Pool| chosen(pool).len();
        assert!(found.iter().all(|pool| words(pool) <= pool.nodes.len()));
        found
            .iter()
            .map(|pool| (pool.name.as_str(), pool.nodes.iter().map(String::as_str).collect()))
            .collect()
    }

    #[test]
    fn pools_are_the_values_of_a_key() {
        let gke = "cloud.google.com/gke-nodepool";
        let nodes = [node("b", &[(gke, "gpu")]), node("a", &[(gke, "gpu")]), node("c", &[("disk", "ssd")])];
        assert_eq!(named(&pools(&of("Gke"), &nodes, &[])), [("gpu", vec!["a", "b"])]);
        assert_eq!(named(&pools(&of("Auto"), &nodes, &[])), [("gpu", vec!["a", "b"])]);
        assert_eq!(named(&pools(&of("disk"), &nodes, &[])), [("ssd", vec!["c"])]);
        assert_eq!(named(&pools(&of("Auto"), &nodes[2..], &[])), [("all", vec!["c"])]);
        let role = [node("w", &[("node-role.kubernetes.io/worker", "")]), node("c", &[])];
        assert_eq!(named(&pools(&of("node-role.kubernetes.io/worker"), &role, &[])), [("all", vec!["w"])]);
        let chosen = pools(&of("Gke"), &nodes, &[])[0].chosen.clone();
        assert_eq!(chosen, Ok(vec!["a".to_owned()]), "one node of each, unless more are asked for");
        let more = NodePools { nodes_per_pool: 5, ..of("Gke") };
        assert_eq!(pools(&more, &nodes, &[])[0].chosen.as_ref().unwrap().len(), 2);
    }

    #[test]
    fn names_and_labels_narrow_them() {
        let nodes = [node("a", &[("p", "x"), ("arch", "arm")]), node("b", &[("p", "y"), ("arch", "amd")])];
        let some = NodePools { names: vec!["y".to_owned(), "z".to_owned()], ..of("p") };
        let found = pools(&some, &nodes, &["x".to_owned()]);
        assert_eq!(named(&found), [("y", vec!["b"]), ("z", vec![])]);
        assert_eq!(found[1].chosen.as_ref().unwrap_err().reason, word::POOL_EMPTY);
        let selector = serde_json::from_value(json!({"matchLabels": {"arch": "arm"}})).unwrap();
        assert_eq!(
            named(&pools(&NodePools { selector: Some(selector), ..of("p") }, &nodes, &[])),
            [("x", vec!["a"])]
        );
    }

    #[test]
    fn nodes_of_another_system_are_left_alone() {
        let nodes = [
            node("a", &[("p", "x"), (OS, "linux")]),
            node("b", &[("p", "x"), (OS, "windows")]),
            node("c", &[("p", "y"), (OS, "windows")]),
        ];
        assert_eq!(named(&pools(&of("p"), &nodes, &[])), [("x", vec!["a"])]);
    }

    #[test]
    fn a_pool_that_disappeared_is_told() {
        let found = pools(&of("p"), &[], &["gone".to_owned()]);
        assert_eq!(found[0].chosen.as_ref().unwrap_err().message, "pool gone has no nodes");
    }

    #[test]
    fn nodes_that_no_pod_would_begin_on_are_passed_over_and_told() {
        let cordoned = NodeView { cordoned: true, ..node("a", &[]) };
        let unready = NodeView { ready: false, ..node("b", &[]) };
        let tainted = NodeView { taints: vec![taint("gpu", Some("yes"), "NoSchedule")], ..node("c", &[]) };
        let soft = NodeView { taints: vec![taint("gpu", None, "PreferNoSchedule")], ..node("d", &[]) };
        let problem = |node: &NodeView| {
            pools(&of("Auto"), std::slice::from_ref(node), &[])[0]
                .chosen
                .as_ref()
                .map_err(|problem| problem.message.clone())
                .map(Vec::len)
        };
        let told = |node: &NodeView| problem(node).unwrap_err();
        assert!(told(&cordoned).ends_with("node a is cordoned"));
        assert!(told(&unready).ends_with("node b is not ready"));
        assert!(told(&tainted).contains("tainted gpu=yes:NoSchedule"));
        assert_eq!(problem(&soft), Ok(1));
        let both = pools(&of("Auto"), &[cordoned, soft], &[]);
        assert_eq!(both[0].chosen, Ok(vec!["d".to_owned()]));
        for toleration in [
            json!({"key": "gpu", "operator": "Exists"}),
            json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}),
            json!({"operator": "Exists"}),
        ] {
            let tolerant =
                NodePools { tolerations: vec![serde_json::from_value(toleration).unwrap()], ..of("Auto") };
            assert!(pools(&tolerant, std::slice::from_ref(&tainted), &[])[0].chosen.is_ok());
        }
        for toleration in [
            json!({"key": "gpu", "value": "no"}),
            json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}),
            json!({"key": "other", "operator": "Exists"}),
        ] {
            let tolerant =
                NodePools { tolerations: vec![serde_json::from_value(toleration).unwrap()], ..of("Auto") };
            assert!(pools(&tolerant, std::slice::from_ref(&tainted), &[])[0].chosen.is_err());
        }
    }

    #[test]
    fn labels_tell_the_hardware() {
        assert_eq!(node("a", &[(TDX_GUEST, "true")]).tee(), Some("Tdx"));
        assert_eq!(node("a", &[(GKE_CONFIDENTIAL, "SEV_SNP")]).tee(), Some("SevSnp"));
        assert_eq!(
            node("a", &[("feature.node.kubernetes.io/cpu-security.sev.snp.enabled", "true")]).tee(),
            None,
            "a host that can launch guests"
        );
    }
}

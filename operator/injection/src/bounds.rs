//! What a namespace demands of the resources of its pods' containers: LimitRanges and ResourceQuotas. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, LimitRange, LimitRangeItem, PodSpec, ResourceQuota, ResourceRequirements,
    ScopedResourceSelectorRequirement,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::amount::Amount;

/// The bounds of one namespace.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    pub limit_ranges: Vec<LimitRange>,
    pub quotas: Vec<ResourceQuota>,
}

/// What one ResourceQuota says of one of its resources.
#[derive(Debug)]
pub(crate) struct QuotaLine<'a> {
    pub(crate) quota: &'a str,
    /// As in `spec.hard`: `limits.cpu`.
    pub(crate) key: &'a str,
    pub(crate) hard: Amount,
    pub(crate) used: Amount,
}

impl Bounds {
    /// Items of LimitRanges about `type_`, with the name of the LimitRange that each is of.
    pub(crate) fn items<'a>(
        &'a self,
        type_: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a LimitRangeItem)> + 'a {
        let of = move |range: &'a LimitRange| {
            let name = range.metadata.name.as_deref().unwrap_or_default();
            range.spec.iter().flat_map(|spec| &spec.limits).map(move |item| (name, item))
        };
        self.limit_ranges.iter().flat_map(of).filter(move |(_, item)| item.type_ == type_)
    }

    /// What ResourceQuotas that count a pod like `spec` say of any of `keys`.
    pub(crate) fn quotas<'a>(&'a self, spec: &'a PodSpec, keys: &'a [String]) -> Vec<QuotaLine<'a>> {
        let of = |quota: &'a ResourceQuota| {
            let asked = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
            // What is enforced is the status, which is behind a change of the spec for a moment.
            let status = quota.status.as_ref();
            let hard = status.and_then(|status| status.hard.as_ref()).or(asked);
            let used = status.and_then(|status| status.used.as_ref());
            let line = move |key: &'a String| {
                Some(QuotaLine {
                    quota: quota.metadata.name.as_deref().unwrap_or_default(),
                    key,
                    hard: amount(hard, key)?,
                    used: amount(used, key).unwrap_or_else(Amount::zero),
                })
            };
            keys.iter().filter_map(line)
        };
        self.quotas.iter().filter(|quota| counts(quota, spec)).flat_map(of).collect()
    }
}

pub(crate) fn amount(map: Option<&BTreeMap<String, Quantity>>, key: &str) -> Option<Amount> {
    map?.get(key).and_then(Amount::of)
}

/// Whether a quota counts a pod like `spec` once it has its sidecar, which asks for something.
fn counts(quota: &ResourceQuota, spec: &PodSpec) -> bool {
    let Some(quota) = &quota.spec else { return false };
    let exists = |scope: &String| in_scope(spec, scope, "Exists", &[]);
    let selected = |part: &ScopedResourceSelectorRequirement| {
        in_scope(spec, &part.scope_name, &part.operator, part.values.as_deref().unwrap_or_default())
    };
    let selector = quota.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
    quota.scopes.iter().flatten().all(exists) && selector.into_iter().flatten().all(selected)
}

fn in_scope(spec: &PodSpec, scope: &str, operator: &str, values: &[String]) -> bool {
    let ends = spec.active_deadline_seconds.is_some();
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "NotBestEffort" => true,
        "PriorityClass" => {
            let class = spec.priority_class_name.as_ref().filter(|class| !class.is_empty());
            match operator {
                "In" => class.is_some_and(|class| values.contains(class)),
                "NotIn" => class.is_none_or(|class| !values.contains(class)),
                "DoesNotExist" => class.is_none(),
                _ => class.is_some(),
            }
        }
        // Of pods that ask for nothing, of volumes, and of affinities: none of them bounds what containers get.
        _ => false,
    }
}

/// What all containers of a pod take of one resource at most at one time, as the API server adds it up; nothing where no
/// container says anything.
pub(crate) fn total(
    spec: &PodSpec,
    of: impl Fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>,
    resource: &str,
) -> Option<Amount> {
    let own = |container: &Container| amount(container.resources.as_ref().and_then(&of), resource);
    let add = |sum: Option<Amount>, more: Option<Amount>| match (sum, more) {
        (Some(sum), Some(more)) => Some(sum.plus(&more)),
        (one, other) => one.or(other),
    };
    // Init containers run one after another, beside the sidecars that were started before them.
    let (mut beside, mut peak) = (None, None);
    for container in spec.init_containers.iter().flatten() {
        if container.restart_policy.as_deref() == Some("Always") {
            beside = add(beside, own(container));
        } else {
            peak = peak.max(add(beside.clone(), own(container)));
        }
    }
    let running = spec.containers.iter().fold(beside, |sum, container| add(sum, own(container)));
    running.max(peak)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> PodSpec {
        serde_json::from_value(value).unwrap()
    }

    fn quota(spec: &Value, used: &Value) -> Bounds {
        let quota = json!({"metadata": {"name": "q"}, "spec": spec, "status": {"used": used}});
        Bounds { quotas: vec![serde_json::from_value(quota).unwrap()], ..Bounds::default() }
    }

    #[test]
    fn a_quota_counts_the_pods_of_its_scopes_alone() {
        let counted = |quota_spec: Value, pod: Value| {
            let mut whole = quota_spec;
            whole["hard"] = json!({"limits.cpu": "4"});
            !quota(&whole, &json!({})).quotas(&spec(pod), &["limits.cpu".to_owned()]).is_empty()
        };
        let plain = || json!({"containers": []});
        let ends = || json!({"containers": [], "activeDeadlineSeconds": 60});
        let urgent = || json!({"containers": [], "priorityClassName": "urgent"});
        assert!(counted(json!({}), plain()));
        assert!(counted(json!({"scopes": ["NotBestEffort", "NotTerminating"]}), plain()));
        assert!(!counted(json!({"scopes": ["BestEffort"]}), plain()));
        assert!(!counted(json!({"scopes": ["NotTerminating"]}), ends()));
        assert!(counted(json!({"scopes": ["Terminating"]}), ends()));
        let class = |operator: &str, values: &[&str]| {
            let part = json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
            json!({"scopeSelector": {"matchExpressions": [part]}})
        };
        assert!(counted(class("In", &["urgent"]), urgent()) && !counted(class("In", &["urgent"]), plain()));
        assert!(
            counted(class("NotIn", &["urgent"]), plain()) && !counted(class("NotIn", &["urgent"]), urgent())
        );
        assert!(counted(class("Exists", &[]), urgent()) && !counted(class("Exists", &[]), plain()));
        assert!(counted(class("DoesNotExist", &[]), plain()));
    }

    #[test]
    fn a_quota_states_what_is_enforced_and_used() {
        let bounds =
            quota(&json!({"hard": {"limits.cpu": "4", "pods": "9"}}), &json!({"limits.cpu": "1500m"}));
        let pod = spec(json!({"containers": []}));
        let keys = ["limits.cpu".to_owned(), "requests.cpu".to_owned()];
        let lines = bounds.quotas(&pod, &keys);
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((line.quota, line.key), ("q", "limits.cpu"));
        assert_eq!((line.hard.to_string(), line.used.to_string()), ("4".to_owned(), "1500m".to_owned()));
    }

    #[test]
    fn containers_add_up_as_in_the_api_server() {
        let cpu = |text: &str| json!({"requests": {"cpu": text}});
        let with = |init: Value, containers: Value| {
            let pod = spec(json!({"initContainers": init, "containers": containers}));
            total(&pod, |resources| resources.requests.as_ref(), "cpu").map(|sum| sum.to_string())
        };
        let app = json!([{"name": "a", "resources": cpu("100m")}, {"name": "b", "resources": cpu("200m")}]);
        assert_eq!(with(json!([]), app.clone()).as_deref(), Some("300m"));
        let sidecar = json!({"name": "s", "restartPolicy": "Always", "resources": cpu("50m")});
        let prepare = json!({"name": "i", "resources": cpu("1")});
        assert_eq!(with(json!([sidecar]), app.clone()).as_deref(), Some("350m"));
        assert_eq!(with(json!([sidecar, prepare]), app.clone()).as_deref(), Some("1050m"));
        assert_eq!(with(json!([prepare, sidecar]), app).as_deref(), Some("1"));
        assert_eq!(with(json!([]), json!([{"name": "a"}])), None);
    }
}

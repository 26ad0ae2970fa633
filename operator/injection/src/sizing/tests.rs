//! What a sidecar gets in pods and namespaces of every kind.

use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};

use super::*;

fn settings() -> SidecarSettings {
    SidecarSettings::new("localhost/sealane-sidecar:1".to_owned())
}

fn pod(resources: &Value, annotations: &[(&str, &str)]) -> Pod {
    let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
    let spec = json!({"containers": [{"name": "app", "resources": resources}]});
    serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": spec})).unwrap()
}

fn try_sized(pod: &Pod, bounds: &Bounds) -> Result<Sizing, InjectError> {
    Sizing::new(pod, pod.spec.as_ref().unwrap(), &settings(), bounds)
}

fn sized(pod: &Pod, bounds: &Bounds) -> Sizing {
    try_sized(pod, bounds).unwrap()
}

/// Why a pod is refused, in words.
fn refused(pod: &Pod, bounds: &Bounds) -> String {
    try_sized(pod, bounds).unwrap_err().to_string()
}

fn ranges(items: &Value) -> Bounds {
    let range: LimitRange =
        serde_json::from_value(json!({"metadata": {"name": "r"}, "spec": {"limits": items}})).unwrap();
    Bounds { limit_ranges: vec![range], ..Bounds::default() }
}

fn quota(hard: &Value, used: &Value) -> Bounds {
    let quota =
        json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}});
    let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
    Bounds { quotas: vec![quota], ..Bounds::default() }
}

fn guaranteed() -> Value {
    json!({"limits": {"cpu": "400m", "memory": "256Mi"}})
}

fn burstable() -> Value {
    json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}})
}

#[test]
fn a_sidecar_in_a_guaranteed_pod_gets_what_a_lane_needs() {
    let sizing = sized(&pod(&guaranteed(), &[]), &Bounds::default());
    let both = json!({"cpu": "500m", "memory": "1Gi"});
    assert_eq!(sizing.resources(), json!({"requests": both, "limits": both}));
    assert_eq!(sizing.warnings, [""; 0]);
}

#[test]
fn an_annotation_wins_in_a_guaranteed_pod_and_is_warned_of_where_it_is_little() {
    for (annotation, value, warned) in [
        ("sealane.dev/cpu-limit", "2", false),
        ("sealane.dev/cpu-request", "750m", false),
        ("sealane.dev/cpu-limit", "100m", true),
        ("sealane.dev/cpu-request", "0.2", true),
    ] {
        let sizing = sized(&pod(&guaranteed(), &[(annotation, value)]), &Bounds::default());
        let resources = sizing.resources();
        assert_eq!(resources["limits"]["cpu"], value);
        assert_eq!(resources["requests"], resources["limits"], "the pod stays Guaranteed");
        assert_eq!(sizing.warnings.len(), usize::from(warned), "{:?}", sizing.warnings);
        for warning in &sizing.warnings {
            for part in [value, "500m", "sidecar.requiredCpuLimit", "CpuThrottled", "sealane.dev/cpu-limit"] {
                assert!(warning.contains(part), "{part}: {warning}");
            }
        }
    }
}

#[test]
fn what_the_chart_says_of_every_sidecar_holds_in_a_guaranteed_pod() {
    let with = |resources: Value| {
        let settings =
            SidecarSettings { resources: serde_json::from_value(resources).unwrap(), ..settings() };
        let pod = pod(&guaranteed(), &[]);
        let sizing = Sizing::new(&pod, pod.spec.as_ref().unwrap(), &settings, &Bounds::default()).unwrap();
        sizing.resources()["limits"]["cpu"].clone()
    };
    assert_eq!(with(json!({"limits": {"cpu": "2"}})), "2");
    assert_eq!(with(json!({"requests": {"cpu": "1"}})), "1", "more than a lane needs");
    assert_eq!(with(json!({})), "500m");
}

#[test]
fn equal_is_what_amounts_to_the_same() {
    let same =
        json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}});
    assert_eq!(sized(&pod(&same, &[]), &Bounds::default()).resources()["limits"]["cpu"], "500m");
    let other =
        json!({"requests": {"cpu": "999m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    assert!(sized(&pod(&other, &[]), &Bounds::default()).resources()["limits"]["cpu"].is_null());
}

#[test]
fn a_low_limit_is_warned_of_in_every_pod() {
    let annotated = pod(&json!({}), &[("sealane.dev/cpu-limit", "100m")]);
    assert_eq!(sized(&annotated, &Bounds::default()).warnings.len(), 1);
    assert_eq!(sized(&pod(&json!({}), &[]), &Bounds::default()).warnings, [""; 0]);
}

#[test]
fn one_annotation_never_makes_a_pod_that_the_api_server_refuses() {
    let limit = sized(&pod(&json!({}), &[("sealane.dev/cpu-limit", "20m")]), &Bounds::default()).resources();
    assert_eq!((&limit["requests"]["cpu"], &limit["limits"]["cpu"]), (&json!("20m"), &json!("20m")));
    let request = pod(&json!({}), &[("sealane.dev/memory-request", "2Gi")]);
    let request = sized(&request, &Bounds::default()).resources();
    assert_eq!(
        (&request["requests"]["memory"], &request["limits"]["memory"]),
        (&json!("2Gi"), &json!("2Gi"))
    );
}

#[test]
fn arenas_keep_their_share_of_the_memory() {
    for (limit, mib) in [("1Gi", 512), ("1024Mi", 512), ("2Gi", 1024), ("256Mi", 128), ("1Mi", 16)] {
        let pod = pod(&json!({}), &[("sealane.dev/memory-limit", limit)]);
        assert_eq!(sized(&pod, &Bounds::default()).arena_bytes >> 20, mib, "{limit}");
    }
}

#[test]
fn a_quota_is_a_demand_that_the_sidecar_meets() {
    let hard =
        json!({"requests.cpu": "2", "requests.memory": "2Gi", "limits.cpu": "4", "limits.memory": "4Gi"});
    let sizing = sized(&pod(&burstable(), &[]), &quota(&hard, &json!({})));
    let expected = json!({
        "requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "1Gi"},
    });
    assert_eq!(sizing.resources(), expected);
    assert_eq!(sizing.warnings, [""; 0]);
    // A quota that counts other pods asks nothing.
    let mut others = quota(&json!({"limits.cpu": "4"}), &json!({}));
    others.quotas[0].spec.as_mut().unwrap().scopes = Some(vec!["Terminating".to_owned()]);
    assert!(sized(&pod(&burstable(), &[]), &others).resources()["limits"]["cpu"].is_null());
}

#[test]
fn a_sidecar_that_no_empty_namespace_would_take_is_made_smaller() {
    let small = quota(&json!({"limits.memory": "512Mi"}), &json!({}));
    let sizing = sized(&pod(&burstable(), &[]), &small);
    assert_eq!(sizing.resources()["limits"]["memory"], "384Mi");
    assert_eq!(sizing.arena_bytes >> 20, 192);
    let [warning] = sizing.warnings.as_slice() else { panic!("{:?}", sizing.warnings) };
    for part in ["384Mi", "ResourceQuota `q` (limits.memory: 512Mi)", "192 MiB", "sealane.dev/memory-limit"] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    let annotated = pod(&burstable(), &[("sealane.dev/memory-limit", "1Gi")]);
    let words = refused(&annotated, &small);
    for part in ["sealane.dev/memory-limit: 1Gi", "384Mi", "ResourceQuota `q`", "lower the annotation"] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn what_other_pods_have_used_up_is_told_with_the_annotation_that_helps() {
    let hard = json!({"limits.memory": "4Gi", "limits.cpu": "4"});
    let used = quota(&hard, &json!({"limits.memory": "3500Mi", "limits.cpu": "1"}));
    let words = refused(&pod(&burstable(), &[]), &used);
    for part in
        ["ResourceQuota `q`", "468Mi of limits.memory", "asks for 1Gi", "annotation sealane.dev/memory-limit"]
    {
        assert!(words.contains(part), "{part}: {words}");
    }
    // That fits.
    sized(&pod(&burstable(), &[("sealane.dev/memory-limit", "400Mi")]), &used);
    // Without the sidecar it would not fit either: the API server says that better.
    sized(&pod(&burstable(), &[]), &quota(&hard, &json!({"limits.memory": "4000Mi"})));
}

#[test]
fn a_limit_range_is_fitted_into() {
    let max = ranges(&json!([{"type": "Container", "max": {"cpu": "200m", "memory": "512Mi"},
                              "default": {"cpu": "100m", "memory": "128Mi"}}]));
    let sizing = sized(&pod(&burstable(), &[]), &max);
    assert_eq!(sizing.resources()["limits"], json!({"cpu": "200m", "memory": "512Mi"}));
    assert_eq!(sizing.arena_bytes >> 20, 256);
    assert_eq!(sizing.warnings.len(), 2, "both are less than usual: {:?}", sizing.warnings);
    let words = refused(&pod(&burstable(), &[("sealane.dev/memory-limit", "1Gi")]), &max);
    assert!(words.contains("LimitRange `r` (max.memory of a Container)"), "{words}");

    let min = ranges(&json!([{"type": "Container", "min": {"cpu": "100m", "memory": "2Gi"}}]));
    let resources = sized(&pod(&burstable(), &[]), &min).resources();
    assert_eq!(resources["requests"], json!({"cpu": "100m", "memory": "2Gi"}));
    assert_eq!(resources["limits"]["memory"], "2Gi");
    let words = refused(&pod(&burstable(), &[("sealane.dev/cpu-request", "10m")]), &min);
    assert!(words.contains("sealane.dev/cpu-request: 10m is below the 100m"), "{words}");

    let little = ranges(&json!([{"type": "Container", "max": {"memory": "64Mi"}}]));
    let words = refused(&pod(&burstable(), &[]), &little);
    assert!(words.contains("LimitRange `r`") && words.contains("64Mi") && words.contains("96Mi"), "{words}");
}

#[test]
fn defaults_of_a_limit_range_are_those_of_small_applications() {
    let defaults = ranges(&json!([{"type": "Container", "default": {"cpu": "100m", "memory": "128Mi"}}]));
    let resources = sized(&pod(&burstable(), &[]), &defaults).resources();
    assert_eq!(resources["limits"], json!({"cpu": "500m", "memory": "1Gi"}));
    let wide = ranges(&json!([{"type": "Container", "default": {"cpu": "2"}}]));
    assert_eq!(sized(&pod(&burstable(), &[]), &wide).resources()["limits"]["cpu"], "2");
}

#[test]
fn a_ratio_of_limit_and_request_holds() {
    let container =
        ranges(&json!([{"type": "Container", "maxLimitRequestRatio": {"cpu": "4", "memory": "2"}}]));
    let resources = sized(&pod(&burstable(), &[]), &container).resources();
    assert_eq!(resources["limits"], json!({"cpu": "500m", "memory": "1Gi"}));
    assert_eq!(resources["requests"], json!({"cpu": "125m", "memory": "512Mi"}));
    let whole = ranges(&json!([{"type": "Pod", "maxLimitRequestRatio": {"memory": "2"}}]));
    // 1152 Mi of limits in all, of which half has to be requested: 576 Mi, 64 Mi of them by the application.
    assert_eq!(sized(&pod(&burstable(), &[]), &whole).resources()["requests"]["memory"], "512Mi");
}

#[test]
fn what_a_pod_may_have_in_all_counts_with_its_other_containers() {
    let whole = ranges(&json!([{"type": "Pod", "max": {"memory": "640Mi"}}]));
    assert_eq!(sized(&pod(&burstable(), &[]), &whole).resources()["limits"]["memory"], "512Mi");
    let tight = ranges(&json!([{"type": "Pod", "max": {"memory": "192Mi"}}]));
    let words = refused(&pod(&burstable(), &[]), &tight);
    assert!(words.contains("LimitRange `r` (max.memory of a Pod)") && words.contains("64Mi"), "{words}");
}

#[test]
fn a_guaranteed_pod_stays_one_within_every_bound() {
    let bounds = ranges(&json!([{"type": "Container", "max": {"cpu": "300m", "memory": "512Mi"}}]));
    let resources = sized(&pod(&guaranteed(), &[]), &bounds).resources();
    assert_eq!(resources["limits"], json!({"cpu": "300m", "memory": "512Mi"}));
    assert_eq!(resources["requests"], resources["limits"]);
    let bounds = ranges(&json!([{"type": "Container", "min": {"cpu": "1"}}]));
    let resources = sized(&pod(&guaranteed(), &[]), &bounds).resources();
    assert_eq!((&resources["limits"]["cpu"], &resources["requests"]["cpu"]), (&json!("1"), &json!("1")));
}

#[test]
fn resources_of_the_pod_as_a_whole_are_shared() {
    let whole = |pod_level: Value, annotations: &[(&str, &str)]| {
        let mut pod = pod(&json!({"requests": {"cpu": "100m", "memory": "128Mi"}}), annotations);
        pod.spec.as_mut().unwrap().resources = serde_json::from_value(pod_level).unwrap();
        pod
    };
    let limits = json!({"cpu": "1", "memory": "512Mi"});
    // All of what the pod requests is its container's already, as the API server defaults it.
    let full = json!({"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": limits});
    let sizing = sized(&whole(full.clone(), &[]), &Bounds::default());
    assert_eq!(
        sizing.resources(),
        json!({
            "requests": {"cpu": "0", "memory": "0"}, "limits": {"memory": "512Mi"},
        })
    );
    assert_eq!(sizing.arena_bytes >> 20, 256);
    // A pod that is Guaranteed as a whole takes nothing of its class from the sidecar.
    let guaranteed = json!({"requests": limits, "limits": limits});
    let resources = sized(&whole(guaranteed, &[]), &Bounds::default()).resources();
    assert_eq!(resources["requests"], json!({"cpu": "50m", "memory": "64Mi"}));
    assert_eq!(resources["limits"], json!({"memory": "512Mi"}));
    // A quota counts what the pod states.
    let counted =
        quota(&json!({"limits.cpu": "4", "limits.memory": "512Mi"}), &json!({"limits.memory": "0"}));
    sized(&whole(full.clone(), &[]), &counted);
    let words = refused(&whole(full, &[("sealane.dev/cpu-request", "50m")]), &Bounds::default());
    assert!(
        words.contains("sealane.dev/cpu-request") && words.contains("spec.resources.requests.cpu"),
        "{words}"
    );
}

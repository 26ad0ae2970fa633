//! Pods of every shape: what injection adds, what it leaves, and that it happens once.

use sealane_operator_api::well_known::{SIDECAR_CONTAINER, SIMULATED_FORM_ANNOTATION};
use sealane_types::SimulatedForm;
use serde_json::Value;

use super::*;
use crate::bounds::Bounds;
use crate::settings::SidecarSettings;
use crate::simulation::Simulation;

fn settings() -> SidecarSettings {
    SidecarSettings {
        traces: vec![("SEALANE_OTLP_ENDPOINT", "http://collector:4317".to_owned())],
        collateral: vec![("SEALANE_COLLATERAL_FETCH", "Vendor".to_owned())],
        ..SidecarSettings::new("localhost/sealane-sidecar:1".to_owned())
    }
}

fn context<'a>(settings: &'a SidecarSettings, peer: Option<&'a PeerName>) -> InjectionContext<'a> {
    InjectionContext {
        settings,
        operator_namespace: "sealane-system",
        control_ip: None,
        admin_port: 20_007,
        authorities: "PEM",
        namespace: "demo",
        peer,
        initdata: settings.simulation.as_ref().map(|_| INITDATA_ANNOTATION),
        node_agent: false,
        roots: Some("[]".to_owned()),
        key_secret: None,
        af_xdp: false,
        bounds: &UNBOUNDED,
    }
}

static UNBOUNDED: Bounds = Bounds { limit_ranges: Vec::new(), quotas: Vec::new() };

#[test]
fn the_key_of_a_peer_is_mounted_for_the_sidecar_alone() {
    let settings = settings();
    let context = InjectionContext { key_secret: Some("embedder-key"), ..context(&settings, None) };
    let after = injected_with(&plain(), &context);
    let volumes = after["spec"]["volumes"].as_array().unwrap();
    let key = volumes.iter().find(|volume| volume["name"] == "sealane-key").unwrap();
    assert_eq!(key["secret"]["secretName"], "embedder-key");
    assert_eq!(key["secret"]["items"], json!([{"key": "key.pem", "path": "key.pem"}]));
    let sidecar = sidecar(&after);
    assert!(names(&sidecar["volumeMounts"]).contains(&"sealane-key"));
    assert_eq!(variable(sidecar, "SEALANE_KEY_FILE").unwrap()["value"], "/run/sealane-key/key.pem");
    assert!(!names(&after["spec"]["containers"][0]["volumeMounts"]).contains(&"sealane-key"));
    let without = injected(&plain());
    assert!(!names(&without["spec"]["volumes"]).contains(&"sealane-key"));
}

/// The pod after injection, as the API server computes it.
fn injected_with(pod: &Value, context: &InjectionContext<'_>) -> Value {
    let injected = inject(&serde_json::from_value(pod.clone()).unwrap(), context).unwrap();
    let mut after = pod.clone();
    json_patch::patch(&mut after, &injected.patch).unwrap();
    after
}

fn injected(pod: &Value) -> Value {
    injected_with(pod, &context(&settings(), None))
}

fn refused(pod: &Value) -> InjectError {
    let pod = serde_json::from_value(pod.clone()).unwrap();
    inject(&pod, &context(&settings(), None)).unwrap_err()
}

fn pod(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

fn plain() -> Value {
    pod(&json!({"containers": [{"name": "app", "image": "app"}]}))
}

fn sidecar(pod: &Value) -> &Value {
    &pod["spec"]["initContainers"][0]
}

fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a Value> {
    container["env"].as_array()?.iter().find(|variable| variable["name"] == name)
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

#[test]
fn a_plain_pod_gets_a_native_sidecar_and_its_application_the_door() {
    let after = injected(&plain());
    let sidecar = sidecar(&after);
    assert_eq!(sidecar["name"], SIDECAR_CONTAINER);
    assert_eq!(sidecar["restartPolicy"], "Always");
    assert_eq!(sidecar["startupProbe"]["httpGet"], json!({"path": "/startupz", "port": "sealane-admin"}));
    assert_eq!(
        variable(sidecar, "SEALANE_CONTROL_ADDRESS").unwrap()["value"],
        "https://sealane-control.sealane-system.svc:14712"
    );
    assert_eq!(variable(sidecar, "SEALANE_DATA_PORT").unwrap()["value"], "14710");
    assert_eq!(variable(sidecar, "SEALANE_DRAIN_SECONDS").unwrap()["value"], "25");
    assert_eq!(variable(sidecar, "SEALANE_ROOTS").unwrap()["value"], "[]");
    assert_eq!(variable(sidecar, "SEALANE_OTLP_ENDPOINT").unwrap()["value"], "http://collector:4317");
    assert_eq!(after["metadata"]["labels"], json!({INJECTED_LABEL: "true"}));
    assert_eq!(
        names(&after["spec"]["volumes"]),
        ["sealane-door", "sealane-token", "sealane-state", "sealane-collateral"]
    );
    assert_eq!(after["spec"]["volumes"][0]["emptyDir"]["medium"], "Memory");
    let source = &after["spec"]["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"];
    assert_eq!(source["audience"], "sealane.dev/control");
    let app = &after["spec"]["containers"][0];
    assert_eq!(
        app["volumeMounts"],
        json!([{"name": "sealane-door", "mountPath": "/run/sealane", "readOnly": true}])
    );
    assert_eq!(variable(app, "SEALANE_DOOR").unwrap()["value"], "/run/sealane/door.sock");
    assert_eq!(variable(app, "SEALANE_GRPC").unwrap()["value"], "/run/sealane/grpc.sock");
    assert_eq!(variable(sidecar, "SEALANE_GRPC").unwrap()["value"], "/run/sealane/grpc.sock");
    assert!(variable(sidecar, "SEALANE_HOST_NETWORK").is_none());
}

#[test]
fn the_sidecar_satisfies_the_restricted_pod_security_standard() {
    let after = injected(&plain());
    let security = &sidecar(&after)["securityContext"];
    assert_eq!(security["runAsNonRoot"], true);
    assert!(security["runAsUser"].is_null(), "that of the image, or the platform's");
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(security["seccompProfile"], json!({"type": "RuntimeDefault"}));
    let allowed = ["emptyDir", "projected", "downwardAPI", "configMap"];
    for volume in after["spec"]["volumes"].as_array().unwrap() {
        assert!(allowed.iter().any(|kind| volume[kind].is_object()), "{volume}");
    }
}

#[test]
fn no_user_is_named_where_the_platform_may_name_one() {
    let user = |change: fn(&mut Value)| {
        let mut pod = plain();
        change(&mut pod["spec"]);
        let after = injected(&pod);
        let security = sidecar(&after)["securityContext"].clone();
        assert_eq!(security["runAsNonRoot"], true);
        assert_eq!(security["runAsUser"], security["runAsGroup"]);
        security["runAsUser"].clone()
    };
    assert_eq!(user(|_| ()), json!(null));
    // As a namespace of OpenShift demands it.
    assert_eq!(user(|spec| spec["securityContext"] = json!({"runAsUser": 1_000_650_000})), json!(null));
    assert_eq!(user(|spec| spec["securityContext"] = json!({"runAsUser": 0})), 65532, "it is never root");
}

#[test]
fn a_platforms_user_is_not_taken_where_containers_see_the_sidecars_processes() {
    for namespace in ["shareProcessNamespace", "hostPID"] {
        // The platform gives the application and the sidecar one user where neither the pod nor a container names one.
        for security in
            [json!(null), json!({}), json!({"runAsUser": 1000}), json!({"runAsUser": 1_000_650_000})]
        {
            let mut pod = plain();
            pod["spec"]["securityContext"] = security;
            pod["spec"][namespace] = json!(true);
            let security = sidecar(&injected(&pod))["securityContext"].clone();
            assert_eq!(
                (&security["runAsUser"], &security["runAsGroup"]),
                (&json!(65532), &json!(65532)),
                "{pod}"
            );
            pod["spec"][namespace] = json!(false);
            assert!(sidecar(&injected(&pod))["securityContext"]["runAsUser"].is_null(), "{pod}");
        }
    }
}

#[test]
fn what_the_sidecar_is_given_to_keep_is_mounted_nowhere_else() {
    // With the application's user, files that only their owner may read are the application's too, if it has them.
    let settings = settings();
    let context = InjectionContext { key_secret: Some("key"), node_agent: true, ..context(&settings, None) };
    let mut pod = plain();
    pod["spec"]["securityContext"] = json!({"runAsUser": 1000});
    let after = injected_with(&pod, &context);
    let kept = ["sealane-token", "sealane-key", "sealane-agent"];
    let mounted = |container: &Value| -> Vec<String> {
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        let names = mounts.filter_map(|mount| mount["name"].as_str()).map(str::to_owned);
        names.filter(|name| kept.contains(&name.as_str())).collect()
    };
    assert_eq!(mounted(sidecar(&after)).len(), kept.len());
    assert_eq!(mounted(&after["spec"]["containers"][0]), [""; 0]);
}

#[test]
fn what_the_chart_adds_to_the_environment_changes_nothing_that_injection_says() {
    let added = json!([{"name": "TZ", "value": "UTC"}, {"name": "RUST_LOG", "value": "trace"}]);
    let settings = SidecarSettings { environment: serde_json::from_value(added).unwrap(), ..settings() };
    let after = injected_with(&plain(), &context(&settings, None));
    let sidecar = sidecar(&after);
    assert_eq!(variable(sidecar, "TZ").unwrap()["value"], "UTC");
    let all = sidecar["env"].as_array().unwrap();
    let last = all.iter().rfind(|variable| variable["name"] == "RUST_LOG").unwrap();
    assert_eq!(last["value"], "info", "of two the later counts");
}

#[test]
fn the_result_is_a_pod_and_injecting_it_again_changes_nothing() {
    for pod in [plain(), host_network(), guaranteed(), with_init_containers()] {
        let once = injected(&pod);
        let typed: Pod = serde_json::from_value(once.clone()).unwrap();
        assert_eq!(inject(&typed, &context(&settings(), None)).unwrap(), Injected::default());
        assert_eq!(injected(&once), once);
    }
}

#[test]
fn a_pod_with_its_own_sealane_container_is_left_byte_for_byte() {
    for list in ["containers", "initContainers"] {
        let mut pod = plain();
        pod["spec"][list] = json!([{"name": "sealane", "image": "rendered-by-hand"}]);
        assert_eq!(injected(&pod), pod, "{list}");
    }
}

fn with_init_containers() -> Value {
    pod(&json!({
        "initContainers": [
            {"name": "prepare", "image": "x", "env": [{"name": "A", "value": "b"}]},
            {"name": "other-sidecar", "image": "y", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "app", "image": "app"}, {"name": "second", "image": "app"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }))
}

#[test]
fn the_sidecar_starts_first_and_every_container_gets_the_door() {
    let after = injected(&with_init_containers());
    assert_eq!(names(&after["spec"]["initContainers"]), ["sealane", "prepare", "other-sidecar"]);
    let volumes = ["data", "sealane-door", "sealane-token", "sealane-state", "sealane-collateral"];
    assert_eq!(names(&after["spec"]["volumes"]), volumes);
    let all = after["spec"]["initContainers"].as_array().unwrap().iter().skip(1);
    for container in all.chain(after["spec"]["containers"].as_array().unwrap()) {
        assert_eq!(names(&container["volumeMounts"]), ["sealane-door"], "{container}");
        assert!(variable(container, "SEALANE_DOOR").is_some(), "{container}");
        assert!(variable(container, "SEALANE_GRPC").is_some(), "{container}");
    }
    assert_eq!(after["spec"]["initContainers"][1]["env"][0], json!({"name": "A", "value": "b"}));
}

#[test]
fn what_the_author_wrote_stays() {
    let before = pod(&json!({
        "containers": [{"name": "app", "image": "app", "unknownToUs": {"kept": true},
            "env": [{"name": "SEALANE_DOOR", "value": "/elsewhere"}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "priority": 7,
    }));
    let after = injected(&before);
    let app = &after["spec"]["containers"][0];
    assert_eq!(app["unknownToUs"], json!({"kept": true}));
    assert_eq!(app["env"][0], before["spec"]["containers"][0]["env"][0]);
    assert_eq!(names(&app["env"]), ["SEALANE_DOOR", "SEALANE_GRPC"]);
    assert_eq!(names(&app["volumeMounts"]), ["data", "sealane-door"]);
    assert_eq!(after["spec"]["priority"], 7);
}

#[test]
fn a_pod_from_a_template_has_no_name_yet() {
    let mut before = plain();
    before["metadata"] = json!({"generateName": "embedder-5d8-", "labels": {"app": "embedder"}});
    let after = injected(&before);
    assert_eq!(after["metadata"]["labels"], json!({"app": "embedder", INJECTED_LABEL: "true"}));
    let name = variable(sidecar(&after), "SEALANE_POD_NAME").unwrap();
    assert_eq!(name["valueFrom"]["fieldRef"]["fieldPath"], "metadata.name");
}

fn host_network() -> Value {
    pod(&json!({"hostNetwork": true, "containers": [{"name": "app", "image": "app"}]}))
}

#[test]
fn on_the_hosts_network_nothing_has_a_fixed_port() {
    let after = injected(&host_network());
    let sidecar = sidecar(&after);
    assert_eq!(variable(sidecar, "SEALANE_DATA_PORT").unwrap()["value"], "0");
    assert_eq!(variable(sidecar, "SEALANE_ADMIN_PORT").unwrap()["value"], "0");
    assert_eq!(variable(sidecar, "SEALANE_HOST_NETWORK").unwrap()["value"], "true");
    assert_eq!(sidecar["ports"], json!([]));
    assert_eq!(sidecar["startupProbe"]["exec"]["command"], json!(["/usr/bin/sealane-sidecar", "probe"]));
    assert!(sidecar["startupProbe"]["httpGet"].is_null());
}

fn environment_of(pod: &Value, context: &InjectionContext<'_>) -> [String; 2] {
    let after = injected_with(pod, context);
    ["SEALANE_CONTROL_ADDRESS", "SEALANE_CONTROL_SERVER_NAME"].map(|name| {
        let value = variable(sidecar(&after), name).map(|variable| variable["value"].clone());
        value.and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
    })
}

#[test]
fn where_names_of_the_cluster_mean_nothing_the_operator_has_an_address() {
    let settings = settings();
    let (name, port) = ("sealane-control.sealane-system.svc", 14712);
    for (ip, host) in [("10.96.0.7", "10.96.0.7"), ("fd00::7", "[fd00::7]")] {
        let context = InjectionContext { control_ip: Some(ip.parse().unwrap()), ..context(&settings, None) };
        for (host_network, policy, resolves) in [
            (true, json!(null), false),
            (true, json!("ClusterFirst"), false),
            (true, json!("Default"), false),
            (true, json!("None"), false),
            (true, json!("ClusterFirstWithHostNet"), true),
            (false, json!(null), true),
            (false, json!("ClusterFirst"), true),
            (false, json!("ClusterFirstWithHostNet"), true),
            (false, json!("Default"), false),
            (false, json!("None"), false),
        ] {
            let mut pod = plain();
            pod["spec"]["hostNetwork"] = json!(host_network);
            pod["spec"]["dnsPolicy"] = policy.clone();
            let expected = if resolves {
                [format!("https://{name}:{port}"), String::new()]
            } else {
                [format!("https://{host}:{port}"), name.to_owned()]
            };
            assert_eq!(environment_of(&pod, &context), expected, "{host_network} {policy}");
            let warnings = inject(&serde_json::from_value(pod).unwrap(), &context).unwrap().warnings;
            assert_eq!(warnings.is_empty(), resolves, "{warnings:?}");
            let remedy =
                if host_network { "dnsPolicy: ClusterFirstWithHostNet" } else { "dnsPolicy: ClusterFirst " };
            assert!(warnings.iter().all(|warning| warning.contains(ip) && warning.contains(remedy)));
        }
    }
    // What is not known is said, and the name is tried all the same.
    let unknown = context(&settings, None);
    assert_eq!(environment_of(&host_network(), &unknown)[0], format!("https://{name}:{port}"));
    let pod = serde_json::from_value(host_network()).unwrap();
    assert!(inject(&pod, &unknown).unwrap().warnings[0].contains("will not find the operator"));
}

#[test]
fn a_sidecar_on_the_hosts_network_says_where_its_metrics_are() {
    let port = |pod: &Value| {
        let after = injected(pod);
        let told = after["metadata"]["annotations"]["sealane.dev/admin-port"].clone();
        let asked = variable(sidecar(&after), "SEALANE_ADMIN_PORT_PREFERRED").map(|one| one["value"].clone());
        (told, asked)
    };
    assert_eq!(port(&host_network()), (json!("20007"), Some(json!("20007"))));
    let mut own = host_network();
    own["metadata"]["annotations"] = json!({"sealane.dev/admin-port": "9100"});
    assert_eq!(port(&own), (json!("9100"), Some(json!("9100"))));
    for wrong in ["80", "65536", "any", ""] {
        own["metadata"]["annotations"]["sealane.dev/admin-port"] = json!(wrong);
        assert!(refused(&own).to_string().contains("sealane.dev/admin-port"), "{wrong}");
    }
    // Elsewhere it has a port with a name.
    assert_eq!(port(&plain()), (json!(null), None));
}

#[test]
fn what_af_xdp_takes_is_given_to_the_sidecar_alone_and_nothing_else_changes() {
    let settings = settings();
    let context = context(&settings, None);
    let with = injected_with(&host_network(), &InjectionContext { af_xdp: true, ..context.clone() });
    let mut without = injected_with(&host_network(), &context);
    assert_eq!(sidecar(&without)["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
    assert!(variable(sidecar(&without), "SEALANE_AF_XDP").is_none());
    assert_eq!(variable(sidecar(&with), "SEALANE_AF_XDP").unwrap()["value"], "true");
    assert_eq!(
        sidecar(&with)["securityContext"],
        json!({
            "runAsNonRoot": false, "runAsUser": 0, "runAsGroup": 0,
            "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": ["BPF", "IPC_LOCK", "NET_ADMIN", "NET_RAW"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        })
    );
    for field in ["securityContext", "env"] {
        without["spec"]["initContainers"][0][field] = sidecar(&with)[field].clone();
    }
    assert_eq!(with, without);
}

#[test]
fn on_the_hosts_network_servers_can_put_their_sockets_in_one_place_and_write_nowhere_else() {
    let mut before = with_init_containers();
    before["spec"]["hostNetwork"] = json!(true);
    let after = injected(&before);
    let applications = after["spec"]["initContainers"].as_array().unwrap().iter().skip(1);
    for container in applications.chain(after["spec"]["containers"].as_array().unwrap()) {
        assert_eq!(
            container["volumeMounts"],
            json!([
                {"name": "sealane-door", "mountPath": "/run/sealane", "readOnly": true},
                {"name": "sealane-target", "mountPath": "/run/sealane/target"},
            ]),
            "{container}"
        );
    }
    // The sidecar's runtime makes the place in the door volume, which application containers cannot.
    let mounts = sidecar(&after)["volumeMounts"].as_array().unwrap();
    assert_eq!(mounts[0], json!({"name": "sealane-door", "mountPath": "/run/sealane"}));
    assert!(mounts.contains(&json!({"name": "sealane-target", "mountPath": "/run/sealane/target"})));
    let volumes = after["spec"]["volumes"].as_array().unwrap();
    let targets = volumes.iter().find(|volume| volume["name"] == "sealane-target").unwrap();
    assert_eq!(targets["emptyDir"], json!({"medium": "Memory", "sizeLimit": "1Mi"}));
}

fn guaranteed() -> Value {
    let limits = json!({"cpu": "1", "memory": "1Gi"});
    pod(&json!({"containers": [
        {"name": "app", "image": "app", "resources": {"limits": limits, "requests": limits}},
        {"name": "second", "image": "app", "resources": {"limits": limits}},
    ]}))
}

#[test]
fn a_guaranteed_pod_stays_guaranteed_and_no_other_becomes_it() {
    let after = injected(&guaranteed());
    let resources = &sidecar(&after)["resources"];
    assert_eq!(resources["requests"], resources["limits"]);
    assert_eq!(resources["limits"], json!({"cpu": "500m", "memory": "1Gi"}));
    assert!(crate::pod_shape::is_guaranteed(&serde_json::from_value::<Pod>(after).unwrap().spec.unwrap()));

    let mut burstable = guaranteed();
    burstable["spec"]["containers"][1]["resources"] = json!({"limits": {"memory": "1Gi"}});
    let after = injected(&burstable);
    assert_eq!(sidecar(&after)["resources"]["requests"]["memory"], "64Mi");
}

#[test]
fn annotations_set_the_sidecars_resources() {
    let mut before = plain();
    before["metadata"]["annotations"] = json!({
        "sealane.dev/cpu-request": "250m", "sealane.dev/memory-limit": "2Gi", "other": "kept",
    });
    let after = injected(&before);
    let resources = &sidecar(&after)["resources"];
    assert_eq!(resources["requests"], json!({"cpu": "250m", "memory": "64Mi"}));
    assert_eq!(resources["limits"], json!({"memory": "2Gi"}));
    assert_eq!(after["metadata"]["annotations"]["other"], "kept");

    before["metadata"]["annotations"]["sealane.dev/cpu-limit"] = json!("lots");
    assert!(refused(&before).to_string().contains("sealane.dev/cpu-limit"));
}

#[test]
fn the_drain_deadline_follows_the_grace_period() {
    for (grace, drain) in [(json!(null), "25"), (json!(60), "55"), (json!(3), "1"), (json!(0), "1")] {
        let mut before = plain();
        before["spec"]["terminationGracePeriodSeconds"] = grace;
        assert_eq!(variable(sidecar(&injected(&before)), "SEALANE_DRAIN_SECONDS").unwrap()["value"], drain);
    }
}

#[test]
fn pull_secrets_are_added_once() {
    let settings =
        SidecarSettings { pull_secrets: vec!["registry".to_owned(), "own".to_owned()], ..settings() };
    let mut before = plain();
    before["spec"]["imagePullSecrets"] = json!([{"name": "own"}]);
    let after = injected_with(&before, &context(&settings, None));
    assert_eq!(names(&after["spec"]["imagePullSecrets"]), ["own", "registry"]);
    let after = injected_with(&plain(), &context(&settings, None));
    assert_eq!(names(&after["spec"]["imagePullSecrets"]), ["registry", "own"]);
}

#[test]
fn what_cannot_be_injected_is_refused_by_name() {
    let mut mounted = plain();
    mounted["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/run/sealane/"}]);
    assert_eq!(refused(&mounted), InjectError::ReservedMount("app".to_owned()));
    mounted["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] = json!("/run/sealane/target");
    assert_eq!(refused(&mounted), InjectError::ReservedMount("app".to_owned()));
    mounted["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] = json!("/run/sealane-of-another");
    injected(&mounted);
    for reserved in ["sealane-token", "sealane-key", "sealane-target"] {
        // Invalid by itself, and valid once the volume is there.
        mounted["spec"]["containers"][0]["volumeMounts"][0]["name"] = json!(reserved);
        let (container, volume) = ("app".to_owned(), reserved.to_owned());
        assert_eq!(refused(&mounted), InjectError::SidecarVolume { container, volume });
        let mut named = plain();
        named["spec"]["volumes"] = json!([{"name": reserved, "emptyDir": {}}]);
        assert_eq!(refused(&named), InjectError::ReservedVolume(reserved.to_owned()));
    }
    let mut windows = plain();
    windows["spec"]["os"] = json!({"name": "windows"});
    assert_eq!(refused(&windows), InjectError::Windows);
    let mut bound = plain();
    bound["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    assert_eq!(refused(&bound), InjectError::Windows);
    bound["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    injected(&bound);
    assert_eq!(refused(&json!({"metadata": {}})), InjectError::NoSpec);
}

#[test]
fn without_simulation_nothing_of_it_is_there() {
    let after = injected(&plain()).to_string();
    for word in ["SIMULATED", "INITDATA", "initdata"] {
        assert!(!after.contains(word), "{word}");
    }
}

#[test]
fn collateral_is_mounted_where_there_is_some() {
    let after = injected(&plain());
    let volume = after["spec"]["volumes"].as_array().unwrap();
    let volume = volume.iter().find(|volume| volume["name"] == "sealane-collateral").unwrap();
    assert_eq!(volume["configMap"], json!({"name": "sealane-collateral", "optional": true}));
    let sidecar = sidecar(&after);
    assert_eq!(variable(sidecar, "SEALANE_COLLATERAL_FETCH").unwrap()["value"], "Vendor");
    let place = &variable(sidecar, "SEALANE_COLLATERAL").unwrap()["value"];
    let mounts = sidecar["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["name"] == "sealane-collateral").unwrap();
    assert_eq!((&mount["mountPath"], &mount["readOnly"]), (place, &json!(true)));
    assert_eq!(names(&after["spec"]["containers"][0]["volumeMounts"]), ["sealane-door"]);
}

#[test]
fn what_the_sidecar_saw_is_kept_for_it_alone() {
    let after = injected(&plain());
    let volumes = after["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == "sealane-state").unwrap();
    assert_eq!(volume["emptyDir"], json!({"medium": "Memory", "sizeLimit": "16Mi"}));
    let sidecar = sidecar(&after);
    let mounts = sidecar["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["name"] == "sealane-state").unwrap();
    assert_eq!(mount["mountPath"], variable(sidecar, "SEALANE_STATE").unwrap()["value"]);
    assert_eq!(mount.get("readOnly"), None);
    assert_eq!(names(&after["spec"]["containers"][0]["volumeMounts"]), ["sealane-door"]);
    let mut mounted = plain();
    mounted["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "sealane-state", "mountPath": "/state"}]);
    assert!(matches!(refused(&mounted), InjectError::SidecarVolume { .. }));
}

#[test]
fn the_simulated_platform_measures_initdata_from_an_annotation() {
    let settings = SidecarSettings { simulation: Some(simulation()), ..settings() };
    let peer = PeerName::new("embedder").unwrap();
    let after = injected_with(&plain(), &context(&settings, Some(&peer)));
    let text = "sealane simulated initdata\nnamespace: demo\npeer: embedder\n";
    assert_eq!(after["metadata"]["annotations"][INITDATA_ANNOTATION], text);
    let sidecar = sidecar(&after);
    assert_eq!(
        variable(sidecar, "SEALANE_SIMULATED_PLATFORM").unwrap()["value"],
        r#"{"sevSnp":{"ark":"x"}}"#
    );
    assert_eq!(variable(sidecar, "SEALANE_SIMULATED_FORM").unwrap()["value"], "SevSnp");
    assert_eq!(variable(sidecar, "SEALANE_INITDATA").unwrap()["value"], "/run/sealane-initdata/initdata");
    let volumes = after["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == "sealane-initdata").unwrap();
    let item = &volume["downwardAPI"]["items"][0];
    assert_eq!(item["fieldRef"]["fieldPath"], "metadata.annotations['sealane.dev/initdata']");

    // An author's own initdata is kept.
    let mut own = plain();
    own["metadata"]["annotations"] = json!({INITDATA_ANNOTATION: "mine"});
    let after = injected_with(&own, &context(&settings, Some(&peer)));
    assert_eq!(after["metadata"]["annotations"][INITDATA_ANNOTATION], "mine");
    assert_eq!(simulated_initdata("demo", None), "sealane simulated initdata\nnamespace: demo\npeer: \n");
}

#[test]
fn the_node_agent_is_reached_by_the_sidecar_alone() {
    let settings = settings();
    let context = InjectionContext { node_agent: true, ..context(&settings, None) };
    let after = injected_with(&plain(), &context);
    let volumes = after["spec"]["volumes"].as_array().unwrap();
    let agent = volumes.iter().find(|volume| volume["name"] == "sealane-agent").unwrap();
    assert_eq!(agent["csi"], json!({"driver": "csi.sealane.dev", "readOnly": true}));
    assert!(names(&sidecar(&after)["volumeMounts"]).contains(&"sealane-agent"));
    assert!(!names(&after["spec"]["containers"][0]["volumeMounts"]).contains(&"sealane-agent"));
    let without = injected(&plain());
    assert!(!names(&without["spec"]["volumes"]).contains(&"sealane-agent"));
    let taken = pod(&json!({
        "containers": [{"name": "app", "image": "app"}],
        "volumes": [{"name": "sealane-agent", "emptyDir": {}}],
    }));
    assert_eq!(refused(&taken), InjectError::ReservedVolume("sealane-agent".to_owned()));
}

#[test]
fn images_by_tag_are_told_where_the_node_agent_would_not_state_them() {
    let settings = settings();
    let by_agent = InjectionContext { node_agent: true, ..context(&settings, None) };
    let told = |pod: &Value, context: &InjectionContext<'_>| {
        inject(&serde_json::from_value(pod.clone()).unwrap(), context).unwrap().warnings.join("\n")
    };
    let digest = format!("app:1@sha256:{}", "0a".repeat(32));
    let mixed = pod(&json!({
        "initContainers": [{"name": "prepare", "image": "prepare:1"}],
        "containers": [{"name": "app", "image": digest}],
    }));
    let words = told(&mixed, &by_agent);
    assert!(words.contains("`prepare` (prepare:1); give them by digest"), "{words}");
    assert!(!words.contains("`app`"), "{words}");
    assert_eq!(told(&pod(&json!({"containers": [{"name": "app", "image": digest}]})), &by_agent), "");
    assert_eq!(
        told(&mixed, &context(&settings, None)),
        "",
        "other sources of evidence measure what they run"
    );
}

fn simulation() -> Simulation {
    Simulation::parse(r#"{"sevSnp": {"ark": "x"}, "tdx": {"chain": []}}"#).unwrap()
}

#[test]
fn a_pod_says_which_platform_its_simulated_one_resembles() {
    let settings = SidecarSettings { simulation: Some(simulation()), ..settings() };
    let context = context(&settings, None);
    let of = |form: &str| {
        let mut pod = plain();
        pod["metadata"]["annotations"] = json!({SIMULATED_FORM_ANNOTATION: form});
        pod
    };
    let after = injected_with(&of("Tdx"), &context);
    let sidecar = sidecar(&after);
    assert_eq!(variable(sidecar, "SEALANE_SIMULATED_FORM").unwrap()["value"], "Tdx");
    assert_eq!(variable(sidecar, "SEALANE_SIMULATED_PLATFORM").unwrap()["value"], r#"{"tdx":{"chain":[]}}"#);
    let refused = |form: &str| inject(&serde_json::from_value(of(form)).unwrap(), &context).unwrap_err();
    assert_eq!(refused("Sgx"), InjectError::Form("Sgx".to_owned()));
    assert_eq!(refused("Nitro"), InjectError::FormMissing(SimulatedForm::Nitro));
    // In earnest the annotation says nothing, and stops nobody.
    assert!(!injected(&of("Sgx")).to_string().contains("SIMULATED"));
}

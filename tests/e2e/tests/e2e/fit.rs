//! Namespaces and pods that bound what a sidecar may be: quotas, limits, users, networks. Clusters of others have them.

use anyhow::{Context, Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, every_kind, forward, session, until};
use serde_json::{Value, json};

const SLEEP: &str = "import time\ntime.sleep(600)\n";
const OPERATOR: &str = "--as=system:serviceaccount:sealane-system:sealane-operator";

/// A workload's objects, with its pod changed.
fn changed(sandbox: &Sandbox, workload: &Workload, change: impl FnOnce(&mut Value)) -> Vec<Value> {
    let mut objects = workload.manifests(&sandbox.cluster.image);
    change(&mut objects[1]);
    objects
}

fn resources(pod: &mut Value, resources: &Value) {
    pod["spec"]["containers"][0]["resources"] = resources.clone();
}

async fn sidecar(sandbox: &Sandbox, pod: &str) -> Result<Value> {
    let seen = sandbox.pod(pod).await?;
    let containers = seen["spec"]["initContainers"].as_array().into_iter().flatten();
    containers.into_iter().find(|one| one["name"] == "sealane").cloned().with_context(|| seen.to_string())
}

fn modest() -> Value {
    json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "256Mi"}})
}

#[tokio::test]
async fn inject_fits_a_sidecar_into_a_quota() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("fit-quota").await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    let hard =
        json!({"requests.cpu": "2", "requests.memory": "2Gi", "limits.cpu": "4", "limits.memory": "4Gi"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    sandbox.apply(vec![quota]).await?;
    let counted = "jsonpath={.status.hard}";
    until("the quota is enforced", || async {
        let seen = sandbox.kubectl(&["get", "resourcequota", "q", "-o", counted]).await;
        let seen = seen.map_err(|error| format!("{error:#}"))?;
        if seen.contains("limits.cpu") { Ok(()) } else { Err(seen) }
    })
    .await?;
    let left = Workload::new("left", "node1", SLEEP);
    sandbox.apply(changed(&sandbox, &left, |pod| resources(pod, &modest()))).await?;
    ensure!(
        sidecar(&sandbox, "left").await?["resources"]["limits"] == json!({"cpu": "500m", "memory": "1Gi"})
    );
    // What does not fit is refused with the name of the annotation.
    let right = Workload::new("right", "node1", SLEEP);
    let refused = sandbox.apply(changed(&sandbox, &right, |pod| {
        resources(pod, &modest());
        pod["metadata"]["annotations"]["sealane.dev/memory-limit"] = json!("8Gi");
    }));
    let message = format!("{:#}", refused.await.expect_err("it is more than the quota"));
    ensure!(
        message.contains("sealane.dev/memory-limit") && message.contains("ResourceQuota `q`"),
        "{message}"
    );
    sandbox.remove().await
}

#[tokio::test]
async fn inject_fits_a_sidecar_into_a_limit_range() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("fit-range").await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    let item = json!({"type": "Container", "max": {"memory": "512Mi", "cpu": "1"}, "default": {"cpu": "100m", "memory": "128Mi"}});
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r"}, "spec": {"limits": [item]}});
    sandbox.apply(vec![range]).await?;
    sandbox.start(&Workload::new("left", "node1", SLEEP)).await?;
    let container = sidecar(&sandbox, "left").await?;
    ensure!(container["resources"]["limits"] == json!({"cpu": "500m", "memory": "512Mi"}), "{container:#}");
    let arena = container["env"].as_array().into_iter().flatten();
    let arena = arena.into_iter().find(|one| one["name"] == "SEALANE_ARENA_BYTES").context("arenas")?;
    ensure!(arena["value"] == "268435456", "{arena}");
    sandbox.remove().await
}

/// Puts as fast as it may.
const PUT: &str = r#"
import numpy as np, sealane

with sealane.connect() as door:
    lane = door.sender("lane", timeout=120)
    block = np.zeros(1 << 20, np.uint8)
    while True:
        lane.put(block, timeout=120)
"#;

const TAKE: &str = r#"
import sealane

with sealane.connect() as door:
    for _ in door.receiver("lane", timeout=120):
        pass
"#;

#[tokio::test]
async fn e2e_guaranteed_pods_keep_their_class_and_are_told_when_they_are_held_back() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("fit-guaranteed").await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    let own = json!({"limits": {"cpu": "200m", "memory": "512Mi"}});
    for (workload, limit) in
        [(Workload::new("right", "node2", TAKE), None), (Workload::new("left", "node1", PUT), Some("50m"))]
    {
        let objects = changed(&sandbox, &workload, |pod| {
            resources(pod, &own);
            if let Some(limit) = limit {
                pod["metadata"]["annotations"]["sealane.dev/cpu-limit"] = json!(limit);
            }
        });
        sandbox.apply(objects).await?;
        let pod = sandbox.pod(&workload.name).await?;
        ensure!(pod["status"]["qosClass"] == "Guaranteed", "{}", pod["status"]);
        let container = sidecar(&sandbox, &workload.name).await?;
        ensure!(container["resources"]["limits"]["cpu"] == limit.unwrap_or("500m"), "{container:#}");
    }
    until("the sender is held back", || async {
        let peer = sandbox.read("peer/left").await.map_err(|error| format!("{error:#}"))?;
        let conditions = peer["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let degraded = conditions.iter().find(|one| one["type"] == "Degraded" && one["status"] == "True");
        match degraded.and_then(|one| one["message"].as_str()) {
            Some(message) if message.contains("CpuThrottled") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_pods_on_the_hosts_network_with_the_default_resolver_attach() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("fit-resolver").await?;
    sandbox.open().await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    let [left, right] = every_kind().map(Workload::on_host_network);
    for (workload, policy) in [(&right, json!(null)), (&left, json!("Default"))] {
        let objects = changed(&sandbox, workload, |pod| pod["spec"]["dnsPolicy"] = policy.clone());
        sandbox.apply(objects).await?;
        let pod = sandbox.pod(&workload.name).await?;
        ensure!(pod["metadata"]["annotations"]["sealane.dev/admin-port"].is_string(), "{pod:#}");
    }
    sandbox.all_arrived().await?;
    sandbox.remove().await
}

const RANGE: &str = "users of this namespace are 1000650000 to 1000659999";
const CLASSES: &str = "classes of Kubernetes' own are for kube-system";

/// A rule of the platform for the pods of one namespace.
fn rule(name: &str, namespace: &str, expression: &str, message: &str) -> [Value; 2] {
    let pods =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [pods]},
            "validations": [{"expression": expression, "message": message}],
        },
    });
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": selector}},
    });
    [policy, binding]
}

async fn withdraw(cluster: &Cluster, name: &str) -> Result<()> {
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        cluster.kubectl(&["delete", kind, name]).await?;
    }
    Ok(())
}

/// As a namespace of OpenShift: users are of its range, or named by the platform.
fn own_users(sandbox: &Sandbox) -> [Value; 2] {
    let within = |of: &str| {
        let user = format!("{of}.securityContext.runAsUser");
        format!(
            "(!has({of}.securityContext) || !has({user}) || ({user} >= 1000650000 && {user} < 1000660000))"
        )
    };
    let (pod, container) = (within("object.spec"), within("c"));
    let every = format!(
        "{pod} && object.spec.containers.all(c, {container}) && (!has(object.spec.initContainers) || object.spec.initContainers.all(c, {container}))"
    );
    rule(&format!("{}-users", sandbox.name), &sandbox.name, &every, RANGE)
}

#[tokio::test]
async fn e2e_namespaces_that_name_the_users_of_their_pods_take_sidecars() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("fit-users").await?;
    for object in own_users(&sandbox) {
        sandbox.cluster.apply(&object).await?;
    }
    sandbox.apply(session("lane", "left", "right")).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    // The policy reaches the API server in its own time: a user of another range is refused once it has.
    until("other users are refused", || async {
        let probe = Workload::new("probe", "node1", SLEEP);
        match sandbox.apply(changed(&sandbox, &probe, |_| ())).await {
            Err(error) if format!("{error:#}").contains(RANGE) => Ok(()),
            Err(error) => Err(format!("{error:#}")),
            Ok(admitted) => {
                let _ = sandbox.kubectl(&["delete", "pod", "probe", "--grace-period=0", "--force"]).await;
                Err(admitted)
            }
        }
    })
    .await?;
    let [left, right] = every_kind();
    for workload in [&right, &left] {
        let user = json!(1_000_650_007);
        let objects = changed(&sandbox, workload, |pod| pod["spec"]["securityContext"]["runAsUser"] = user);
        sandbox.apply(objects).await?;
        let container = sidecar(&sandbox, &workload.name).await?;
        ensure!(container["securityContext"]["runAsUser"].is_null(), "{container:#}");
    }
    sandbox.all_arrived().await?;
    // Where processes are seen the sidecar keeps a user that is not the application's: no platform's range has it.
    let visible = Workload::new("visible", "node1", SLEEP);
    let refused = sandbox.apply(changed(&sandbox, &visible, |pod| {
        pod["spec"]["securityContext"]["runAsUser"] = json!(1_000_650_007);
        pod["spec"]["shareProcessNamespace"] = json!(true);
        pod["metadata"]["labels"]["sealane.dev/inject"] = json!("true");
    }));
    let message = format!("{:#}", refused.await.expect_err("its sidecar has a user of another range"));
    ensure!(message.contains(RANGE), "{message}");
    withdraw(&sandbox.cluster, &format!("{}-users", sandbox.name)).await?;
    sandbox.remove().await
}

/// What would become of a pod of the release.
async fn tried(release: &Sandbox, metadata: &Value, spec: &Value) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("pod.json");
    let named = json!({"name": "fit-class", "labels": metadata["labels"]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec});
    std::fs::write(&file, pod.to_string())?;
    release.kubectl(&["create", "--dry-run=server", "-f", &file.to_string_lossy()]).await
}

#[tokio::test]
async fn admit_release_needs_no_priority_class_of_kubernetes_own() -> Result<()> {
    let release = Cluster::connect()?.release()?;
    // As GKE has it outside of kube-system.
    let expression =
        "!has(object.spec.priorityClassName) || !object.spec.priorityClassName.startsWith('system-')";
    for object in rule("fit-classes", &release.name, expression, CLASSES) {
        release.cluster.apply(&object).await?;
    }
    for deployment in ["deployment/sealane-operator", "deployment/sealane-webhook"] {
        let template = release.read(deployment).await?["spec"]["template"].clone();
        let spec = &template["spec"];
        ensure!(spec["priorityClassName"].is_string(), "{spec:#}");
        until("the rule is in force", || async {
            let mut critical = spec.clone();
            critical["priorityClassName"] = json!("system-cluster-critical");
            match tried(&release, &template["metadata"], &critical).await {
                Err(error) if format!("{error:#}").contains(CLASSES) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await?;
        tried(&release, &template["metadata"], spec).await?;
    }
    withdraw(&release.cluster, "fit-classes").await
}

/// Listens where admission says that the server of a forward with a long name has to.
const SERVE: &str = r#"
import hashlib, os, socket

lane = "LANE"
os.umask(0)
server = socket.socket(socket.AF_UNIX)
server.bind(f"/run/sealane/target/{lane[:24]}~{hashlib.sha256(lane.encode()).hexdigest()[:32]}.sock")
server.listen()
while True:
    client, _ = server.accept()
    client.sendall(b"hello")
    client.close()
"#;

/// Dials the one socket that is there.
const DIAL: &str = r#"
import os, socket, time

FOLDER = "/run/sealane/forward"
while True:
    try:
        (name,) = os.listdir(FOLDER)
        client = socket.socket(socket.AF_UNIX)
        client.connect(f"{FOLDER}/{name}")
        if client.recv(5) == b"hello":
            break
    except (OSError, ValueError):
        pass
    time.sleep(0.02)
print("reached", len(f"{FOLDER}/{name}"), flush=True)
"#;

#[tokio::test]
async fn e2e_forwards_with_long_names_listen_on_the_hosts_network() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("fit-names").await?;
    sandbox.open().await?;
    let lane = format!("lane-{}", "n".repeat(200));
    sandbox.apply(forward(&lane, "left", "right", 18_001, 8_001)).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    let right = Workload::new("right", "node2", &SERVE.replace("LANE", &lane)).on_host_network();
    sandbox.start(&right).await?;
    sandbox.start(&Workload::new("left", "node1", DIAL).on_host_network()).await?;
    let log = sandbox.finish("left").await?;
    let length: usize =
        log.trim().rsplit(' ').next().and_then(|word| word.parse().ok()).context("a length")?;
    ensure!(length < 108, "{log}");
    sandbox.condition(&format!("transfersession/{lane}"), "Ready", "True").await?;
    sandbox.remove().await
}

#[tokio::test]
async fn admit_operator_deletes_only_what_it_made_for_benchmarks() -> Result<()> {
    let release = Cluster::connect()?.release()?;
    let foreign = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "fit-foreign"}});
    release.apply(vec![foreign("Secret"), foreign("ConfigMap")]).await?;
    let refused = release.kubectl(&["delete", "secret", "fit-foreign", OPERATOR]).await;
    let message = format!("{:#}", refused.expect_err("it is nobody's Benchmark"));
    ensure!(message.contains("sealane-benchmarks"), "{message}");
    let patch =
        ["patch", "configmap", "fit-foreign", "--type=merge", "-p", r#"{"data": {"a": "b"}}"#, OPERATOR];
    let message = format!("{:#}", release.kubectl(&patch).await.expect_err("it is another's"));
    ensure!(message.contains("sealane-benchmarks"), "{message}");
    let refused = release.kubectl(&["delete", "secret", "sealane-certificates", OPERATOR]).await;
    let message = format!("{:#}", refused.expect_err("its own certificates are no Benchmark's"));
    ensure!(message.contains("sealane-benchmarks"), "{message}");
    release.kubectl(&["delete", "secret/fit-foreign", "configmap/fit-foreign"]).await?;
    Ok(())
}

#[tokio::test]
async fn admit_editors_declare_flows_and_no_owners() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("fit-editors").await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "editor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "editor"}],
    });
    sandbox.apply(vec![binding]).await?;
    let may = async |verb: &str, what: &str| {
        // It exits 1 where the answer is no.
        let words = ["auth", "can-i", verb, &format!("{what}.sealane.dev"), "--as=editor"];
        sandbox.kubectl(&words).await.is_ok_and(|answer| answer.trim() == "yes")
    };
    until("roles are aggregated", || async {
        if may("create", "peers").await { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await?;
    ensure!(may("delete", "transfersessions").await && may("get", "trustpolicies").await);
    for verb in ["create", "update", "patch", "delete"] {
        ensure!(!may(verb, "trustpolicies").await, "{verb}");
    }
    // Whoever has rights in one namespace alone can have it looked at.
    let folder = tempfile::tempdir()?;
    let config = sandbox.cluster.acting_as("editor", folder.path()).await?;
    let words = ["check", "-n", &sandbox.name, "-o", "json", "--kubeconfig", &config];
    let checked = sandbox.cluster.plugin_outcome(&words.map(str::to_owned)).await?;
    ensure!(checked.code == Some(0), "{checked:?}");
    let lines: Value = serde_json::from_str(&checked.stdout)?;
    let outcomes: Vec<_> =
        lines.as_array().context("lines")?.iter().filter_map(|line| line["outcome"].as_str()).collect();
    ensure!(outcomes.contains(&"Good") && outcomes.contains(&"Skipped"), "{lines:#}");
    sandbox.remove().await
}

"""What the chart renders: the promises that a reader of the manifests relies on."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "sealane"
HELM = Path(os.environ.get("SEALANE_TEST_TOOLS", "/usr/bin")) / "helm"


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(HELM), *arguments], capture_output=True, text=True, check=False)


def render(*settings: str) -> list[dict[str, Any]]:
    words = ["template", "sealane", str(CHART), "--namespace", "sealane-system", "--kube-version", "1.36.0"]
    for setting in settings:
        words += ["--set", setting]
    done = helm(*words)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


@pytest.fixture(scope="module")
def default() -> list[dict[str, Any]]:
    return render()


def test_lint() -> None:
    done = helm("lint", str(CHART), "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


def test_custom_resources_are_the_generated_ones_and_are_kept(default: list[dict[str, Any]]) -> None:
    rendered = {crd["metadata"]["name"]: crd for crd in of_kind(default, "CustomResourceDefinition")}
    generated = {}
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        crd = yaml.safe_load(path.read_text())
        generated[crd["metadata"]["name"]] = crd
    assert rendered.keys() == generated.keys() and rendered
    for name, crd in rendered.items():
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert crd["spec"] == generated[name]["spec"], name


def test_operator_is_restricted(default: list[dict[str, Any]]) -> None:
    (deployment,) = of_kind(default, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not container["image"].endswith(":latest")


def test_roles_have_no_wildcards_and_no_data(default: list[dict[str, Any]]) -> None:
    roles = of_kind(default, "ClusterRole") + of_kind(default, "Role")
    assert roles
    for role in roles:
        for rule in role["rules"]:
            for part in ("apiGroups", "resources", "verbs"):
                assert "*" not in rule[part], role["metadata"]["name"]
    for role in of_kind(default, "ClusterRole"):
        for rule in role["rules"]:
            assert "secrets" not in rule["resources"], "the operator reads no Secret outside its namespace"
            assert not {"pods/exec", "nodes/proxy"} & set(rule["resources"])


def test_what_bounds_sidecars_is_read_and_never_changed(default: list[dict[str, Any]]) -> None:
    roles = of_kind(default, "ClusterRole") + of_kind(default, "Role")
    rules = [rule for role in roles for rule in role["rules"] if "limitranges" in rule["resources"]]
    assert [rule["verbs"] for rule in rules] == [["get", "list", "watch"]]


def test_what_makes_pods_is_read_everywhere_and_never_changed(default: list[dict[str, Any]]) -> None:
    rules = [rule for role in of_kind(default, "ClusterRole") for rule in role["rules"]]
    followed = {kind: rule["verbs"] for rule in rules for kind in rule["resources"]}
    for kind in ["deployments", "replicasets", "statefulsets", "daemonsets", "jobs"]:
        assert followed[kind] == ["get", "list", "watch"], kind


def test_namespaces_are_looked_at_one_by_one_and_never_changed(default: list[dict[str, Any]]) -> None:
    roles = of_kind(default, "ClusterRole") + of_kind(default, "Role")
    rules = [rule for role in roles for rule in role["rules"] if "namespaces" in rule["resources"]]
    assert rules == [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]


def test_webhooks_fail_closed_without_a_rendered_certificate(default: list[dict[str, Any]]) -> None:
    (mutating,) = of_kind(default, "MutatingWebhookConfiguration")
    (validating,) = of_kind(default, "ValidatingWebhookConfiguration")
    for webhook in mutating["webhooks"] + validating["webhooks"]:
        assert webhook["failurePolicy"] == "Fail"
        assert webhook["sideEffects"] == "None"
        assert webhook["timeoutSeconds"] == 5
        assert "caBundle" not in webhook["clientConfig"]
    (inject,) = mutating["webhooks"]
    (excluded,) = inject["namespaceSelector"]["matchExpressions"]
    assert {"kube-system", "kube-node-lease", "sealane-system"} <= set(excluded["values"])
    assert not of_kind(default, "Secret"), "certificates are the operator's own business"


def test_network_policy_opens_only_what_is_served(default: list[dict[str, Any]]) -> None:
    (policy,) = of_kind(default, "NetworkPolicy")
    ports = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    assert ports == ["control", "webhook", "metrics"]
    (deployment,) = of_kind(default, "Deployment")
    served = {port["name"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert set(ports) <= served
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_pods_on_the_hosts_network_reach_the_operator() -> None:
    def sources(*settings: str) -> list[str]:
        (policy,) = of_kind(render(*settings), "NetworkPolicy")
        (rule,) = [rule for rule in policy["spec"]["ingress"] if rule["ports"][0]["port"] == "control"]
        assert rule["from"][0]["podSelector"]["matchLabels"] == {"sealane.dev/injected": "true"}
        return [source["ipBlock"]["cidr"] for source in rule["from"][1:]]

    # A node's address has no label, and no cluster says which addresses its nodes have.
    assert sources() == ["0.0.0.0/0", "::/0"] == sources("networkPolicy.nodes=null")
    assert sources("networkPolicy.nodes={10.0.0.0/16}") == ["10.0.0.0/16"]


def test_metrics_of_pods_on_the_hosts_network_are_found_by_their_annotation() -> None:
    (monitor,) = of_kind(render("monitoring.podMonitor.enabled=true"), "PodMonitor")
    named, annotated = monitor["spec"]["podMetricsEndpoints"]
    assert named["port"] == "sealane-admin"
    assert "port" not in annotated
    labels = {
        "__meta_kubernetes_pod_container_name": "sealane",
        "__meta_kubernetes_pod_annotationpresent_sealane_dev_admin_port": "true",
        "__meta_kubernetes_pod_annotation_sealane_dev_admin_port": "20007",
    }

    def address(ip: str, **changes: str) -> str | None:
        """As Prometheus relabels."""
        known = {**labels, "__meta_kubernetes_pod_ip": ip, "__address__": ip, **changes}
        for rule in annotated["relabelings"]:
            value = ";".join(known.get(label, "") for label in rule["sourceLabels"])
            found = re.fullmatch(rule["regex"], value)
            if rule["action"] == "keep" and not found:
                return None
            if rule["action"] == "replace" and found:
                known[rule["targetLabel"]] = found.expand(re.sub(r"\$(\d)", r"\\\1", rule["replacement"]))
        return known["__address__"]

    assert address("10.0.0.7") == "10.0.0.7:20007"
    assert address("fd00::7") == "[fd00::7]:20007"
    assert address("10.0.0.7", __meta_kubernetes_pod_container_name="app") is None
    assert address("10.0.0.7", __meta_kubernetes_pod_annotationpresent_sealane_dev_admin_port="") is None


def operator_environment(*settings: str) -> dict[str, str]:
    (deployment,) = of_kind(render(*settings), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container["env"]}


def test_sidecars_get_a_cpu_limit_where_there_has_to_be_one() -> None:
    assert operator_environment()["SEALANE_SIDECAR_REQUIRED_CPU_LIMIT"] == "500m"
    assert operator_environment("sidecar.requiredCpuLimit=2")["SEALANE_SIDECAR_REQUIRED_CPU_LIMIT"] == "2"
    older = operator_environment("sidecar.requiredCpuLimit=null")
    assert older["SEALANE_SIDECAR_REQUIRED_CPU_LIMIT"] == "500m"


def test_toggles() -> None:
    quiet = render("networkPolicy.enabled=false", "podDisruptionBudget.enabled=false")
    assert not of_kind(quiet, "NetworkPolicy") and not of_kind(quiet, "PodDisruptionBudget")
    alone = render("operator.replicas=1")
    assert not of_kind(alone, "PodDisruptionBudget"), "a budget for one replica would block every drain"
    watched = render("monitoring.serviceMonitor.enabled=true", "monitoring.podMonitor.enabled=true")
    assert of_kind(watched, "ServiceMonitor") and of_kind(watched, "PodMonitor")


def test_simulation_is_off_unless_asked_for(default: list[dict[str, Any]]) -> None:
    plain = json.dumps(of_kind(default, "Deployment"))
    assert "sealane-sidecar:" in plain and "sealane-sidecar-sim:" not in plain
    simulated = json.dumps(of_kind(render("simulation.enabled=true"), "Deployment"))
    assert "sealane-sidecar-sim:" in simulated and "sealane-simulation" in simulated


def test_benchmarks_are_run_where_they_are_enabled_and_nowhere_else() -> None:
    def of(*settings: str) -> tuple[dict[str, str], list[str]]:
        documents = render(*settings)
        (deployment,) = of_kind(documents, "Deployment")
        environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        told = {one["name"]: one["value"] for one in environment if one["name"].startswith("SEALANE_BENCH")}
        roles = [role for role in of_kind(documents, "Role") if role["metadata"]["name"] == "sealane-benchmarks"]
        return told, [role["metadata"]["namespace"] for role in roles]

    told, namespaces = of("image.registry=registry.example", "benchmarks.image.tag=1a2b")
    assert told["SEALANE_BENCH_IMAGE"] == "registry.example/sealane-bench:1a2b"
    assert [told["SEALANE_BENCHMARK_NAMESPACES"]] == namespaces
    told, namespaces = of("benchmarks.namespaces={bench,perf}")
    assert (told["SEALANE_BENCHMARK_NAMESPACES"], namespaces) == ("bench,perf", ["bench", "perf"])
    assert of("benchmarks.enabled=false") == ({}, [])


DIGEST = "0a" * 32


def agent(*settings: str) -> list[dict[str, Any]]:
    return render("agent.enabled=true", f"agent.sidecarDigests={{{DIGEST}}}", *settings)


def test_the_node_agent_is_off_by_default(default: list[dict[str, Any]]) -> None:
    assert not of_kind(default, "DaemonSet") and not of_kind(default, "CSIDriver") and not of_kind(default, "Namespace")
    assert "SEALANE_NODE_AGENT" not in json.dumps(default)
    assert "SEALANE_NODE_AGENT" in json.dumps(of_kind(agent(), "Deployment"))


def test_the_node_agent_asks_kubelets_for_pods_and_nothing_else() -> None:
    rendered = agent()
    (role,) = [role for role in of_kind(rendered, "ClusterRole") if role["metadata"]["name"] == "sealane-agent"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]}]
    bindings = [*of_kind(rendered, "ClusterRoleBinding"), *of_kind(rendered, "RoleBinding")]
    bound = [binding["roleRef"]["name"] for binding in bindings if "sealane-agent" in json.dumps(binding["subjects"])]
    assert bound == ["sealane-agent"]


def test_the_node_agent_has_no_more_than_it_needs() -> None:
    (daemons,) = of_kind(agent(), "DaemonSet")
    pod = daemons["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "runAsUser": 0, "runAsGroup": 0, "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert "hostIPC" not in pod and "ports" not in container
    assert {volume["hostPath"]["path"] for volume in pod["volumes"]} == {
        "/var/lib/kubelet/pods", "/var/lib/kubelet/plugins/csi.sealane.dev", "/var/lib/kubelet/plugins_registry",
        "/sys/kernel/config",
    }
    assert all("mountPropagation" not in mount for mount in container["volumeMounts"])
    (device,) = of_kind(agent("agent.provider=SevGuest"), "DaemonSet")
    assert device["spec"]["template"]["spec"]["containers"][0]["securityContext"]["privileged"] is True


def test_restricted_namespaces_may_use_the_driver_and_its_own_is_privileged() -> None:
    rendered = agent()
    (driver,) = of_kind(rendered, "CSIDriver")
    assert driver["metadata"]["labels"]["security.kubernetes.io/csi-ephemeral-volume-profile"] == "restricted"
    assert driver["spec"] == {
        "attachRequired": False, "podInfoOnMount": True, "volumeLifecycleModes": ["Ephemeral"], "fsGroupPolicy": "None",
    }
    (namespace,) = of_kind(rendered, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    (daemons,) = of_kind(rendered, "DaemonSet")
    assert daemons["metadata"]["namespace"] == namespace["metadata"]["name"] != "sealane-system"
    assert not of_kind(agent("agent.createNamespace=false"), "Namespace")


def test_a_simulated_node_needs_simulation() -> None:
    done = helm("template", "sealane", str(CHART), "--set", "agent.enabled=true,agent.provider=Simulated",
                "--set", f"agent.sidecarDigests={{{DIGEST}}}")
    assert done.returncode != 0 and "simulation.enabled" in done.stderr
    simulated = agent("agent.provider=Simulated", "simulation.enabled=true")
    text = json.dumps(of_kind(simulated, "DaemonSet"))
    assert "sealane-sidecar-sim:" in text and "SEALANE_SIMULATED_PLATFORM" in text
    assert "SEALANE_SIMULATED_PLATFORM" not in json.dumps(of_kind(agent(), "DaemonSet"))


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("agent.enabled=true", "sidecarDigests"),
        ("agent.sidecarDigests={latest}", "sidecarDigests"),
        ("agent.provider=Auto", "provider"),
        ("operator.replica=3", "replica"),
        ("operator.replicas=0", "replicas"),
        ("operator.image.tag=latest", "tag"),
        ("benchmarks.image.tag=latest", "tag"),
        ("sidecar.dataPort=80", "dataPort"),
        ("sidecar.requiredCpuLimit=half", "requiredCpuLimit"),
        ("sidecar.resources.limits.memory=1GiB", "memory"),
        ("monitoring.serviceMonitor.interval=often", "interval"),
    ],
)
def test_a_typo_is_refused_by_name(setting: str, told: str) -> None:
    done = helm("template", "sealane", str(CHART), "--set", setting)
    assert done.returncode != 0 and told in done.stderr, done.stderr


@pytest.mark.parametrize(
    "absent", ["tracing", "collateral", "monitoring.prometheusRule", "monitoring.dashboard", "agent", "benchmarks"]
)
def test_values_of_an_older_release_are_enough(default: list[dict[str, Any]], absent: str) -> None:
    """`helm upgrade --reuse-values` brings the values of the release before, which lack what is new."""
    assert render(f"{absent}=null") == default

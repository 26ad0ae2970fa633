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
    # By libyaml: in Python alone it takes seconds.
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def named(documents: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [document for document in of_kind(documents, kind) if document["metadata"]["name"] == name]
    return found


def pods_of(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every pod that the release makes, as metadata and spec."""
    made = [document["spec"]["template"] for kind in ("Deployment", "DaemonSet") for document in of_kind(documents, kind)]
    return made + of_kind(documents, "Pod")


def environment(documents: list[dict[str, Any]], deployment: str) -> dict[str, str]:
    (container,) = named(documents, "Deployment", deployment)["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container["env"]}


@pytest.fixture(scope="module")
def default() -> list[dict[str, Any]]:
    return render()


def test_no_pod_takes_variables_of_services(default: list[dict[str, Any]]) -> None:
    """Service `sealane-webhook` would set `SEALANE_WEBHOOK_PORT=tcp://...` in every pod of its namespace."""
    for pod in pods_of(default) + pods_of(agent()):
        assert pod["spec"]["enableServiceLinks"] is False, pod["metadata"]


def test_lint() -> None:
    done = helm("lint", str(CHART), "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


def test_custom_resources_are_the_generated_ones_and_are_kept(default: list[dict[str, Any]]) -> None:
    rendered = {crd["metadata"]["name"]: crd for crd in of_kind(default, "CustomResourceDefinition")}
    generated = {}
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        crd = yaml.load(path.read_text(), yaml.CSafeLoader)
        generated[crd["metadata"]["name"]] = crd
    assert rendered.keys() == generated.keys() and rendered
    for name, crd in rendered.items():
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert crd["spec"] == generated[name]["spec"], name


def test_pods_are_restricted_and_have_no_user_that_a_platform_would_refuse(default: list[dict[str, Any]]) -> None:
    pods = pods_of(default)
    assert len(pods) == 4, "operator, webhook and two tests"
    for pod in pods:
        # OpenShift gives each namespace users of its own, and refuses others.
        assert pod["spec"]["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
        for container in pod["spec"]["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }
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
    rules = [(role["metadata"]["name"], rule) for role in roles for rule in role["rules"]]
    bounds = [(name, rule["verbs"]) for name, rule in rules if "limitranges" in rule["resources"]]
    assert bounds == [("sealane-webhook", ["list", "watch"])]


def test_what_makes_pods_is_read_everywhere_and_never_changed(default: list[dict[str, Any]]) -> None:
    rules = [rule for role in of_kind(default, "ClusterRole") for rule in role["rules"]]
    followed = {kind: rule["verbs"] for rule in rules for kind in rule["resources"]}
    for kind in ["deployments", "replicasets", "statefulsets", "daemonsets", "jobs"]:
        assert followed[kind] == ["get", "list", "watch"], kind


def test_namespaces_are_looked_at_one_by_one_and_never_changed(default: list[dict[str, Any]]) -> None:
    roles = of_kind(default, "ClusterRole") + of_kind(default, "Role")
    rules = [rule for role in roles for rule in role["rules"] if "namespaces" in rule["resources"]]
    assert rules == [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]


def rights(documents: list[dict[str, Any]], name: str) -> set[tuple[str, str]]:
    """What the roles of this name permit, as resource and verb."""
    roles = [role for kind in ("ClusterRole", "Role") for role in of_kind(documents, kind)]
    rules = [rule for role in roles if role["metadata"]["name"] == name for rule in role["rules"]]
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def test_admission_follows_no_pod_and_neither_leads_nor_writes_status(default: list[dict[str, Any]]) -> None:
    webhook = rights(default, "sealane-webhook")
    # Nothing that is not asked for: get of what only lists are read of, and watches of what has no cache.
    assert webhook == {
        *((kind, verb) for kind in ("peers", "trustpolicies") for verb in ("get", "list", "watch")),
        *((kind, verb) for kind in ("limitranges", "resourcequotas") for verb in ("list", "watch")),
        ("transfersessions", "list"), ("pods", "list"), ("namespaces", "get"), ("services", "get"),
        *((f"{kind}webhookconfigurations", verb) for kind in ("mutating", "validating") for verb in ("get", "patch")),
        *(("secrets", verb) for verb in ("create", "get", "update")),
    }
    for resource in ("leases", "tokenreviews", "nodes", "jobs", "events", "peers/status"):
        assert not [right for right in webhook if right[0] == resource], resource
    told = environment(default, "sealane-webhook")
    assert told["SEALANE_ROLE"] == "Webhook" and "SEALANE_BENCH_IMAGE" not in told
    assert environment(default, "sealane-operator")["SEALANE_ROLE"] == "Operator"
    service = named(default, "Service", "sealane-webhook")["spec"]
    pods = named(default, "Deployment", "sealane-webhook")["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= pods.items()
    control = named(default, "Service", "sealane-control")["spec"]["selector"]
    assert control["app.kubernetes.io/component"] == "operator"
    account = named(default, "Deployment", "sealane-webhook")["spec"]["template"]["spec"]["serviceAccountName"]
    assert account == "sealane-webhook" == named(default, "ServiceAccount", "sealane-webhook")["metadata"]["name"]


def test_editors_of_a_namespace_do_not_replace_the_owners(default: list[dict[str, Any]]) -> None:
    writing = {"create", "update", "patch", "delete"}
    edit = {verb for resource, verb in rights(default, "sealane-edit") if resource == "trustpolicies"}
    assert edit == {"get", "list", "watch"}
    policy = {verb for resource, verb in rights(default, "sealane-policy-edit") if resource == "trustpolicies"}
    assert writing <= policy
    for role in of_kind(default, "ClusterRole"):
        aggregated = [label for label in role["metadata"]["labels"] if "aggregate-to" in label]
        writes = [rule for rule in role["rules"] if "trustpolicies" in rule["resources"] and writing & set(rule["verbs"])]
        assert not (aggregated and writes), role["metadata"]["name"]


def test_the_operator_changes_only_what_it_made_for_benchmarks(default: list[dict[str, Any]]) -> None:
    policy = named(default, "ValidatingAdmissionPolicy", "sealane-benchmarks")["spec"]
    assert policy["failurePolicy"] == "Fail"
    covered = {
        (resource, operation)
        for rule in policy["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }
    verbs = {"create": "CREATE", "delete": "DELETE", "patch": "UPDATE", "update": "UPDATE"}
    role = rights(default, "sealane-benchmarks")
    granted = {(resource, verbs[verb]) for resource, verb in role if verb in verbs and "/" not in resource}
    assert granted <= covered, "what RBAC grants without a name, the policy bounds"
    (by, _) = policy["matchConditions"]
    assert "system:serviceaccount:sealane-system:sealane-operator" in by["expression"]
    binding = named(default, "ValidatingAdmissionPolicyBinding", "sealane-benchmarks")["spec"]
    assert binding == {"policyName": "sealane-benchmarks", "validationActions": ["Deny"]}
    renamed = render("operator.serviceAccount.name=other")
    (by, _) = named(renamed, "ValidatingAdmissionPolicy", "sealane-benchmarks")["spec"]["matchConditions"]
    assert "system:serviceaccount:sealane-system:other'" in by["expression"]
    off = render("benchmarks.enabled=false")
    assert [policy["metadata"]["name"] for policy in of_kind(off, "ValidatingAdmissionPolicy")] == ["sealane-require-sidecar"]


def test_no_class_of_kubernetes_own_is_used_outside_of_kube_system() -> None:
    everything = agent()
    classes = {pod["spec"].get("priorityClassName") for pod in pods_of(everything) if "template" not in pod}
    assert classes == {"sealane-critical", None}, "tests of the release need none"
    (made,) = of_kind(everything, "PriorityClass")
    assert (made["metadata"]["name"], made["value"]) == ("sealane-critical", 1_000_000_000)
    none = render(
        "priorityClass.create=false", "operator.priorityClassName=", "webhook.priorityClassName=",
    )
    assert not of_kind(none, "PriorityClass")
    assert not [pod for pod in pods_of(none) if "priorityClassName" in pod["spec"]]


def test_private_control_planes_reach_the_webhook() -> None:
    moved = render("webhook.port=10250", "webhook.adminPort=10256", "webhook.hostNetwork=true")
    pod = named(moved, "Deployment", "sealane-webhook")["spec"]["template"]["spec"]
    assert pod["hostNetwork"] is True and pod["dnsPolicy"] == "ClusterFirstWithHostNet"
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert ports == {"webhook": 10250, "metrics": 10256}
    told = environment(moved, "sealane-webhook")
    assert (told["SEALANE_WEBHOOK_PORT"], told["SEALANE_OPERATOR_ADMIN_PORT"]) == ("10250", "10256")
    assert "hostNetwork" not in named(moved, "Deployment", "sealane-operator")["spec"]["template"]["spec"]

    def configs(*settings: str) -> list[dict[str, Any]]:
        documents = render(*settings)
        kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        return [hook["clientConfig"] for kind in kinds for one in of_kind(documents, kind) for hook in one["webhooks"]]

    assert all(config["service"]["name"] == "sealane-webhook" for config in configs())
    assert configs("webhook.url.host=hooks.example:8443") == [
        {"url": "https://hooks.example:8443/mutate-pod"}, {"url": "https://hooks.example:8443/validate"},
    ]
    # Both processes make the certificate, so both know the name.
    reached = render("webhook.url.host=hooks.example:8443")
    for deployment in ("sealane-operator", "sealane-webhook"):
        assert environment(reached, deployment)["SEALANE_WEBHOOK_NAMES"] == "hooks.example"
    assert environment(render("webhook.url.host=[fd00::7]:443"), "sealane-webhook")["SEALANE_WEBHOOK_NAMES"] == "fd00::7"


def test_the_webhook_is_told_who_its_api_servers_are() -> None:
    told = environment(render(), "sealane-webhook")
    assert "SEALANE_WEBHOOK_SOURCES" not in told and "SEALANE_WEBHOOK_CLIENT_CA" not in told
    pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    told = environment(
        render("webhook.apiServers.sources={10.0.0.1,fd00::/64}", f"webhook.apiServers.clientCA={pem}"), "sealane-webhook",
    )
    assert told["SEALANE_WEBHOOK_SOURCES"] == "10.0.0.1,fd00::/64"
    assert told["SEALANE_WEBHOOK_CLIENT_CA"] == pem


def images(documents: list[dict[str, Any]]) -> list[str]:
    run = [container["image"] for pod in pods_of(documents) for container in pod["spec"]["containers"]]
    told = [environment(documents, "sealane-webhook")["SEALANE_SIDECAR_IMAGE"]]
    return run + told + [environment(documents, "sealane-operator")["SEALANE_BENCH_IMAGE"]]


def test_images_come_by_digest_and_from_the_registry_of_an_umbrella() -> None:
    digest = "sha256:" + "0a" * 32
    elsewhere = render("global.imageRegistry=mirror.example/team")
    assert all(image.startswith("mirror.example/team/sealane-") for image in images(elsewhere)), images(elsewhere)
    parts = ("operator", "sidecar", "benchmarks")
    pinned = images(render(*[f"{part}.image.digest={digest}" for part in parts]))
    assert all(image.endswith(f"@{digest}") for image in pinned), pinned
    alone = images(render(*[f"{part}.image.{what}" for part in parts for what in (f"digest={digest}", "tag=null")]))
    assert alone == pinned
    done = helm("template", "sealane", str(CHART), "--set", "operator.image.tag=null")
    assert done.returncode != 0 and "operator" in done.stderr


def test_pull_secrets_are_in_every_pod_and_told_to_whoever_makes_pods() -> None:
    settings = ("image.pullSecrets={own}", "global.imagePullSecrets[0].name=shared", "global.imagePullSecrets[1]=own")
    documents = agent(*settings)
    for pod in pods_of(documents):
        assert pod["spec"]["imagePullSecrets"] == [{"name": "own"}, {"name": "shared"}], pod
    for deployment in ("sealane-operator", "sealane-webhook"):
        assert environment(documents, deployment)["SEALANE_SIDECAR_PULL_SECRETS"] == "own,shared"
    assert not [pod for pod in pods_of(agent()) if "imagePullSecrets" in pod["spec"]]


def test_labels_and_annotations_of_an_installation_are_everywhere() -> None:
    documents = agent(
        "commonLabels.team=ml", "commonAnnotations.owner=ada", "monitoring.serviceMonitor.enabled=true",
        "monitoring.podMonitor.enabled=true", "monitoring.prometheusRule.enabled=true", "monitoring.dashboard.enabled=true",
    )
    for document in documents + pods_of(documents):
        metadata = document["metadata"]
        where = document.get("kind"), metadata.get("name")
        assert metadata["labels"]["team"] == "ml", where
        assert metadata["annotations"]["owner"] == "ada", where
    for kind in ("Deployment", "DaemonSet"):
        for document in of_kind(documents, kind):
            assert "team" not in document["spec"]["selector"]["matchLabels"], "a selector never changes"


@pytest.mark.parametrize(("part", "name"), [("operator", "sealane-operator"), ("webhook", "sealane-webhook"), ("agent", "sealane-agent")])
def test_pods_and_accounts_are_an_installations_own(part: str, name: str) -> None:
    documents = agent(
        f"{part}.podLabels.a=b", f"{part}.podAnnotations.c=d", f"{part}.extraEnv[0].name=TZ", f"{part}.extraEnv[0].value=UTC",
        f"{part}.serviceAccount.name=mine", f"{part}.serviceAccount.annotations.e=f", f"{part}.nodeSelector.pool=system",
    )
    (pod,) = [pod for pod in pods_of(documents) if pod["spec"].get("serviceAccountName") == "mine"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == name.removeprefix("sealane-")
    assert pod["metadata"]["labels"]["a"] == "b" and pod["metadata"]["annotations"]["c"] == "d"
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
    (container,) = pod["spec"]["containers"]
    assert {"name": "TZ", "value": "UTC"} in container["env"]
    assert named(documents, "ServiceAccount", "mine")["metadata"]["annotations"] == {"e": "f"}
    bindings = [*of_kind(documents, "ClusterRoleBinding"), *of_kind(documents, "RoleBinding")]
    bound = {binding["roleRef"]["name"]: binding["subjects"][0]["name"] for binding in bindings}
    assert bound[name] == "mine"
    made = {account["metadata"]["name"] for account in of_kind(agent(f"{part}.serviceAccount.create=false"), "ServiceAccount")}
    assert name not in made and len(made) == 2


def test_injected_sidecars_get_what_the_chart_adds_to_their_environment() -> None:
    told = environment(render("sidecar.extraEnv[0].name=TZ", "sidecar.extraEnv[0].value=UTC"), "sealane-webhook")
    assert json.loads(told["SEALANE_SIDECAR_ENVIRONMENT"]) == [{"name": "TZ", "value": "UTC"}]
    assert "SEALANE_SIDECAR_ENVIRONMENT" not in environment(render(), "sealane-webhook")


def test_nodes_of_several_platforms_have_an_agent_each() -> None:
    groups = [
        "agent.groups[0].name=snp", "agent.groups[0].provider=SevGuest", "agent.groups[0].nodeSelector.tee=snp",
        "agent.groups[0].runtimeSocket=/run/crio/crio.sock",
        "agent.groups[1].name=tdx", "agent.groups[1].provider=ConfigfsTsm", "agent.groups[1].nodeSelector.tee=tdx",
    ]
    documents = agent(*groups)
    agents = {one["metadata"]["name"]: one["spec"] for one in of_kind(documents, "DaemonSet")}
    assert set(agents) == {"sealane-agent-snp", "sealane-agent-tdx"}
    for group, provider in (("snp", "SevGuest"), ("tdx", "ConfigfsTsm")):
        spec = agents[f"sealane-agent-{group}"]
        runtime = {"snp": "/run/crio/crio.sock", "tdx": "/run/containerd/containerd.sock"}[group]
        assert runtime in json.dumps(spec["template"]["spec"]["containers"][0]["env"])
        pod = spec["template"]["spec"]
        assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "tee": group}
        told = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
        assert told["SEALANE_AGENT_PROVIDER"] == provider
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        assert spec["selector"]["matchLabels"]["sealane.dev/agent-group"] == group
        assert bool(pod["containers"][0]["securityContext"].get("privileged")) is (provider == "SevGuest")
    assert len(of_kind(documents, "CSIDriver")) == 1
    nowhere = [setting for setting in groups if "nodeSelector" not in setting]
    done = helm("template", "s", str(CHART), "--set", ",".join(["agent.enabled=true", f"sidecar.image.digest=sha256:{DIGEST}", *nowhere]))
    assert done.returncode != 0 and "nodeSelector" in done.stderr, "two agents on one node would take turns"


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


@pytest.mark.parametrize(("name", "expected"), [
    ("sealane-operator", ["control", "metrics"]), ("sealane-webhook", ["webhook", "metrics"]),
])
def test_network_policies_open_only_what_is_served(
    default: list[dict[str, Any]], name: str, expected: list[str]
) -> None:
    policy = named(default, "NetworkPolicy", name)["spec"]
    ports = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    pod = named(default, "Deployment", name)["spec"]["template"]
    served = [port["name"] for port in pod["spec"]["containers"][0]["ports"]]
    assert ports == expected == served
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_pods_on_the_hosts_network_reach_the_operator() -> None:
    def sources(*settings: str) -> list[str]:
        policy = named(render(*settings), "NetworkPolicy", "sealane-operator")
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


def test_sidecars_get_a_cpu_limit_where_there_has_to_be_one() -> None:
    def limit(*settings: str) -> str:
        return environment(render(*settings), "sealane-webhook")["SEALANE_SIDECAR_REQUIRED_CPU_LIMIT"]

    assert limit() == "500m" == limit("sidecar.requiredCpuLimit=null")
    assert limit("sidecar.requiredCpuLimit=2") == "2"


def test_toggles() -> None:
    quiet = render("networkPolicy.enabled=false", "podDisruptionBudget.enabled=false")
    assert not of_kind(quiet, "NetworkPolicy") and not of_kind(quiet, "PodDisruptionBudget")
    alone = render("operator.replicas=1")
    (budget,) = of_kind(alone, "PodDisruptionBudget")
    assert budget["metadata"]["name"] == "sealane-webhook", "a budget for one replica would block every drain"
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
        known = environment(documents, "sealane-operator")
        told = {name: value for name, value in known.items() if name.startswith("SEALANE_BENCH")}
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
    return render("agent.enabled=true", f"sidecar.image.digest=sha256:{DIGEST}", *settings)


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


def test_the_node_agent_answers_the_injected_sidecar_and_those_that_are_listed() -> None:
    older = "0b" * 32
    for listed, told in [("", DIGEST), (older, f"{DIGEST},{older}"), (DIGEST, DIGEST)]:
        (daemons,) = of_kind(agent(f"agent.sidecarDigests={{{listed}}}") if listed else agent(), "DaemonSet")
        (container,) = daemons["spec"]["template"]["spec"]["containers"]
        environment = {one["name"]: one.get("value") for one in container["env"]}
        assert environment["SEALANE_AGENT_SIDECAR_DIGESTS"] == told
    (daemons,) = of_kind(agent("agent.runtimeSocket=/run/crio/crio.sock"), "DaemonSet")
    pod = daemons["spec"]["template"]["spec"]
    assert "/run/crio/crio.sock" in json.dumps(pod["containers"][0]["env"])
    (socket,) = [volume["hostPath"] for volume in pod["volumes"] if volume["name"] == "runtime"]
    assert socket == {"path": "/run/crio/crio.sock", "type": "Socket"}
    assert agent("agent.runtimeSocket=null") == agent(), "values of an older release lack it"


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
        "/run/containerd/containerd.sock", "/sys/kernel/config",
    }
    (runtime,) = [mount for mount in container["volumeMounts"] if mount["name"] == "runtime"]
    assert runtime == {"name": "runtime", "mountPath": "/run/containerd/containerd.sock", "readOnly": True}
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
                "--set", f"sidecar.image.digest=sha256:{DIGEST}")
    assert done.returncode != 0 and "simulation.enabled" in done.stderr
    simulated = agent("agent.provider=Simulated", "simulation.enabled=true", f"simulation.image.digest=sha256:{DIGEST}")
    text = json.dumps(of_kind(simulated, "DaemonSet"))
    assert "sealane-sidecar-sim@" in text and "SEALANE_SIMULATED_PLATFORM" in text
    assert "SEALANE_SIMULATED_PLATFORM" not in json.dumps(of_kind(agent(), "DaemonSet"))


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("agent.enabled=true", "sidecar.image.digest"),
        ("agent.runtimeSocket=unix:///run/containerd/containerd.sock", "runtimeSocket"),
        ("agent.sidecarDigests={latest}", "sidecarDigests"),
        ("agent.provider=Auto", "provider"),
        ("operator.replica=3", "replica"),
        ("operator.replicas=0", "replicas"),
        ("operator.image.tag=latest", "tag"),
        ("benchmarks.image.tag=latest", "tag"),
        ("sidecar.dataPort=80", "dataPort"),
        ("sidecar.requiredCpuLimit=half", "requiredCpuLimit"),
        ("sidecar.extraEnv[0].name=SEALANE_ROOTS", "extraEnv"),
        ("operator.image.digest=0a0b", "digest"),
        ("webhook.url.host=https://hooks.example", "host"),
        ("webhook.url.host=localhost:8443", "host"),
        ("webhook.apiServers.sources={api.example}", "sources"),
        ("webhook.apiServers.clientCA=/etc/ca.pem", "clientCA"),
        ("priorityClass.name=system-cluster-critical", "priorityClass"),
        ("networkPolicy.nodes={10.0.0.1}", "nodes"),
        ("sidecar.resources.limits.memory=1GiB", "memory"),
        ("monitoring.serviceMonitor.interval=often", "interval"),
    ],
)
def test_a_typo_is_refused_by_name(setting: str, told: str) -> None:
    done = helm("template", "sealane", str(CHART), "--set", setting)
    assert done.returncode != 0 and told in done.stderr, done.stderr


@pytest.mark.parametrize(
    "absent",
    [
        "tracing", "collateral", "monitoring.prometheusRule", "monitoring.dashboard", "agent", "benchmarks", "webhook",
        "priorityClass", "global", "commonLabels", "commonAnnotations", "operator.podLabels", "operator.podAnnotations",
        "operator.extraEnv", "operator.serviceAccount", "sidecar.extraEnv", "sidecar.requiredCpuLimit", "networkPolicy.nodes",
        "webhook.url", "webhook.port", "webhook.serviceAccount", "webhook.apiServers",
    ],
)
def test_values_of_an_older_release_are_enough(default: list[dict[str, Any]], absent: str) -> None:
    """`helm upgrade --reuse-values` brings the values of the release before, which lack what is new."""
    assert render(f"{absent}=null") == default


def sources(*patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def test_values_that_people_are_pointed_to_are_there() -> None:
    """Remedies, pages and notes name values of the chart: a name that helm does not know mends nothing."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    top = "|".join(values)
    backticked = re.compile(rf"`((?:{top})\.[A-Za-z.]+)(?:[=:][^`]*)?`")
    spoken = re.compile(rf"chart(?:'s| values?)? ((?:{top})\.[A-Za-z.]+)")
    set_by = re.compile(rf"--set(?:-string)? \"?((?:{top})\.[A-Za-z.]+)=")
    named: dict[str, str] = {}
    for path in sources("docs/*.md", "README.md", "charts/sealane/files/*.yaml", "charts/sealane/templates/NOTES.txt"):
        text = path.read_text()
        named |= {name: str(path) for pattern in (backticked, spoken, set_by) for name in pattern.findall(text)}
    for path in sources("cli/src/**/*.rs", "operator/src/**/*.rs", "sidecar/src/**/*.rs"):
        named |= {name: str(path) for name in spoken.findall(path.read_text())}
    assert len(named) > 20, named

    def known(name: str) -> bool:
        at: Any = values
        for part in name.rstrip(".").split("."):
            if part == "resources" or (part == "digest" and "tag" in at):
                # What may be set and is not.
                return True
            if not isinstance(at, dict) or part not in at:
                return False
            at = at[part]
        return True

    of_policies = {f"collateral.{name}" for name in ("graceSeconds", "maxAgeSeconds", "minCrlNumber", "minCrlIssued", "minTcbEvaluation")}
    wrong = {name: where for name, where in named.items() if name not in of_policies and not known(name)}
    assert not wrong

"""Alerts and dashboard: every expression is about metrics that docs/metrics.md lists, with labels that they have.

With FULL=1, promtool checks the alerts and fires each of them (the first time it is built, which takes minutes).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_render import CHART, ROOT, environment, of_kind, render

ALERTS = CHART / "files" / "alerts.yaml"
DASHBOARD = CHART / "files" / "dashboard.json"
CASES = Path(__file__).parent / "alerts_test.yaml"
PROMTOOL = "github.com/prometheus/prometheus/cmd/promtool"
FULL = os.environ.get("FULL") == "1"

# What Prometheus adds when it scrapes through the chart's monitors.
TARGET_LABELS = {"namespace", "pod"}


def documented() -> dict[str, set[str]]:
    """Names of samples, and their labels."""
    metrics: dict[str, set[str]] = {}
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        row = re.fullmatch(r"\| `(sealane_\w+)` \| (\w+) \| (.*?) ?\| .* \|", line)
        if not row:
            continue
        name, kind, labels = row.groups()
        known = set(re.findall(r"`(\w+)`", labels)) | TARGET_LABELS
        if kind == "histogram":
            metrics[f"{name}_bucket"] = known | {"le"}
            metrics[f"{name}_sum"] = metrics[f"{name}_count"] = known
        else:
            metrics[name] = known
    assert len(metrics) > 60
    return metrics


METRICS = documented()


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads(DASHBOARD.read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions() -> list[tuple[str, str]]:
    alerts = [(rule["alert"], rule["expr"]) for rule in rules()]
    shown = [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    asked = [(variable["name"], variable["definition"]) for variable in variables if "definition" in variable]
    return alerts + shown + asked


def unknown(expression: str) -> list[str]:
    """What an expression names and no metric has."""
    found = []
    used: set[str] = set()
    for name, matchers in re.findall(r"\b(sealane_\w+)\b(?:\{([^}]*)\})?", expression):
        if name not in METRICS:
            found.append(name)
            continue
        used |= METRICS[name]
        labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)
        found += [f"{name}{{{label}}}" for label in labels if label not in METRICS[name]]
    grouped = re.findall(r"\b(?:by|on|group_left|ignoring|without) \(([^)]*)\)", expression)
    labels = {label.strip() for group in grouped for label in group.split(",")} - {""}
    made = set(re.findall(r'count_values by \([^)]*\) \("(\w+)"', expression))
    return found + sorted(labels - used - made)


@pytest.mark.parametrize(("where", "expression"), expressions())
def test_expressions_name_what_is_documented(where: str, expression: str) -> None:
    assert "sealane_" in expression, where
    assert not unknown(expression), f"{where}: {expression}"


def test_a_misspelt_metric_or_label_is_found() -> None:
    assert unknown("rate(sealane_tensor_total[5m])") == ["sealane_tensor_total"]
    assert unknown('sealane_degraded{cause="x"}') == ["sealane_degraded{cause}"]
    assert unknown("sum by (session) (sealane_policy_epoch)") == ["session"]


def test_alerts_say_what_is_wrong_and_what_to_do() -> None:
    reasons = set(re.findall(r"^### (\w+)$", (ROOT / "docs" / "reasons.md").read_text(), re.M))
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, rule["alert"]
        for part in ("summary", "description", "remedy"):
            assert rule["annotations"][part].strip(), f"{rule['alert']}: {part}"
        words = " ".join(rule["annotations"].values()) + rule["expr"]
        shown = set(re.findall(r"\$labels\.(\w+)", words))
        assert not shown - set().union(*METRICS.values()), rule["alert"]
        named = set(re.findall(r"\b([A-Z][a-z]+(?:[A-Z]\w+)+) (?:in|and \w+ in) docs/reasons\.md", words))
        assert not named - reasons, f"{rule['alert']} names {named - reasons}"


def test_panels_are_legible() -> None:
    titles: dict[str, list[str]] = {}
    row = ""
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        if panel["type"] == "row":
            row = panel["title"]
            continue
        titles.setdefault(row, []).append(panel["title"])
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "timeseries":
            assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]
    assert list(titles) == [
        "Overview",
        "Sessions",
        "Handshakes and evidence",
        "Door",
        "Forwards",
        "Operator",
        "Benchmarks",
        "Processes",
    ]
    for row, shown in titles.items():
        assert len(shown) == len(set(shown)), row


def test_toggles() -> None:
    plain = render()
    assert not of_kind(plain, "PrometheusRule")
    assert not [one for one in of_kind(plain, "ConfigMap") if one["metadata"]["name"] == "sealane-dashboard"]
    watched = render(
        "monitoring.prometheusRule.enabled=true",
        "monitoring.prometheusRule.labels.release=prometheus",
        "monitoring.dashboard.enabled=true",
    )
    (rule,) = of_kind(watched, "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"]["groups"] == yaml.safe_load(ALERTS.read_text())["groups"]
    (board,) = [one for one in of_kind(watched, "ConfigMap") if one["metadata"]["name"] == "sealane-dashboard"]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(board["data"]["sealane.json"]) == json.loads(DASHBOARD.read_text())


def sidecars(*settings: str) -> dict[str, str]:
    """What decides about the environment of injected sidecars."""
    return environment(render(*settings), "sealane-webhook")


def test_operator_and_webhook_are_scraped() -> None:
    documents = render("monitoring.serviceMonitor.enabled=true")
    (monitor,) = of_kind(documents, "ServiceMonitor")
    labels, (expression,) = monitor["spec"]["selector"]["matchLabels"], monitor["spec"]["selector"]["matchExpressions"]
    scraped = [
        service["metadata"]["name"] for service in of_kind(documents, "Service")
        if labels.items() <= service["metadata"]["labels"].items()
        and service["metadata"]["labels"].get(expression["key"]) in expression["values"]
    ]
    assert sorted(scraped) == ["sealane-metrics", "sealane-webhook-metrics"]


def test_traces_are_off_unless_asked_for() -> None:
    assert not [name for name in sidecars() if "OTLP" in name]
    plain = sidecars("tracing.endpoint=http://collector.monitoring.svc:4317")
    assert plain["SEALANE_SIDECAR_OTLP_ENDPOINT"] == "http://collector.monitoring.svc:4317"
    secured = sidecars("tracing.endpoint=https://collector:4317", "tracing.ca=PEM")
    assert secured["SEALANE_SIDECAR_OTLP_CA"] == "PEM"


def test_services_of_collateral_are_asked_only_where_that_is_said() -> None:
    assert not [name for name in sidecars("collateral.pcs=https://pccs") if "COLLATERAL" in name]
    asked = sidecars("collateral.fetch=Vendor", "collateral.pcs=https://pccs.demo.svc:8081")
    assert asked["SEALANE_SIDECAR_COLLATERAL_FETCH"] == "Vendor"
    assert asked["SEALANE_SIDECAR_COLLATERAL_PCS"] == "https://pccs.demo.svc:8081"
    assert "SEALANE_SIDECAR_COLLATERAL_KDS" not in asked


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Go keeps what it built; the first time takes minutes.
    command = ["go", "run", "-trimpath", "-ldflags", "-s -w", PROMTOOL, *arguments]
    folder = Path(__file__).parent / "promtool"
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "GOWORK": "off"}, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not FULL, reason="builds promtool the first time, which takes minutes: FULL=1")
def test_promtool_fires_each_alert() -> None:
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", str(ALERTS))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", str(CASES))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_has_a_case_and_is_silent_for_a_reason() -> None:
    tests = yaml.safe_load(CASES.read_text())["tests"]
    well, *cases = tests
    assert [case["name"] for case in cases] == [rule["alert"] for rule in rules()]
    fed = {re.match(r"\w+", one["series"]).group() for one in well["input_series"]}  # type: ignore[union-attr]
    named = {name for rule in rules() for name in re.findall(r"\bsealane_\w+", rule["expr"])}
    assert fed == named, "an alert that is silent because nothing is there says nothing"

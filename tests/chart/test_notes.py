"""What helm prints after an installation: every command works as it is printed, wherever the release is."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess

import pytest
import yaml
from test_render import CHART, HELM, ROOT, of_kind, render, rights


def notes(namespace: str, *settings: str) -> str:
    words = ["install", "mine", str(CHART), "--namespace", namespace, "--dry-run=client"]
    for setting in settings:
        words += ["--set", setting]
    done = subprocess.run(
        [str(HELM), *words], capture_output=True, text=True, check=False, env={**os.environ, "KUBECONFIG": "/dev/null"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\nNOTES:\n")[1]


@pytest.mark.parametrize("namespace", ["sealane-system", "elsewhere"])
@pytest.mark.parametrize("setting", ["simulation.enabled=false", "simulation.enabled=true", "webhook.url.host=hooks.example:8443"])
def test_notes_work_as_they_are_printed(namespace: str, setting: str) -> None:
    text = notes(namespace, setting)
    lines = [line.strip().split("  #")[0] for line in text.splitlines() if line.startswith("  ")]
    commands = [shlex.split(line) for line in lines if re.match(r"(kubectl|helm|sed) ", line)]
    assert len(commands) >= 9, text
    documents = render(setting)
    made = {f"{document['kind'].lower()}/{document['metadata']['name']}" for document in documents}
    roles = {role["metadata"]["name"] for role in of_kind(documents, "ClusterRole")}
    awaited = set()
    for words in commands:
        assert "NAMESPACE" not in words, "a name that nobody has fails as it is printed"
        if "rollout" in words:
            assert words[words.index("-n") + 1] == namespace
            assert words[-1] in made
            awaited.add(words[-1])
        for word in words:
            if word.startswith("--clusterrole="):
                assert word.removeprefix("--clusterrole=") in roles
            if word.startswith("examples/"):
                for document in yaml.load_all((ROOT / word).read_text(), yaml.CSafeLoader):
                    # An object of another namespace than the one that -n names is refused.
                    assert "-n" not in words
                    assert document["metadata"].get("namespace", document["metadata"]["name"]) == "demo", word
    assert awaited == {f"deployment/{one['metadata']['name']}" for one in of_kind(documents, "Deployment")}
    assert ["helm", "test", "mine", "-n", namespace] in commands
    elsewhere = [] if namespace == "sealane-system" else ["--release-namespace", namespace]
    assert ["kubectl", "sealane", "check", *elsewhere] in commands
    assert ("https://hooks.example:8443" in text) is ("url" in setting)
    assert ("provider: Auto" in text) is ("=true" not in setting), "without simulation nobody makes simulated evidence"


def test_no_authority_of_others_is_needed() -> None:
    """The operator makes its certificates itself, wherever the webhook is reached."""
    for documents in (render(), render("webhook.url.host=hooks.example"), render("webhook.hostNetwork=true")):
        assert not [one for one in documents if "cert-manager" in json.dumps(one)]
        assert rights(documents, "sealane-webhook") >= {("secrets", "create"), ("secrets", "get"), ("secrets", "update")}

"""A pytest plugin that writes how tests ended in the JSON format of Rust's libtest, for `cargo xtask test`.

Each test is a line of the file that SEALANE_EVENTS names; skipped tests also note their reasons, see tests/skips.txt.
SEALANE_REPEATS says how often each test runs: `make gate` repeats what a change touched.
"""

import json
import os

_EVENTS = os.environ.get("SEALANE_EVENTS")
_OUTCOMES = {"passed": "ok", "failed": "failed", "skipped": "ignored"}
_REPEATS = int(os.environ.get("SEALANE_REPEATS", "1"))
_seconds = {}


def pytest_configure(config):
    if _EVENTS and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Events(), "sealane-events")
        open(_EVENTS, "w").close()


def pytest_generate_tests(metafunc):
    """Each repeat is a test of its own. One that stood in the list twice would not be set up anew."""
    if _REPEATS > 1:
        metafunc.fixturenames.append("_round")
        metafunc.parametrize("_round", range(_REPEATS))


class _Events:
    """Of the process that reports: with pytest-xdist the workers report to it."""

    def pytest_runtest_logreport(self, report):
        _seconds[report.nodeid] = _seconds.get(report.nodeid, 0) + report.duration
        # A test that passed its call fails by its teardown; one that was skipped never gets to its call.
        if report.when == "call" or report.outcome != "passed":
            self._write(report)

    def _write(self, report):
        event = {
            "type": "test",
            "event": _OUTCOMES[report.outcome],
            "name": f"pytest${report.nodeid}",
            "exec_time": _seconds[report.nodeid],
        }
        if report.outcome == "failed":
            event["stdout"] = report.longreprtext + report.capstdout + report.capstderr
        with open(_EVENTS, "a") as events:
            events.write(json.dumps(event) + "\n")

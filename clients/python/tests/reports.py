"""Reports of the tests for whoever runs them: which were skipped and why, and the seed of those that failed.

`conftest.py` of each folder of tests takes `pytest_runtest_makereport` and `pytest_make_collect_report` from here.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

SEED = os.environ.get("SEALANE_SEED", "1")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        record_skip(item.nodeid, report.longrepr)
    if report.failed:
        report.sections.append(("seed", f"SEALANE_SEED={SEED}"))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file that skips itself skips all of its tests. Each worker collects each file, so the first one reports it."""
    report = yield
    if report.skipped and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        record_skip(report.nodeid, report.longrepr)
    return report


def record_skip(nodeid: str, why: Any) -> None:
    """Appends `NAME<TAB>REASON` to the file that `SEALANE_SKIPS` names. Workers share the file, so the line is one
    write at its end."""
    path = os.environ.get("SEALANE_SKIPS")
    if not path:
        return
    file, separator, test = nodeid.partition("::")
    reason = why[2] if isinstance(why, tuple) else str(why)
    reason = " ".join(reason.removeprefix("Skipped: ").split())
    line = f"{file.rsplit('/', 1)[-1]}{separator}{test}\t{reason}\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)

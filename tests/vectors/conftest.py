"""Reports of skipped tests and of seeds, as those of the Python client make them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "clients/python/tests"))

from reports import pytest_make_collect_report, pytest_runtest_makereport  # noqa: E402, F401

"""What the demo's programs say: one JSON object per line, for people and for `make demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def sentences() -> list[str]:
    text = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line]

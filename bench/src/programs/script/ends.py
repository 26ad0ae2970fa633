"""One end of what is measured, as an application is written: `ends.py MODULE END ARGUMENT...`

A line of JSON on standard input is a task; a line on standard output says how it went. Both ends make the same
payloads, and the taking one compares: every byte if asked, else the beginning, the end and a place that moves.
"""

import importlib
import json
import sys


def main():
    module, role, *arguments = sys.argv[1:]
    end = getattr(importlib.import_module(module), role)(*arguments)
    print(next(end), flush=True)
    next(end)
    for line in sys.stdin:
        print(end.send(json.loads(line)), flush=True)


main()

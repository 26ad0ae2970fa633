"""Sends all of them, once."""

import sealane
from tensors import tensors

with sealane.connect() as door:
    lane = door.sender("lane", timeout=120)
    for name, array in tensors():
        lane.put(array, name=name)
    lane.flush(timeout=120)
    lane.close(timeout=120)
print("sent everything", flush=True)

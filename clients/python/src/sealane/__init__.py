"""Put tensors into lanes and take them from lanes, through the sidecar of this pod.

import sealane
with sealane.connect() as door:
    lane = door.sender("activations")
    ring = lane.ring((32, 384))
    for batch in batches:
        out = ring.next()
        numpy.matmul(batch, weights, out=out)
        lane.put(out)
    lane.close()
with sealane.connect() as door:
    for tensor in door.receiver("activations"):
        tensor.numpy()
"""

from .door import BufferRing, Door, Receiver, Sender, connect
from .errors import Closed, Interrupted, NotReady, Refused, SealaneError, Timeout, Uncertain
from .tensor import Tensor

__version__ = "0.1.0"

__all__ = [
    "BufferRing",
    "Closed",
    "Door",
    "Interrupted",
    "NotReady",
    "Receiver",
    "Refused",
    "SealaneError",
    "Sender",
    "Tensor",
    "Timeout",
    "Uncertain",
    "__version__",
    "connect",
]

"""Real sidecars on the loopback interface: the simulated platform, a policy that two owners sign, static peers."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from loopback import BINARIES, REPOSITORY, SECONDS

import sealane

PROGRAM = BINARIES / "sealane-sidecar-sim"
PAYLOAD_TYPE = "application/vnd.sealane.policy.v1+json"
OWNERS = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2)]
KEYS = [owner.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw) for owner in OWNERS]
PORTS = itertools.count(20_000)


def free_address() -> str:
    """An address of loopback that nobody else uses, also while a sidecar that had it is being started again.

    Of 127.0.0.0/8 each process of tests has a host of its own: a pid has 22 bits, so it is 127.64.0.0 and the pid.
    Sockets that dial are bound to 127.0.0.1, and to ports from 32768 on. So nobody takes an address between this look
    and the sidecar; what the look finds is a sidecar that tests of the same pid left behind."""
    pid = os.getpid()
    host = f"127.{64 + (pid >> 16)}.{pid >> 8 & 0xFF}.{pid & 0xFF}"
    while True:
        port = next(PORTS)
        with suppress(OSError), socket.create_server((host, port)):
            return f"{host}:{port}"


def initdata(peer: str) -> bytes:
    return f"sealane simulated initdata\nnamespace: demo\npeer: {peer}\n".encode()


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """DSSE signatures of both owners over the RFC 8785 form (all ASCII, integers only)."""
    data = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    envelope = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(data)} ".encode() + data
    signatures = [
        {"keyId": hashlib.sha256(key).hexdigest(), "signature": base64.b64encode(owner.sign(envelope)).decode()}
        for owner, key in zip(OWNERS, KEYS)
    ]
    return {"document": base64.b64encode(data).decode(), "signatures": signatures, "rotations": []}


def build() -> None:
    if not PROGRAM.exists():
        command = ["cargo", "build", "--quiet", "--package", "sealane-sidecar-sim"]
        subprocess.run(command, cwd=REPOSITORY, check=True)


@functools.cache
def platform() -> tuple[bytes, Any]:
    """A simulated platform, and what policies pin of it. To make its keys takes a second, so tests share one."""
    build()
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "platform.json"
        command = [str(PROGRAM), "root", "--out", str(path)]
        made = subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
        return path.read_bytes(), json.loads(made.stdout)


class World:
    """A directory with what every sidecar of a test shares."""

    def __init__(self, directory: pathlib.Path, sessions: list[tuple[str, str, str]]) -> None:
        self.directory = directory
        self.sessions = sessions
        keys, self.pinned = platform()
        (directory / "platform.json").write_bytes(keys)
        roots = {"namespace": "demo", "policy": "demo", "threshold": 2, "minimumEpoch": 1}
        roots["keys"] = [key.hex() for key in KEYS]
        (directory / "roots.json").write_text(json.dumps([roots]))
        (directory / "policy.json").write_text(json.dumps(signed(self.document())))

    def document(self) -> dict[str, Any]:
        peers = sorted({peer for _, sender, receiver in self.sessions for peer in (sender, receiver)})
        now = datetime.now(timezone.utc)
        stamp = "%Y-%m-%dT%H:%M:%SZ"
        return {
            "version": 1,
            "namespace": "demo",
            "name": "demo",
            "epoch": 1,
            "notBefore": (now - timedelta(days=1)).strftime(stamp),
            "expires": (now + timedelta(days=1)).strftime(stamp),
            "authorities": {"threshold": 2, "keys": sorted(key.hex() for key in KEYS)},
            "peers": {peer: {"entries": [self.entry(peer)]} for peer in peers},
            "sessions": [{"name": n, "from": s, "to": r, "stream": {}} for n, s, r in sorted(self.sessions)],
        }

    def entry(self, peer: str) -> dict[str, Any]:
        return {
            "kind": "Simulated",
            "root": self.pinned["fingerprint"],
            "measurements": [self.pinned["measurement"]],
            "hostData": [hashlib.sha256(initdata(peer)).hexdigest()],
            "minTcb": {},
            "products": ["Genoa"],
        }


class Sidecar:
    """One process: replica `pod` of `peer`."""

    def __init__(
        self,
        world: World,
        peer: str,
        pod: str,
        sessions: list[dict[str, Any]],
        arena_bytes: int = 512 << 20,
        proves: Optional[str] = None,
    ) -> None:
        self.listen = free_address()
        self.admin = free_address()
        self.name = f"{peer}/{pod}"
        self.path = str(world.directory / f"{pod}.sock")
        self.grpc = str(world.directory / f"{pod}.grpc.sock")
        self.log = world.directory / f"{pod}.log"
        (world.directory / f"{pod}.initdata").write_bytes(initdata(proves or peer))
        config = {
            "namespace": "demo",
            "pod": pod,
            "uid": pod,
            "listen": self.listen,
            "admin": self.admin,
            "door": self.path,
            "grpc": self.grpc,
            "arenaBytes": arena_bytes,
            "drainSeconds": 2,
            "peer": peer,
            "provider": "Simulated",
            "rootsFile": "roots.json",
            "policy": "demo",
            "policyFile": "policy.json",
            "simulatedPlatform": "platform.json",
            "initdata": f"{pod}.initdata",
            "sessions": sessions,
        }
        self.config = world.directory / f"{pod}.yaml"
        # JSON is YAML.
        self.config.write_text(json.dumps(config))
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([PROGRAM, "run", "--config", self.config], stdout=log, stderr=log)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://{self.admin}/startupz", timeout=1):
                    return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.02)
        self.kill()
        raise AssertionError(f"{self.name} did not start:\n{self.log.read_text()}")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def connect(self) -> sealane.Door:
        return sealane.connect(self.path, timeout=SECONDS)


def stop(*sidecars: Sidecar) -> None:
    """Ends them side by side, because each of them drains its connections."""
    for sidecar in sidecars:
        if sidecar.process.poll() is None:
            sidecar.process.terminate()
    for sidecar in sidecars:
        try:
            sidecar.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            sidecar.kill()


def sending(name: str, to: str, *addresses: str) -> dict[str, Any]:
    remote = {"peer": to, "addresses": list(addresses)}
    return {"name": name, "direction": "Sending", "delivery": "RoundRobin", "remotes": [remote]}


def receiving(name: str, sender: str) -> dict[str, Any]:
    return {"name": name, "direction": "Receiving", "delivery": "RoundRobin", "remotes": [{"peer": sender}]}


class Pair:
    """An embedder and a ranker, one replica each."""

    def __init__(self, directory: pathlib.Path) -> None:
        world = World(directory, [("activations", "embedder", "ranker")])
        self.ranker = Sidecar(world, "ranker", "ranker-0", [receiving("activations", "embedder")])
        to_ranker = sending("activations", "ranker", self.ranker.listen)
        self.embedder = Sidecar(world, "embedder", "embedder-0", [to_ranker])
        self.world = world

    def stop(self) -> None:
        stop(self.embedder, self.ranker)

"""The key schedule of ``protocol/PROTOCOL.md`` §4, from its text."""

import hashlib
import struct
from collections.abc import Iterator

import aegis
from primitives import aes_gcm_seal, chacha20_poly1305_seal, hkdf_expand, hmac_sha256

unhex = bytes.fromhex
HYBRID = 0x0100


def hybrid(suite: int) -> bool:
    return bool(suite & HYBRID)


class Schedule:
    """The secrets of one handshake."""

    def __init__(self, suite: int, split: tuple[bytes, bytes], third: bytes | None, handshake_hash: bytes):
        self.h = handshake_hash
        self.scope = b"\0" + struct.pack(">H", suite) + handshake_hash
        self.prefix = b"sealane/1 " if hybrid(suite) else b"sealane/1 classical "
        self.root = hmac_sha256(handshake_hash, split[0], split[1], third or b"")

    def expand(self, secret: bytes, label: str, context: bytes = b"", length: int = 32) -> bytes:
        return hkdf_expand(secret, self.prefix + label.encode() + self.scope + context, length)

    def binding_key(self) -> bytes:
        return self.expand(self.root, "binding")

    def ticket(self, ticket: dict) -> bytes:
        """The secret of a ticket."""
        evidence = (unhex(ticket[f"{side}Evidence"]) for side in ("initiator", "responder"))
        context = unhex(ticket["id"]) + b"".join(hashlib.sha256(message).digest() for message in evidence)
        return self.expand(self.expand(self.root, "resume"), "ticket", context)

    def phases(self, direction: str) -> Iterator[tuple[bytes, bytes]]:
        """Key and nonce mask of each phase of link 0."""
        return self.phases_of(self.expand(self.expand(self.root, direction), "link", bytes(4 + 64)))

    def joined(self, link: int, nonces: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Key and nonce mask of each phase of a further link."""
        joined = self.expand(self.expand(self.root, "initiator"), "joined")
        return self.phases_of(self.expand(joined, "link", struct.pack(">I", link) + nonces))

    def join_name(self) -> bytes:
        return self.expand(self.expand(self.root, "join"), "join name", length=16)

    def join_proof(self, side: str, link: int, nonces: bytes) -> bytes:
        return self.expand(self.expand(self.root, "join"), side, struct.pack(">I", link) + nonces)

    def phases_of(self, secret: bytes) -> Iterator[tuple[bytes, bytes]]:
        while True:
            yield self.phase(secret)
            secret = self.expand(secret, "update")

    def datagrams(self, direction: str, phase: int = 0) -> bytes:
        """The secret of a phase of a direction's datagrams."""
        secret = self.expand(self.expand(self.root, direction), "datagrams")
        for _ in range(phase):
            secret = self.expand(secret, "update")
        return secret

    def phase(self, secret: bytes) -> tuple[bytes, bytes]:
        return self.expand(secret, "key"), self.expand(secret, "nonce", length=12)


def aead(suite: int, phase: tuple[bytes, bytes], sequence: int, aad: bytes, plaintext: bytes) -> bytes:
    """Ciphertext and tag under the key and nonce mask of a phase."""
    key, mask = phase
    nonce = bytes(a ^ b for a, b in zip(mask, struct.pack(">IQ", 0, sequence)))
    match suite & 0xFF:
        case 1:
            return aes_gcm_seal(key, nonce, aad, plaintext)
        case 2:
            return chacha20_poly1305_seal(key, nonce, aad, plaintext)
        case 3:
            return aes_gcm_seal(key[:16], nonce, aad, plaintext)
        case 4:
            return aegis.seal(key, nonce + bytes(20), plaintext, aad)
    raise AssertionError(suite)


def schedule_of(case: dict) -> Schedule:
    split = unhex(case["splitInitiator"]), unhex(case["splitResponder"])
    kem = case["kemSecret"] and unhex(case["kemSecret"])
    assert hybrid(case["suite"]) == (kem is not None)
    return Schedule(case["suite"], split, kem, unhex(case["handshakeHash"]))


def check_datagrams(schedule: Schedule, way: dict) -> None:
    secret = schedule.datagrams(way["direction"])
    assert schedule.expand(secret, "header").hex() == way["headerKey"]
    for phase in way["phases"]:
        assert secret.hex() == phase["secret"]
        key, mask = schedule.phase(secret)
        assert (key.hex(), mask.hex()) == (phase["key"], phase["nonceMask"])
        secret = schedule.expand(secret, "update")

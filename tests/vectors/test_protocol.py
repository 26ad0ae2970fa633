"""Recomputes the protocol's vectors from the text of ``protocol/PROTOCOL.md``, with the standard library alone.

``keys.json``: the key schedule. ``record.json``: sealed records across key updates. ``frame.json``: every frame.
``handshake.json``: every byte of two handshakes, Noise XX included; ML-KEM-768 is the one thing taken as given.
``packets.json`` is ``test_packets.py``'s.
The unit tests of ``protocol`` compute the same files.
"""

import hashlib
import json
import struct
from pathlib import Path

import primitives
import pytest
from primitives import aes_gcm_seal, chacha20_poly1305_seal, hkdf_expand, hmac_sha256, x25519
from schedule import Schedule, aead, check_datagrams, hybrid, schedule_of

HERE = Path(__file__).parent
KEYS, RECORDS, FRAMES, HANDSHAKES = (
    json.loads((HERE / f"{name}.json").read_text()) for name in ("keys", "record", "frame", "handshake")
)

unhex = bytes.fromhex
HANDSHAKE, DATA, KEY_UPDATE, RENEWED, BULK = 1, 3, 4, 5, 6


def seal(suite: int, phase: tuple[bytes, bytes], sequence: int, kind: int, plaintext: bytes) -> bytes:
    header = bytes([kind]) + struct.pack(">I", len(plaintext) + 16)[1:]
    return header + aead(suite, phase, sequence, header, plaintext)


def test_primitives_are_those_of_their_specifications():
    # RFC 7748 section 5.2.
    scalar = unhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = unhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    assert x25519(scalar, point).hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    # FIPS 197 appendix C.3.
    aes = primitives.Aes(bytes(range(32)))
    assert aes.block(unhex("00112233445566778899aabbccddeeff")).hex() == "8ea2b7ca516745bfeafc49904b496089"
    # The GCM specification's test case 4.
    key = unhex("feffe9928665731c6d6a8f9467308308")
    nonce = unhex("cafebabefacedbaddecaf888")
    plaintext = unhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
        "b16aedf5aa0de657ba637b39"
    )
    aad = unhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    assert aes_gcm_seal(key, nonce, aad, plaintext)[-16:].hex() == "5bc94fbc3221a5db94fae95ae7121a47"
    # RFC 8439 section 2.8.2.
    sunscreen = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
        b"sunscreen would be it."
    )
    sealed = chacha20_poly1305_seal(
        bytes(range(0x80, 0xA0)), unhex("070000004041424344454647"), unhex("50515253c0c1c2c3c4c5c6c7"), sunscreen
    )
    assert sealed[-16:].hex() == "1ae10b594f09e26a7e902ecbd0600691"
    # RFC 5869 appendix A.1.
    prk = hmac_sha256(unhex("000102030405060708090a0b0c"), b"\x0b" * 22)
    assert hkdf_expand(prk, unhex("f0f1f2f3f4f5f6f7f8f9"), 42).hex().startswith("3cb25f25faacd57a90434f64d0362f2a")


@pytest.mark.parametrize("case", KEYS["cases"], ids=lambda case: f"{case['suite']:#06x}")
def test_keys(case):
    schedule = schedule_of(case)
    assert schedule.binding_key().hex() == case["bindingKey"]
    assert schedule.ticket(case["ticket"]).hex() == case["ticket"]["secret"]
    for link in case["links"]:
        check_phases(link, schedule.phases(link["direction"]))
    check_join(schedule, case["join"])
    assert [way["direction"] for way in case["datagrams"]] == ["initiator", "responder"]
    for way in case["datagrams"]:
        check_datagrams(schedule, way)


def check_phases(link, phases):
    for phase, (key, mask) in zip(link["phases"], phases):
        assert (key.hex(), mask.hex()) == (phase["key"], phase["nonceMask"])


def check_join(schedule, join):
    link, name = join["link"], schedule.join_name()
    own, theirs = unhex(join["initiatorNonce"]), unhex(join["responderNonce"])
    assert name.hex() == join["name"]
    # One version, no suites, no capabilities.
    body = bytes([2, 1, 0, 1, 0]) + bytes(4) + name + struct.pack(">I", link) + own
    body += schedule.join_proof("initiator", link, own)
    assert (b"SEALANE\0" + struct.pack(">H", len(body)) + body).hex() == join["greeting"]
    answer = theirs + schedule.join_proof("responder", link, own + theirs)
    assert (bytes([HANDSHAKE, 0, 0, len(answer)]) + answer).hex() == join["answer"]
    check_phases(join, schedule.joined(link, own + theirs))


@pytest.mark.parametrize("case", RECORDS["cases"], ids=lambda case: f"{case['suite']:#06x}")
def test_records(case):
    keys = next(keys for keys in KEYS["cases"] if keys["suite"] == case["suite"])
    phases = schedule_of(keys).phases(RECORDS["direction"])
    phase = next(phases)
    for sequence, record in enumerate(case["records"]):
        plaintext = unhex(record["plaintext"])
        kind = DATA if plaintext else KEY_UPDATE
        assert seal(case["suite"], phase, sequence, kind, plaintext).hex() == record["record"]
        if kind == KEY_UPDATE:
            phase = next(phases)
    bulk = case["bulk"]
    sequence = len(case["records"])
    assert seal(case["suite"], phase, sequence, BULK, unhex(bulk["plaintext"])).hex() == bulk["record"]


def text(value: str) -> bytes:
    return struct.pack(">H", len(value.encode())) + value.encode()


def numbers(form: str, frame: dict, *names: str) -> bytes:
    return struct.pack(">" + form, *(frame[name] for name in names))


def body(frame: dict) -> tuple[int, bytes]:
    """Type and body of a frame, from its fields."""
    match frame["type"]:
        case "confirm":
            names = b"".join(text(frame[name]) for name in ("peer", "expected", "session", "pod"))
            trust = unhex(frame["trust"])
            policy = numbers("Q", frame, "epoch") + unhex(frame["digest"])
            return 0x01, numbers("H", frame, "version") + names + policy + struct.pack(">H", len(trust)) + trust
        case "policy" | "evidence" as name:
            return {"policy": 2, "evidence": 3}[name], numbers("QII", frame, "epoch", "total", "offset") + unhex(
                frame["bytes"]
            )
        case "ready":
            return 0x04, b""
        case "ping" | "pong" as name:
            return {"ping": 5, "pong": 6}[name], numbers("Q", frame, "token")
        case "pad":
            return 0x07, bytes(frame["length"])
        case "close":
            return 0x08, numbers("H", frame, "reason")
        case "renew":
            return 0x09, numbers("B", frame, "step") + unhex(frame["message"])
        case "ticket":
            return 0x0A, unhex(frame["id"]) + numbers("I", frame, "seconds")
        case "open":
            return 0x10, numbers("I", frame, "stream") + unhex(frame["incarnation"]) + numbers("Q", frame, "base")
        case "tensor" | "run" | "striped" as name:
            shape = frame["shape"]
            return {"tensor": 0x11, "run": 0x19, "striped": 0x1B}[name], (
                numbers("IQQB", frame, "stream", "sequence", "length", "dtype")
                + struct.pack(f">B{len(shape)}Q", len(shape), *shape)
                + text(frame["name"])
            )
        case "chunk":
            return 0x12, numbers("IQQ", frame, "stream", "sequence", "offset") + unhex(frame["bytes"])
        case "bulk":
            length = struct.pack(">I", frame["length"])[1:]
            return 0x1A, numbers("IQQ", frame, "stream", "sequence", "offset") + length
        case "placed":
            return 0x1C, numbers("IQ", frame, "stream", "sequence")
        case "credit":
            return 0x13, numbers("IQQ", frame, "stream", "bytesThrough", "tensorsThrough")
        case "taken" | "lost" as name:
            sequences = frame["sequences"]
            return {"taken": 0x14, "lost": 0x18}[name], numbers("I", frame, "stream") + struct.pack(
                f">{len(sequences)}Q", *sequences
            )
        case "end":
            return 0x15, numbers("IQQ", frame, "stream", "tensors", "bytes")
        case "ended" | "abort" as name:
            return {"ended": 0x16, "abort": 0x17}[name], numbers("I", frame, "stream")
        case "pipe open":
            return 0x20, numbers("I", frame, "pipe")
        case "pipe data":
            return 0x21, numbers("I", frame, "pipe") + unhex(frame["bytes"])
        case "pipe credit":
            return 0x22, numbers("IQ", frame, "pipe", "bytesThrough")
        case "pipe end":
            return 0x23, numbers("IQ", frame, "pipe", "bytes")
        case "pipe reset":
            return 0x24, numbers("IH", frame, "pipe", "reason")
    raise AssertionError(frame)


@pytest.mark.parametrize("case", FRAMES["cases"], ids=lambda case: case["frame"]["type"])
def test_frames(case):
    kind, content = body(case["frame"])
    assert (bytes([kind]) + struct.pack(">I", len(content))[1:] + content).hex() == case["encoded"]


def test_every_type_has_a_vector():
    types = {unhex(case["encoded"])[0] for case in FRAMES["cases"]}
    assert types == {*range(0x01, 0x0B), *range(0x10, 0x1D), *range(0x20, 0x25)}
    assert FRAMES["malformed"]


class Noise:
    """Noise in revision 34, with the ephemerals given."""

    def __init__(self, prologue: bytes, name: bytes = b"Noise_XX_25519_AESGCM_SHA256"):
        self.h = self.ck = name + bytes(32 - len(name)) if len(name) <= 32 else hashlib.sha256(name).digest()
        self.key, self.counter = None, 0
        self.mix_hash(prologue)

    def mix_hash(self, data: bytes) -> None:
        self.h = hashlib.sha256(self.h + data).digest()

    def mix_key(self, shared: bytes) -> None:
        self.ck, self.key = self.two(shared)
        self.counter = 0

    def mix_key_and_hash(self, secret: bytes) -> None:
        prk = hmac_sha256(self.ck, secret)
        self.ck = hmac_sha256(prk, b"\x01")
        hashed = hmac_sha256(prk, self.ck, b"\x02")
        self.mix_hash(hashed)
        self.key, self.counter = hmac_sha256(prk, hashed, b"\x03"), 0

    def two(self, shared: bytes) -> tuple[bytes, bytes]:
        secret = hmac_sha256(self.ck, shared)
        first = hmac_sha256(secret, b"\x01")
        return first, hmac_sha256(secret, first, b"\x02")

    def encrypt(self, plaintext: bytes) -> bytes:
        if self.key is None:
            sealed = plaintext
        else:
            sealed = aes_gcm_seal(self.key, struct.pack(">IQ", 0, self.counter), self.h, plaintext)
            self.counter += 1
        self.mix_hash(sealed)
        return sealed


STATICS = unhex(HANDSHAKES["initiatorStatic"]), unhex(HANDSHAKES["responderStatic"])
KEM = {name: unhex(value) for name, value in HANDSHAKES["kem"].items()}
SCHEDULED = pytest.mark.parametrize("case", HANDSHAKES["cases"], ids=lambda case: f"{case['suite']:#06x}")


def exchange(prologue: bytes, offers_kem: bool, case: dict, expected: dict) -> Schedule:
    """Three messages as expected, and the secrets that follow from them."""
    static_i, static_r = STATICS
    suite = case["suite"]
    ephemeral_i, ephemeral_r = (unhex(HANDSHAKES[name]) for name in ("initiatorEphemeral", "responderEphemeral"))
    noise = Noise(prologue)
    # -> e, payload
    noise.mix_hash(x25519(ephemeral_i))
    payload = KEM["encapsulationKey"] if offers_kem else b""
    assert (x25519(ephemeral_i) + noise.encrypt(payload)).hex() == expected["message1"]
    # <- e, ee, s, es, payload
    noise.mix_hash(x25519(ephemeral_r))
    noise.mix_key(x25519(ephemeral_r, x25519(ephemeral_i)))
    sealed_static = noise.encrypt(x25519(static_r))
    noise.mix_key(x25519(static_r, x25519(ephemeral_i)))
    choice = struct.pack(">HHI", case["version"], suite, case["capabilities"])
    sealed = noise.encrypt(choice + (KEM["ciphertext"] if hybrid(suite) else b""))
    assert (x25519(ephemeral_r) + sealed_static + sealed).hex() == expected["message2"]
    # -> s, se, payload
    sealed_static = noise.encrypt(x25519(static_i))
    noise.mix_key(x25519(static_i, x25519(ephemeral_r)))
    assert (sealed_static + noise.encrypt(b"")).hex() == expected["message3"]
    assert noise.h.hex() == expected["handshakeHash"]
    schedule = Schedule(suite, noise.two(b""), KEM["secret"] if hybrid(suite) else None, noise.h)
    assert schedule.binding_key().hex() == expected["bindingKey"]
    return schedule


def check_leaves(schedule: Schedule, purpose: int, expected: dict) -> None:
    statics = tuple(map(x25519, STATICS))
    for role, name, own, peer in ((1, "initiatorLeaf", *statics), (2, "responderLeaf", *reversed(statics))):
        parts = (b"sealane/1 leaf", schedule.h, schedule.binding_key(), own, peer)
        label, *rest = (struct.pack(">I", len(part)) + part for part in parts)
        leaf = hashlib.sha256(b"\0" + label + bytes([purpose, role]) + b"".join(rest)).hexdigest()
        assert leaf == expected[name]


@SCHEDULED
def test_handshakes(case):
    offered, suite = case["suites"], case["suite"]
    fields = struct.pack(
        f">BB{len(case['versions'])}HB{len(offered)}HI",
        case["kind"], len(case["versions"]), *case["versions"], len(offered), *offered, case["capabilities"],
    )  # fmt: skip
    hello = b"SEALANE\0" + struct.pack(">H", len(fields)) + fields
    assert hello.hex() == case["hello"]

    schedule = exchange(hello, any(map(hybrid, offered)), case, case)
    for direction in ("initiator", "responder"):
        record = case[f"{direction}Record"]
        phase = next(schedule.phases(direction))
        assert seal(suite, phase, 0, DATA, unhex(record["confirm"])).hex() == record["record"]
    check_leaves(schedule, 1, case)


@SCHEDULED
def test_renewals(case):
    """Another handshake inside of the connection; the records go on under its keys, and their sequence with them."""
    suite, renewal = case["suite"], case["renewal"]
    before = exchange(unhex(case["hello"]), any(map(hybrid, case["suites"])), case, case)
    prologue = b"sealane/1 reattest\0" + before.h
    after = exchange(prologue, hybrid(suite), case, renewal)
    check_leaves(after, 2, renewal)
    for direction in ("initiator", "responder"):
        records = renewal[f"{direction}Records"]
        assert seal(suite, next(before.phases(direction)), 0, RENEWED, b"").hex() == records["renewed"]
        pad = bytes([0x07, 0, 0, 0])
        assert seal(suite, next(after.phases(direction)), 1, DATA, pad).hex() == records["next"]


@SCHEDULED
def test_resumptions(case):
    """Another connection by a ticket: two messages, no static keys, and keys that need the ticket's secret twice over."""
    suite, resumed = case["suite"], case["resumption"]
    before = exchange(unhex(case["hello"]), any(map(hybrid, case["suites"])), case, case)
    secret = before.ticket(resumed["ticket"])
    assert secret.hex() == resumed["ticket"]["secret"]
    fields = struct.pack(">BBHBHI", 1, 1, case["version"], 1, suite, 1) + unhex(resumed["ticket"]["id"])
    hello = b"SEALANE\0" + struct.pack(">H", len(fields)) + fields
    assert hello.hex() == resumed["hello"]
    ephemeral_i, ephemeral_r = (unhex(HANDSHAKES[name]) for name in ("initiatorEphemeral", "responderEphemeral"))
    noise = Noise(hello, b"Noise_NNpsk0_25519_AESGCM_SHA256")
    # -> psk, e
    noise.mix_key_and_hash(secret)
    noise.mix_hash(x25519(ephemeral_i))
    noise.mix_key(x25519(ephemeral_i))
    assert (x25519(ephemeral_i) + noise.encrypt(b"")).hex() == resumed["message1"]
    # <- e, ee, payload
    noise.mix_hash(x25519(ephemeral_r))
    noise.mix_key(x25519(ephemeral_r))
    noise.mix_key(x25519(ephemeral_r, x25519(ephemeral_i)))
    choice = struct.pack(">HHI", case["version"], suite, 1)
    assert (x25519(ephemeral_r) + noise.encrypt(choice)).hex() == resumed["message2"]
    assert noise.h.hex() == resumed["handshakeHash"]
    schedule = Schedule(suite, noise.two(b""), secret, noise.h)
    assert schedule.binding_key().hex() == resumed["bindingKey"]
    for direction in ("initiator", "responder"):
        record = resumed[f"{direction}Record"]
        phase = next(schedule.phases(direction))
        assert seal(suite, phase, 0, DATA, unhex(record["confirm"])).hex() == record["record"]
    assert schedule.ticket(resumed["nextTicket"]).hex() == resumed["nextTicket"]["secret"]

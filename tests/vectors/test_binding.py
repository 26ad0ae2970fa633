"""Recomputes the binding of evidence with the standard library alone, from the text of the protocol.

What is checked: every leaf, tree, path and REPORT_DATA of ``binding.json``, and in ``evidence.json`` the
encoding of evidence messages and that the report of the simulated one carries the REPORT_DATA of its
handshake. The Rust tests of ``protocol/attestation`` read the same files.
"""

import base64
import hashlib
import json
import pathlib
import struct

import pytest
from primitives import dsse, public_key, sign

HERE = pathlib.Path(__file__).parent
BINDING = json.loads((HERE / "binding.json").read_text())
EVIDENCE = json.loads((HERE / "evidence.json").read_text())

PURPOSES = {"Handshake": 1, "Reattest": 2, "Audit": 3}
ROLES = {"Initiator": 1, "Responder": 2}
PLATFORMS = {"SevSnp": 1, "Tdx": 2, "Nitro": 3, "Key": 4, "Simulated": 5}
LEAVES_MAX = 4096


def lp(part: bytes) -> bytes:
    """The length as a big-endian u32, then the bytes."""
    return struct.pack(">I", len(part)) + part


def leaf(purpose: str, role: str, *parts: bytes) -> bytes:
    head = b"\x00" + lp(b"sealane/1 leaf") + bytes([PURPOSES[purpose], ROLES[role]])
    return hashlib.sha256(head + b"".join(map(lp, parts))).digest()


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(leaves: list[bytes]) -> bytes:
    """RFC 9162, section 2.1.1."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return node(root(leaves[:split]), root(leaves[split:]))


def path(index: int, leaves: list[bytes]) -> list[bytes]:
    """RFC 9162, section 2.1.3.1."""
    if len(leaves) == 1:
        return []
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    if index < split:
        return path(index, leaves[:split]) + [root(leaves[split:])]
    return path(index - split, leaves[split:]) + [root(leaves[:split])]


def length(leaves: int, index: int) -> int | None:
    """Nodes between a leaf and the root, or None where there is no such leaf."""
    if not 1 <= leaves <= LEAVES_MAX or index >= leaves:
        return None
    if leaves == 1:
        return 0
    split = 1 << ((leaves - 1).bit_length() - 1)
    return 1 + (length(split, index) if index < split else length(leaves - split, index - split))


SOURCES = {"Injected": 1, "File": 2, "Initdata": 3}


def encode_trust(case: dict) -> bytes:
    keys = sorted({bytes.fromhex(key) for key in case["keys"]})
    head = bytes([1, SOURCES[case["source"]]]) + struct.pack(">I", 1 if case["simulation"] else 0)
    names = lp(case["namespace"].encode()) + lp(case["policy"].encode())
    return head + names + struct.pack(">IQH", case["threshold"], case["minimumEpoch"], len(keys)) + b"".join(keys)


def trust_digest(stated: bytes) -> bytes:
    return hashlib.sha256(lp(b"sealane/1 trust") + stated).digest()


def report_data(
    platform: str,
    pod: str,
    own_static: bytes,
    policy: bytes,
    trust: bytes,
    leaves: int,
    top: bytes,
    workload: dict | None = None,
) -> bytes:
    """The last empty part is the place of a list of devices."""
    stated = b"" if workload is None else encode_workload(workload)
    parts = [b"sealane/1 report", platform.encode(), pod.encode(), own_static, policy, trust, stated, b""]
    return hashlib.sha512(b"".join(map(lp, parts)) + struct.pack(">I", leaves) + top).digest()


def encode_workload(workload: dict) -> bytes:
    images = sorted((name.encode(), bytes.fromhex(digest)) for name, digest in workload["images"].items())
    head = b"\x01" + lp(workload["serviceAccount"].encode()) + bytes([len(images)])
    return head + b"".join(lp(name) + digest for name, digest in images)


def encode_evidence(platform: str, report: bytes, certificates: list[bytes]) -> bytes:
    head = bytes([PLATFORMS[platform]]) + lp(report) + bytes([len(certificates)])
    return head + b"".join(map(lp, certificates))


def encode_message(
    pod: str,
    policy: bytes,
    leaves: int,
    index: int,
    siblings: list[bytes],
    evidence: bytes,
    workload: dict | None,
) -> bytes:
    head = lp(pod.encode()) + policy + struct.pack(">IIB", leaves, index, len(siblings))
    tail = b"" if workload is None else lp(encode_workload(workload))
    return head + b"".join(siblings) + lp(evidence) + tail


def named(cases: list[dict]):
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


def unhex(case: dict, *fields: str) -> list[bytes]:
    return [bytes.fromhex(case[field]) for field in fields]


@named(BINDING["leaves"])
def test_leaf(case):
    parts = unhex(case, "handshakeHash", "bindingKey", "ownStatic", "peerStatic")
    assert leaf(case["purpose"], case["role"], *parts).hex() == case["leaf"]


@named(BINDING["trees"])
def test_tree(case):
    zero = bytes(32)
    hashes = [bytes.fromhex(text) for text in case["handshakeHashes"]]
    leaves = [leaf("Handshake", "Initiator", h, zero, zero, zero) for h in hashes]
    assert root(leaves).hex() == case["root"]
    assert [[part.hex() for part in path(index, leaves)] for index in range(len(leaves))] == case["paths"]


@named(BINDING["invalidPaths"])
def test_invalid_path(case):
    assert length(case["leaves"], case["index"]) != case["siblings"]


@named(BINDING["reports"])
def test_report_data(case):
    own_static, policy, trust, top = unhex(case, "ownStatic", "policy", "trust", "root")
    head = (case["platform"], case["pod"], own_static, policy, trust)
    computed = report_data(*head, case["leaves"], top, case.get("workload"))
    assert computed.hex() == case["reportData"]


@named(BINDING["trustConfigurations"])
def test_trust_configuration(case):
    stated = encode_trust(case)
    assert stated.hex() == case["stated"]
    assert trust_digest(stated).hex() == case["digest"]


@named(EVIDENCE["messages"])
def test_message_encoding(case):
    [policy] = unhex(case, "policy")
    siblings = [bytes.fromhex(text) for text in case["siblings"]]
    evidence = encode_evidence(
        case["platform"], bytes.fromhex(case["report"]), [bytes.fromhex(text) for text in case["certificates"]]
    )
    message = encode_message(
        case["pod"], policy, case["leaves"], case["index"], siblings, evidence, case.get("workload")
    )
    assert message.hex() == case["encoded"]


def test_simulated_evidence_is_bound_to_its_handshake():
    case = EVIDENCE["simulated"]
    policy, own_static, trust = unhex(case, "policy", "ownStatic", "trust")
    parts = unhex(case, "handshakeHash", "bindingKey", "ownStatic", "peerStatic")
    top = leaf(case["purpose"], case["role"], *parts)
    expected = report_data("Simulated", case["pod"], own_static, policy, trust_digest(trust), 1, top)
    report = base64.b64decode(case["report"])
    certificates = [base64.b64decode(text) for text in case["certificates"]]
    assert len(report) == 1184
    assert report[0x50:0x90] == expected
    assert report[0x90:0xC0].hex() == hashlib.sha384(b"sealane simulated guest 1").hexdigest()
    assert report[0xC0:0xE0] == hashlib.sha256(case["initdata"].encode()).digest()
    assert hashlib.sha256(certificates[2]).hexdigest() == case["root"]


@named(EVIDENCE["keys"])
def test_statement_of_a_key(case):
    seed, policy, own_static, trust = unhex(case, "seed", "policy", "ownStatic", "trust")
    parts = unhex(case, "handshakeHash", "bindingKey", "ownStatic", "peerStatic")
    top = leaf(case["purpose"], case["role"], *parts)
    data = report_data("Key", case["pod"], own_static, policy, trust, 1, top)
    signed = dsse(b"application/vnd.sealane.key-evidence.v1", data)
    report = public_key(seed) + data + sign(seed, signed)
    assert public_key(seed).hex() == case["publicKey"]
    assert report.hex() == case["report"]
    assert encode_evidence("Key", report, []).hex() == case["evidence"]

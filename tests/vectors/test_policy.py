"""Recomputes policy.json without any of the project's code: canonical JSON, digests, DSSE PAE, Ed25519,
quorum and the walk over rotations. Only the standard library is used."""

import base64
import hashlib
import json
from pathlib import Path

from primitives import dsse, public_key, sign, verifies

VECTORS = json.loads((Path(__file__).parent / "policy.json").read_text())

def canonical(document):
    """RFC 8785 for what documents may say: ASCII names, integers, no null."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def pae(payload):
    return dsse(VECTORS["payloadType"].encode(), payload)


def key_id(key):
    return hashlib.sha256(bytes.fromhex(key)).hexdigest()


def quorum(signed, authorities):
    """Whether enough distinct registered keys signed the exact bytes."""
    registered = {key_id(key): bytes.fromhex(key) for key in authorities["keys"]}
    message = pae(base64.b64decode(signed["document"], validate=True))
    counted = {
        signature["keyId"]
        for signature in signed["signatures"]
        if signature["keyId"] in registered
        and verifies(registered[signature["keyId"]], message, base64.b64decode(signature["signature"]))
    }
    return len(counted) >= authorities["threshold"]


def walk(chain):
    """The reason of the refusal, or None."""
    authorities = VECTORS["roots"]
    for signed in [*chain["rotations"], chain]:
        if not signed["signatures"]:
            return "PolicyUnsigned"
        if not quorum(signed, authorities):
            return "PolicyUnderSigned"
        document = json.loads(base64.b64decode(signed["document"]))
        new = document["authorities"]
        changed = (new["threshold"], set(new["keys"])) != (authorities["threshold"], set(authorities["keys"]))
        if changed and not quorum(signed, new):
            return "PolicyUnderSigned"
        authorities = new
    if VECTORS["now"] < document["notBefore"]:
        return "PolicyNotYetValid"
    if VECTORS["now"] >= document["expires"]:
        return "PolicyExpired"
    return None


def test_keys():
    for key in VECTORS["keys"]:
        assert public_key(bytes.fromhex(key["seed"])).hex() == key["publicKey"]
        assert key_id(key["publicKey"]) == key["keyId"]


def test_documents():
    seeds = {key["keyId"]: bytes.fromhex(key["seed"]) for key in VECTORS["keys"]}
    for vector in VECTORS["documents"]:
        exact = base64.b64decode(vector["bytes"])
        assert canonical(vector["document"]) == exact
        assert hashlib.sha256(exact).hexdigest() == vector["digest"]
        assert pae(exact) == base64.b64decode(vector["pae"])
        for signature in vector["signatures"]:
            # Ed25519 is deterministic, so a second implementation makes the same bytes.
            made = sign(seeds[signature["keyId"]], pae(exact))
            assert base64.b64encode(made).decode() == signature["signature"]


def test_chains():
    outcomes = {case["id"]: walk(case["chain"]) for case in VECTORS["chains"]}
    assert outcomes == {case["id"]: case["refused"] for case in VECTORS["chains"]}
    assert None in outcomes.values() and len(set(outcomes.values())) > 2

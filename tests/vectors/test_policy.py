"""Recomputes policy.json without any of the project's code: canonical JSON, digests, DSSE PAE, Ed25519,
quorum and the walk over rotations. Only the standard library is used."""

import base64
import hashlib
import json
from pathlib import Path

VECTORS = json.loads((Path(__file__).parent / "policy.json").read_text())

# Ed25519, RFC 8032 section 5.1: slow, short, and independent of every library under test.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def point_add(a, b):
    """Adds two points in extended homogeneous coordinates (X, Y, Z, T)."""
    e = (a[1] - a[0]) * (b[1] - b[0]) % P
    f = (a[1] + a[0]) * (b[1] + b[0]) % P
    g = 2 * a[3] * b[3] * D % P
    h = 2 * a[2] * b[2] % P
    w, x, y, z = f - e, h - g, h + g, f + e
    return w * x % P, y * z % P, x * y % P, w * z % P


def point_times(scalar, point):
    total = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = point_add(total, point)
        point = point_add(point, point)
        scalar >>= 1
    return total


def point_read(data):
    """The point of 32 bytes, or None."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def point_write(point):
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = point_read((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def secret(seed):
    digest = bytearray(hashlib.sha512(seed).digest())
    digest[0] &= 248
    digest[31] = digest[31] & 127 | 64
    return int.from_bytes(digest[:32], "little"), bytes(digest[32:])


def public_key(seed):
    return point_write(point_times(secret(seed)[0], BASE))


def challenge(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % L


def sign(seed, message):
    scalar, prefix = secret(seed)
    nonce = challenge(prefix, message)
    commitment = point_write(point_times(nonce, BASE))
    response = (nonce + challenge(commitment, public_key(seed), message) * scalar) % L
    return commitment + response.to_bytes(32, "little")


def verifies(key, message, signature):
    if len(signature) != 64:
        return False
    point, response = point_read(key), int.from_bytes(signature[32:], "little")
    if point is None or response >= L:
        return False
    negative = (P - point[0], point[1], 1, P - point[3])
    other = point_times(challenge(signature[:32], key, message), negative)
    return point_write(point_add(point_times(response, BASE), other)) == signature[:32]


def canonical(document):
    """RFC 8785 for what documents may say: ASCII names, integers, no null."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def pae(payload):
    kind = VECTORS["payloadType"].encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


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

"""X25519, Ed25519, HKDF-SHA-256, AES-GCM and ChaCha20-Poly1305 from their specifications, with the standard library.

Slow and not constant-time: they exist so that the vectors are recomputed by code that shares nothing with the
libraries under test, on any machine, without installing anything. ``test_protocol.py`` checks them against the
published vectors of each specification.
"""

import hashlib
import hmac
import struct

P25519 = 2**255 - 19


def x25519(scalar: bytes, point: bytes = bytes([9]) + bytes(31)) -> bytes:
    """RFC 7748 section 5."""
    k = int.from_bytes(scalar, "little")
    k = (k & ~7 & ~(128 << 248)) | (64 << 248)
    x1 = int.from_bytes(point, "little") & (2**255 - 1)
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = (k >> t) & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b = (x2 + z2) % P25519, (x2 - z2) % P25519
        aa, bb = a * a % P25519, b * b % P25519
        e = (aa - bb) % P25519
        da, cb = (x3 - z3) * a % P25519, (x3 + z3) * b % P25519
        x3, z3 = (da + cb) ** 2 % P25519, x1 * (da - cb) ** 2 % P25519
        x2, z2 = aa * bb % P25519, e * (aa + 121665 * e) % P25519
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P25519 - 2, P25519) % P25519).to_bytes(32, "little")


def hmac_sha256(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def hkdf_expand(prk: bytes, info: bytes, length: int = 32) -> bytes:
    """RFC 5869 section 2.3."""
    output, block = b"", b""
    for counter in range(1, -(-length // 32) + 1):
        block = hmac_sha256(prk, block, info, bytes([counter]))
        output += block
    return output[:length]


def _sbox() -> list[int]:
    """FIPS 197 section 5.1.1: the inverse in GF(2^8), then an affine map."""
    box, p, q = [0] * 256, 1, 1
    while True:
        p ^= (p << 1) ^ (0x11B if p & 0x80 else 0)
        p &= 0xFF
        for shift in (1, 2, 4):
            q ^= (q << shift) & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        rotated = [((q << n) | (q >> (8 - n))) & 0xFF for n in range(5)]
        box[p] = rotated[0] ^ rotated[1] ^ rotated[2] ^ rotated[3] ^ rotated[4] ^ 0x63
        if p == 1:
            break
    box[0] = 0x63
    return box


SBOX = _sbox()


class Aes:
    """FIPS 197 with 128- and 256-bit keys, one direction."""

    def __init__(self, key: bytes):
        words = [list(key[i : i + 4]) for i in range(0, len(key), 4)]
        count, factor = len(words), 1
        self.rounds = count + 6
        for i in range(count, 4 * (self.rounds + 1)):
            word = list(words[-1])
            if i % count == 0:
                word = [SBOX[byte] for byte in word[1:] + word[:1]]
                word[0] ^= factor
                factor = (factor << 1) ^ (0x11B if factor & 0x80 else 0)
            elif count > 6 and i % count == 4:
                word = [SBOX[byte] for byte in word]
            words.append([a ^ b for a, b in zip(word, words[i - count])])
        self.keys = [sum(words[4 * r : 4 * r + 4], []) for r in range(self.rounds + 1)]

    def block(self, block: bytes) -> bytes:
        state = [a ^ b for a, b in zip(block, self.keys[0])]
        for number in range(1, self.rounds + 1):
            state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
            if number < self.rounds:
                state = sum((self._mix(state[i : i + 4]) for i in range(0, 16, 4)), [])
            state = [a ^ b for a, b in zip(state, self.keys[number])]
        return bytes(state)

    @staticmethod
    def _mix(column: list[int]) -> list[int]:
        double = [(byte << 1) ^ (0x11B if byte & 0x80 else 0) for byte in column]
        return [
            double[i] ^ column[(i + 1) % 4] ^ double[(i + 1) % 4] ^ column[(i + 2) % 4] ^ column[(i + 3) % 4]
            for i in range(4)
        ]


def _ghash(h: int, data: bytes) -> int:
    """NIST SP 800-38D section 6.4."""
    total = 0
    for start in range(0, len(data), 16):
        total ^= int.from_bytes(data[start : start + 16], "big")
        product, value = 0, h
        for bit in reversed(range(128)):
            if (total >> bit) & 1:
                product ^= value
            value = (value >> 1) ^ ((0xE1 << 120) if value & 1 else 0)
        total = product
    return total


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 16)


def aes_gcm_seal(key: bytes, nonce: bytes, aad: bytes, plaintext: bytes) -> bytes:
    """NIST SP 800-38D section 7.1: ciphertext and tag."""
    aes = Aes(key)

    def keystream(counter: int) -> bytes:
        return aes.block(nonce + struct.pack(">I", counter))

    blocks = (len(plaintext) + 15) // 16
    stream = b"".join(keystream(2 + i) for i in range(blocks))
    ciphertext = bytes(a ^ b for a, b in zip(plaintext, stream))
    lengths = struct.pack(">QQ", 8 * len(aad), 8 * len(ciphertext))
    h = int.from_bytes(aes.block(bytes(16)), "big")
    tag = _ghash(h, _padded(aad) + _padded(ciphertext) + lengths) ^ int.from_bytes(keystream(1), "big")
    return ciphertext + tag.to_bytes(16, "big")


def _quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
    for x, y, z, rotation in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & 0xFFFFFFFF
        mixed = s[z] ^ s[x]
        s[z] = ((mixed << rotation) | (mixed >> (32 - rotation))) & 0xFFFFFFFF


def chacha_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439 section 2.3."""
    start = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    s = list(start)
    for _ in range(10):
        for i in range(4):
            _quarter(s, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            _quarter(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(s, start)))


def chacha20_poly1305_seal(key: bytes, nonce: bytes, aad: bytes, plaintext: bytes) -> bytes:
    """RFC 8439 section 2.8: ciphertext and tag."""
    blocks = (len(plaintext) + 63) // 64
    stream = b"".join(chacha_block(key, 1 + i, nonce) for i in range(blocks))
    ciphertext = bytes(a ^ b for a, b in zip(plaintext, stream))
    one_time = chacha_block(key, 0, nonce)[:32]
    r = int.from_bytes(one_time[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    data = _padded(aad) + _padded(ciphertext) + struct.pack("<QQ", len(aad), len(ciphertext))
    total = 0
    for start in range(0, len(data), 16):
        total = (total + int.from_bytes(data[start : start + 16] + b"\x01", "little")) * r % (2**130 - 5)
    tag = (total + int.from_bytes(one_time[16:], "little")) % 2**128
    return ciphertext + tag.to_bytes(16, "little")


# Ed25519, RFC 8032 section 5.1.
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P25519) % P25519


def point_add(a, b):
    """Adds two points in extended homogeneous coordinates (X, Y, Z, T)."""
    e = (a[1] - a[0]) * (b[1] - b[0]) % P25519
    f = (a[1] + a[0]) * (b[1] + b[0]) % P25519
    g = 2 * a[3] * b[3] * D % P25519
    h = 2 * a[2] * b[2] % P25519
    w, x, y, z = f - e, h - g, h + g, f + e
    return w * x % P25519, y * z % P25519, x * y % P25519, w * z % P25519


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
    if y >= P25519:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P25519) % P25519
    x = pow(square, (P25519 + 3) // 8, P25519)
    if (x * x - square) % P25519:
        x = x * pow(2, (P25519 - 1) // 4, P25519) % P25519
    if (x * x - square) % P25519 or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P25519 - x
    return x, y, 1, x * y % P25519


def point_write(point):
    inverse = pow(point[2], -1, P25519)
    x, y = point[0] * inverse % P25519, point[1] * inverse % P25519
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = point_read((4 * pow(5, -1, P25519) % P25519).to_bytes(32, "little"))


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
    negative = (P25519 - point[0], point[1], 1, P25519 - point[3])
    other = point_times(challenge(signature[:32], key, message), negative)
    return point_write(point_add(point_times(response, BASE), other)) == signature[:32]


def dsse(kind, payload):
    """What is signed for a payload: DSSE v1, pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)

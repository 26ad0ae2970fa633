"""AEGIS-256X4 from the text of draft-irtf-cfrg-aegis-aead: slow, and after no implementation."""

from primitives import SBOX

LANES = 4
BLOCK = 16
RATE = LANES * BLOCK
C0 = bytes.fromhex("000101020305080d1522375990e97962")
C1 = bytes.fromhex("db3d18556dc22ff12011314273b528dd")


def doubled(value):
    """In GF(2^8) of AES."""
    return (value << 1 ^ (0x11B if value & 0x80 else 0)) & 0xFF


def xor(*blocks):
    made = bytes(len(blocks[0]))
    for block in blocks:
        made = bytes(a ^ b for a, b in zip(made, block))
    return made


def both(one, other):
    return bytes(a & b for a, b in zip(one, other))


def aes_round(block, key):
    """SubBytes, ShiftRows, MixColumns, AddRoundKey: columns of four bytes, one after the other."""
    shifted = [SBOX[block[(place + 4 * (place % 4)) % BLOCK]] for place in range(BLOCK)]
    made = []
    for column in (shifted[place : place + 4] for place in range(0, BLOCK, 4)):
        for row in range(4):
            a, b, c, d = (column[(row + step) % 4] for step in range(4))
            made.append(doubled(a) ^ doubled(b) ^ b ^ c ^ d)
    return xor(bytes(made), key)


class State:
    """Six blocks in each of the lanes."""

    def __init__(self, key, nonce):
        keys, nonces = (key[:BLOCK], key[BLOCK:]), (nonce[:BLOCK], nonce[BLOCK:])
        mixed = xor(keys[0], nonces[0]), xor(keys[1], nonces[1])
        first = [mixed[0], mixed[1], C1, C0, xor(keys[0], C0), xor(keys[1], C1)]
        self.lanes = [list(first) for _ in range(LANES)]
        for _ in range(4):
            for block in (*keys, *mixed):
                for lane, blocks in enumerate(self.lanes):
                    context = bytes([lane, LANES - 1]) + bytes(BLOCK - 2)
                    blocks[3], blocks[5] = xor(blocks[3], context), xor(blocks[5], context)
                self.update([block] * LANES)

    def update(self, blocks):
        for lane, block in enumerate(blocks):
            v = self.lanes[lane]
            inputs = [xor(v[0], block), *v[1:]]
            self.lanes[lane] = [aes_round(v[place - 1], inputs[place]) for place in range(6)]

    def absorb(self, piece):
        self.update(split(piece))

    def encrypt(self, piece):
        streams = [xor(v[1], v[4], v[5], both(v[2], v[3])) for v in self.lanes]
        self.absorb(piece)
        return xor(piece, b"".join(streams))

    def tag(self, additional_bytes, message_bytes):
        lengths = (8 * additional_bytes).to_bytes(8, "little") + (8 * message_bytes).to_bytes(8, "little")
        blocks = [xor(v[3], lengths) for v in self.lanes]
        for _ in range(7):
            self.update(blocks)
        return xor(*(xor(*v) for v in self.lanes))


def split(piece):
    return [piece[place : place + BLOCK] for place in range(0, RATE, BLOCK)]


def padded(text):
    whole = text + bytes(-len(text) % RATE)
    return [whole[place : place + RATE] for place in range(0, len(whole), RATE)]


def seal(key, nonce, plaintext, additional):
    """Ciphertext and tag of 16 bytes, one behind the other."""
    state = State(key, nonce)
    for piece in padded(additional):
        state.absorb(piece)
    ciphertext = b"".join(map(state.encrypt, padded(plaintext)))[: len(plaintext)]
    return ciphertext + state.tag(len(additional), len(plaintext))

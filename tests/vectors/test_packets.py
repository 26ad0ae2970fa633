"""Recomputes ``packets.json`` from ``protocol/PROTOCOL.md`` §13, with the standard library alone.

Clear datagrams and cookies, parts both ways, and packets of every cipher across an update and a renewal. The unit tests
of ``protocol`` compute the same file.
"""

import ipaddress
import json
import struct
from pathlib import Path

import pytest
from primitives import Aes, chacha_block, hmac_sha256
from schedule import Schedule, aead, check_datagrams, schedule_of

HERE = Path(__file__).parent
KEYS, PACKETS = (json.loads((HERE / f"{name}.json").read_text()) for name in ("keys", "packets"))

unhex = bytes.fromhex
ASK_BYTES, FLIGHT_BYTES_MAX, RUNS_MAX = 1_200, 4_096, 16
SUITES = pytest.mark.parametrize("case", PACKETS["cases"], ids=lambda case: f"{case['suite']:#06x}")


class Malformed(Exception):
    """Nothing that a sender of this protocol writes."""


def need(holds: bool) -> None:
    if not holds:
        raise Malformed


def take(data: bytes, form: str) -> tuple:
    """Numbers and byte strings at the front of ``data``, then the rest."""
    size = struct.calcsize(">" + form)
    need(len(data) >= size)
    return *struct.unpack_from(">" + form, data), data[size:]


def mask(suite: int, key: bytes, sample: bytes) -> bytes:
    """RFC 9001 sections 5.4.3 and 5.4.4."""
    if suite & 0xFF == 2:
        return chacha_block(key, int.from_bytes(sample[:4], "little"), sample[4:])[:5]
    return Aes(key[:16] if suite & 0xFF == 3 else key).block(sample)[:5]


def hide(suite: int, key: bytes, packet: bytes) -> bytes:
    """Hides the header of a packet, or uncovers it."""
    first, *rest = mask(suite, key, packet[13:29])
    number = bytes(a ^ b for a, b in zip(packet[9:13], rest))
    return bytes([packet[0] ^ (first & 0x1F)]) + packet[1:9] + number + packet[13:]


def test_masks_are_those_of_their_specification():
    # RFC 9001 appendices A.2 and A.5; the first suite has no vector there.
    key, sample = unhex("9f50449e04a0e810283a1e9933adedd2"), unhex("d1b1c98dd7689fb8ec11d242b123dc9b")
    assert mask(3, key, sample).hex() == "437b9aec36"
    key = unhex("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4")
    assert mask(2, key, unhex("5e5cd55c41f69080575d7999c25a5bfb")).hex() == "aefefe7d03"


def number_near(expected: int, low: int) -> int:
    """RFC 9000 section A.3, with 32 bits."""
    candidates = (low + turn * 2**32 for turn in range(max(0, expected // 2**32 - 1), expected // 2**32 + 2))
    return min(candidates, key=lambda number: abs(number - expected))


def encode_part(part: dict) -> bytes:
    match part["type"]:
        case "pad":
            return bytes(part["length"])
        case "acknowledge":
            (lowest, newest), *rest = part["arrived"]
            runs = b""
            for first, last in rest:
                runs += struct.pack(">II", lowest - last - 1, last - first + 1)
                lowest = first
            before = newest - part["arrived"][0][0]
            numbers = newest, part["delayMicros"], part["bytesThrough"], before, len(rest)
            return b"\x01" + struct.pack(">QIQIB", *numbers) + runs
        case "bytes":
            return b"\x02" + struct.pack(">Q", part["offset"]) + unhex(part["bytes"])
        case "ping":
            return b"\x03"
        case "challenge" | "response" | "reset" as name:
            return {"challenge": b"\x04", "response": b"\x05", "reset": b"\x06"}[name] + unhex(part["token"])
    raise AssertionError(part)


def read_acknowledge(data: bytes) -> tuple[dict, bytes]:
    newest, delay, through, before, count, data = take(data, "QIQIB")
    need(count <= RUNS_MAX and before <= newest)
    lowest = newest - before
    arrived = [[lowest, newest]]
    for _ in range(count):
        missing, run, data = take(data, "II")
        need(missing > 0 and run > 0 and missing + run <= lowest)
        last = lowest - missing - 1
        lowest = last - run + 1
        arrived.append([lowest, last])
    return {"type": "acknowledge", "arrived": arrived, "delayMicros": delay, "bytesThrough": through}, data


def read_parts(data: bytes) -> list[dict]:
    parts = []
    while data:
        kind, rest = data[0], data[1:]
        match kind:
            case 0:
                need(not any(rest))
                part, rest = {"type": "pad", "length": len(data)}, b""
            case 1:
                part, rest = read_acknowledge(rest)
            case 2:
                offset, rest = take(rest, "Q")
                need(0 < len(rest) < 2**64 - offset)
                part, rest = {"type": "bytes", "offset": offset, "bytes": rest.hex()}, b""
            case 3:
                part = {"type": "ping"}
            case 4 | 5:
                token, rest = take(rest, "8s")
                part = {"type": "challenge" if kind == 4 else "response", "token": token.hex()}
            case 6:
                token, rest = take(rest, "16s")
                part = {"type": "reset", "token": token.hex()}
            case _:
                raise Malformed
        parts.append(part)
        data = rest
    return parts


@pytest.mark.parametrize("case", PACKETS["parts"], ids=lambda case: "+".join(part["type"] for part in case["parts"]))
def test_parts(case):
    assert b"".join(map(encode_part, case["parts"])).hex() == case["encoded"]
    assert read_parts(unhex(case["encoded"])) == case["parts"]


def test_every_part_has_a_vector():
    kinds = {part["type"] for case in PACKETS["parts"] for part in case["parts"]}
    assert kinds == {"pad", "acknowledge", "bytes", "ping", "challenge", "response", "reset"}


@pytest.mark.parametrize("case", PACKETS["malformedParts"], ids=lambda case: case["why"])
def test_malformed_parts(case):
    with pytest.raises(Malformed):
        read_parts(unhex(case["encoded"]))


def schedules(case: dict) -> dict[str, Schedule]:
    """Of the first handshake, and of the one that renews it."""
    keys = next(keys for keys in KEYS["cases"] if keys["suite"] == case["suite"])
    return {"first": schedule_of(keys), "renewed": schedule_of(case["renewal"])}


@SUITES
def test_keys_of_renewals(case):
    for way in case["renewal"]["datagrams"]:
        check_datagrams(schedules(case)["renewed"], way)


@SUITES
def test_packets(case):
    suite, known = case["suite"], schedules(case)
    ways = {}
    for packet in case["packets"]:
        direction, number = packet["direction"], packet["number"]
        way = ways.setdefault(direction, {"flag": 0, "keys": ("first", 0), "expected": 0})
        keys = packet["handshake"], packet["phase"]
        # An update and a renewal both flip the phase; the key that hides headers stays that of the first handshake.
        way["flag"] ^= keys != way["keys"]
        way["keys"] = keys
        aad = bytes([0x40 | way["flag"]]) + unhex(packet["to"]) + struct.pack(">I", number & 0xFFFFFFFF)
        assert aad.hex() == packet["aad"]
        plaintext = b"".join(map(encode_part, packet["parts"]))
        assert plaintext.hex() == packet["plaintext"]
        assert read_parts(plaintext) == packet["parts"]
        schedule = known[packet["handshake"]]
        phase = schedule.phase(schedule.datagrams(direction, packet["phase"]))
        sealed = aad + aead(suite, phase, number, aad, plaintext)
        header = known["first"].expand(known["first"].datagrams(direction), "header")
        assert hide(suite, header, sealed).hex() == packet["packet"]
        # What a receiver makes of it.
        uncovered = hide(suite, header, unhex(packet["packet"]))
        assert number_near(way["expected"], int.from_bytes(uncovered[9:13], "big")) == number
        way["expected"] = number + 1
    numbers = {packet["number"] for packet in case["packets"] if packet["direction"] == "initiator"}
    assert numbers >= {0, 1, 2**32 - 1, 2**32} and len(ways) == 2
    assert {way["keys"] for way in ways.values()} == {("renewed", 0)}


def encode_clear(datagram: dict) -> bytes:
    def field(name: str) -> bytes:
        return unhex(datagram[name] or "")

    match datagram["type"]:
        case "ask":
            return (b"\x80\x01" + field("initiator")).ljust(ASK_BYTES, b"\0")
        case "cookie":
            return b"\x81\x01" + field("initiator") + field("cookie")
        case "flight":
            numbers = struct.pack(">BHH", datagram["index"], datagram["length"], datagram["offset"])
            return b"\x82\x01" + field("to") + field("from") + numbers + field("cookie") + field("bytes")
        case "reset":
            return b"\x83\x01" + field("id") + field("token")
    raise AssertionError(datagram)


def read_flight(data: bytes) -> dict:
    to, source, index, length, offset, data = take(data, "8s8sBHH")
    cookie = None
    if index == 0:
        need(not any(to))
        cookie, data = take(data, "20s")
    need(index < 3 and len(data) > 0 and offset + len(data) <= length <= FLIGHT_BYTES_MAX)
    return {
        "type": "flight", "to": to.hex(), "from": source.hex(), "index": index, "length": length, "offset": offset,
        "cookie": cookie and cookie.hex(), "bytes": data.hex(),
    }  # fmt: skip


def read_clear(data: bytes) -> dict:
    kind, form, rest = take(data, "BB")
    need(form == 1)
    match kind:
        case 0x80:
            name, rest = take(rest, "8s")
            need(len(data) == ASK_BYTES and not any(rest))
            return {"type": "ask", "initiator": name.hex()}
        case 0x81:
            name, cookie, rest = take(rest, "8s20s")
            need(not rest)
            return {"type": "cookie", "initiator": name.hex(), "cookie": cookie.hex()}
        case 0x82:
            return read_flight(rest)
        case 0x83:
            name, token, rest = take(rest, "8s16s")
            need(not rest)
            return {"type": "reset", "id": name.hex(), "token": token.hex()}
    raise Malformed


@pytest.mark.parametrize("case", PACKETS["clear"], ids=lambda case: case["datagram"]["type"])
def test_clear_datagrams(case):
    assert encode_clear(case["datagram"]).hex() == case["encoded"]
    assert read_clear(unhex(case["encoded"])) == case["datagram"]


@pytest.mark.parametrize("case", PACKETS["malformedClear"], ids=lambda case: case["why"])
def test_malformed_clear_datagrams(case):
    with pytest.raises(Malformed):
        read_clear(unhex(case["encoded"]))


def test_every_flight_has_a_vector():
    datagrams = [case["datagram"] for case in PACKETS["clear"]]
    assert {datagram["index"] for datagram in datagrams if datagram["type"] == "flight"} == {0, 1, 2}
    assert {datagram["type"] for datagram in datagrams} == {"ask", "cookie", "flight", "reset"}


@pytest.mark.parametrize("case", PACKETS["cookies"]["cases"], ids=lambda case: f"{case['address']}-{case['micros']}")
def test_cookies(case):
    address = ipaddress.ip_address(case["address"])
    packed = address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed
    time = struct.pack(">I", case["micros"] // 1_000 % 2**32)
    said = time + packed + struct.pack(">H", case["port"]) + unhex(case["initiator"])
    assert (time + hmac_sha256(unhex(PACKETS["cookies"]["key"]), said)[:16]).hex() == case["cookie"]


@pytest.mark.parametrize("case", PACKETS["resets"]["cases"], ids=lambda case: case["id"])
def test_tokens_that_end_connections(case):
    resets = PACKETS["resets"]
    said = b"sealane/v1 reset" + struct.pack(">H", resets["port"]) + unhex(case["id"])
    assert hmac_sha256(unhex(resets["key"]), said)[:16].hex() == case["token"]

"""Every message of IKEv2 that Caravan captures, read by two others: scapy and tshark.

The capture has keys beside it (`ikev2_decryption_table`). What they open is handed to scapy as a
message in clear. scapy must know every payload, write it again octet for octet, and name what our
log names. tshark opens the capture itself, and must find the same payloads and what ESP carried.
"""

from __future__ import annotations

import csv
import hmac
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from newer_peers import needs
from scapy.contrib import ikev2
from scapy.layers.inet import UDP
from scapy.packet import Padding, Raw
from scapy.utils import PcapNgReader
from strongswan_pair import NAMES, PLAIN, road_warrior, settle
from waiting import at_once

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import Caravan, order, write_files
from caravan.testbed.connection import Connection, Eap, Ppk, PublicKey, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.pki import CaravanAuthority, Credentials
from caravan.testbed.relay import LinkConfig
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    GATEWAY_LAN_ADDRESS,
    PRIVATE_NETWORK6,
    SERVER_ADDRESS,
    SERVER_ADDRESS6,
)
from caravan.testbed.roaming import CELL, WIFI, Pinging, RoamNetwork
from caravan.testbed.strongswan import RELEASE, NewStrongSwan
from caravan.testbed.traffic import ping

pytestmark = pytest.mark.root

HEADER_BYTES = 28
VERSION = 0x20
SUITE = "aes128gcm16-prfsha256-curve25519"
SUITE_P256 = "aes128gcm16-prfsha256-ecp256"
OTHER_ADDRESS = "192.0.2.77"
PPK = "5f0e9b3a71c84d2296ee08fd45b1a3c7609d12fb8e5a7c3490bb62d1e8f4a70c"
SK, SKF = 46, 53
SUBSTRUCTURES = (2, 3)
"""Proposals and transforms, which tshark lists among the payloads."""
INTERMEDIATE = 43
"""The exchange (RFC 9242 §5)."""
ANSWERS = "esp && icmp.type == 0"
"""tshark's filter for answers to a ping."""
TAG_BYTES = 16
"""Of AES-GCM, and of HMAC-SHA2-256-128."""
WORDS = {
    ikev2.IKEv2_SA: "SA",
    ikev2.IKEv2_KE: "KE",
    ikev2.IKEv2_Nonce: "No",
    ikev2.IKEv2_IDi: "IDi",
    ikev2.IKEv2_IDr: "IDr",
    ikev2.IKEv2_CERT: "CERT",
    ikev2.IKEv2_CERTREQ: "CERTREQ",
    ikev2.IKEv2_AUTH: "AUTH",
    ikev2.IKEv2_CP: "CP",
    ikev2.IKEv2_TSi: "TSi",
    ikev2.IKEv2_TSr: "TSr",
    ikev2.IKEv2_Delete: "D",
    ikev2.IKEv2_EAP: "EAP",
}


@dataclass(frozen=True)
class Keys:
    """Of one IKE SA: encryption and integrity, the initiator's first."""

    encryption: tuple[bytes, bytes]
    integrity: tuple[bytes, bytes]

    def open(self, header: Any, before: bytes, body: bytes) -> bytes:
        """The payloads in the body of an encrypted payload; `before`: the octets up to it."""
        of_responder = not header.flags & 8
        encryption, integrity = self.encryption[of_responder], self.integrity[of_responder]
        if not integrity:
            key, salt = encryption[:-4], encryption[-4:]
            clear = AESGCM(key).decrypt(salt + body[:8], body[8:], before)
        else:
            sealed, tag = body[:-TAG_BYTES], body[-TAG_BYTES:]
            made = hmac.digest(integrity, before + sealed, "sha256")[:TAG_BYTES]
            assert hmac.compare_digest(made, tag)
            cipher = Cipher(algorithms.AES(encryption), modes.CBC(sealed[:16])).decryptor()
            clear = cipher.update(sealed[16:]) + cipher.finalize()
        return clear[: -1 - clear[-1]]


KeyTable = Mapping[tuple[bytes, bytes], Keys]


def read_keys(folder: Path) -> KeyTable:
    """The keys beside a capture, by both SPIs."""
    found = {}
    with (folder / "ikev2_decryption_table").open() as file:
        for row in csv.reader(file):
            spi_i, spi_r, ei, er, _, ai, ar, _ = row
            read = bytes.fromhex
            keys = Keys((read(ei), read(er)), (read(ai), read(ar)))
            found[read(spi_i), read(spi_r)] = keys
    return found


def datagrams(capture: Path) -> Iterator[bytes]:
    """The messages of IKE in a capture, without the marker of port 4500."""
    with PcapNgReader(str(capture)) as reader:
        for packet in reader:
            if UDP not in packet:
                continue
            octets = bytes(packet[UDP].payload)
            if 4500 in (packet[UDP].sport, packet[UDP].dport):
                if octets[:4] != bytes(4):
                    continue
                octets = octets[4:]
            # A gateway tells in IKEv1 that it does not know the SPI of a packet.
            if len(octets) >= HEADER_BYTES and octets[17] == VERSION:
                yield octets


class Opener:
    """Opens messages, and puts fragments together."""

    def __init__(self, keys: KeyTable, keys_before: Sequence[Keys]) -> None:
        self._keys = keys
        self._keys_before = keys_before
        self._fragments: dict[tuple[bytes, int, int], dict[int, bytes]] = {}
        self.fragments = 0
        self.read: list[str] = []
        """The payloads of each message, in the words of our log."""
        self.messages: list[bytes] = []
        """Each message in clear."""
        self.payloads: list[tuple[int, list[int]]] = []
        """The exchange and the payloads of each message, by number."""

    def open(self, octets: bytes) -> bytes | None:
        """A message with its payloads in clear; `None`: more fragments are missing."""
        header = ikev2.IKEv2(octets[:HEADER_BYTES])
        first = octets[16]
        if first not in (SK, SKF):
            return octets
        if header.exch_type == INTERMEDIATE:
            keys = self._keys_before[int(header.id) - 1]
        else:
            keys = self._keys[header.init_SPI, header.resp_SPI]
        inner = octets[HEADER_BYTES]
        start = HEADER_BYTES + (4 if first == SK else 8)
        clear = keys.open(header, octets[:start], octets[start:])
        if first == SKF:
            self.fragments += 1
            number, total = (int.from_bytes(octets[at : at + 2], "big") for at in (32, 34))
            name = (header.init_SPI, header.id, int(header.flags))
            held = self._fragments.setdefault(name, {})
            held[number] = clear
            if number == 1:
                held[0] = bytes([inner])
            if len(held) <= total:
                return None
            inner = held[0][0]
            clear = b"".join(held[at] for at in range(1, total + 1))
            del self._fragments[name]
        size = HEADER_BYTES + len(clear)
        return octets[:16] + bytes([inner]) + octets[17:24] + size.to_bytes(4, "big") + clear


NEWER = {
    16445: "USE_PPK_INT",
    16447: "IKE_SA_INIT_FULL_TRANSCRIPT_AUTH",
    # Private use: padding of probes for the path's size.
    40962: "notification 40962",
}
"""Notify message types that IANA has given since scapy's table was made, and our own."""


def words_of(message: Any) -> str:
    """What our log writes for the payloads of a message."""
    words = []
    layer = message.payload
    while layer:
        assert not isinstance(layer, Raw | Padding), layer
        if isinstance(layer, ikev2.IKEv2_Notify):
            name = NEWER.get(layer.type) or ikev2.IKEv2NotifyMessageTypes[layer.type]
            words.append(f"N({name.removeprefix('IV2_NOTIFY_')})")
        elif type(layer) in WORDS:
            words.append(WORDS[type(layer)])
        layer = layer.payload
    return " ".join(words)


def numbers_of(message: Any) -> list[int]:
    """The payloads of a message, and the types of its notifications."""
    numbers, layer = [], message
    while layer.next_payload:
        numbers.append(layer.next_payload)
        layer = layer.payload
        numbers += [layer.type] if isinstance(layer, ikev2.IKEv2_Notify) else []
    return numbers


def by_tshark(capture: Path, wanted: str, *fields: str) -> list[list[list[int]]]:
    """The fields of each frame that fits a display filter, with the keys beside the capture."""
    argv = ["tshark", "-n", "-r", str(capture), "-Y", wanted, "-T", "fields"]
    argv += [word for field in fields for word in ("-e", field)]
    own = os.environ | {"WIRESHARK_CONFIG_DIR": f"{capture}.keys"}
    done = subprocess.run(argv, env=own, check=True, capture_output=True, text=True, timeout=120)
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return [[[int(one, 0) for one in cell.split(",") if one] for cell in row] for row in rows]


def lines_in(capture: Path) -> list[str]:
    """The payloads of every message, as the lines between the packets name them."""
    argv = ["tshark", "-n", "-r", str(capture), "-Y", "systemd_journal"]
    argv += ["-T", "fields", "-e", "systemd_journal.message"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120)
    return [line.partition(": ")[2] for line in done.stdout.splitlines()]


def check_tshark(output: Path, opener: Opener, answers: str = ANSWERS) -> None:
    """tshark finds the same payloads as scapy, except where its keys are not the last ones; and
    answers to a ping that were in the tunnel."""
    capture, found = output / "ms.pcapng", []
    fields = ("isakmp.exchangetype", "isakmp.typepayload", "isakmp.notify.msgtype")
    for (exchange,), payloads, notifications in by_tshark(
        capture, "isakmp.version == 0x20", *fields
    ):
        # The last fragment has all payloads of the message.
        if payloads == [SKF] or exchange == INTERMEDIATE:
            continue
        inner = [it for it in payloads if it not in (*SUBSTRUCTURES, SK, SKF)]
        found.append((exchange, sorted(inner + notifications)))
    last = ((exchange, it) for exchange, it in opener.payloads if exchange != INTERMEDIATE)
    assert found == [(exchange, sorted(numbers)) for exchange, numbers in last]
    assert len(by_tshark(capture, answers, "frame.number")) > 0


def renew(ours: Caravan, *what: str) -> None:
    """Renew the child or what the words say, and wait for the answer."""
    before = len(ours.handshake())
    order(ours.host, "rekey", "road", *what).check()
    ours.process.wait_for(lambda: len(ours.handshake()) >= before + 2, "renewal", 10)


def station(host: Host, connection: Connection, output: Path) -> Caravan:
    """A station that captures; its tunnel comes up later."""
    return Caravan(host, connection, options=["--capture", str(output / "ms.pcapng")])


def read(output: Path, keys_before: Sequence[Keys] = ()) -> Opener:
    """Hand every message of the station's capture to scapy. `keys_before`: of each IKE_INTERMEDIATE
    in turn; those beside the capture are the last ones."""
    capture = output / "ms.pcapng"
    opener = Opener(read_keys(Path(f"{capture}.keys")), keys_before)
    for octets in datagrams(capture):
        message = opener.open(octets)
        if message is None:
            continue
        found = ikev2.IKEv2(message)
        assert bytes(found) == message
        # Built anew from its fields, not from what scapy has kept of the octets.
        found.clear_cache()
        assert bytes(found) == message
        opener.messages.append(message)
        opener.read.append(words_of(found))
        opener.payloads.append((found.exch_type, numbers_of(found)))
    return opener


def logged(ours: Caravan) -> list[str]:
    """The payloads of every message, as our log names them."""
    return [it.payloads for it in ours.messages()]


@pytest.mark.parametrize("has_certificates", [True, False], ids=["rsa", "psk"])
@pytest.mark.parametrize(
    "suite", ["aes256gcm16-prfsha384-curve25519", "aes128-sha256-ecp256", "aes256-sha256-modp3072"]
)
def test_scapy_reads_every_message(
    suite: str, has_certificates: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    shared = SharedKey("a group key of the fleet")
    both = Connection(shared, version=2, is_legacy=False, proposals=suite)
    gateway, on_station = road_warrior(both, keys if has_certificates else (shared, shared))
    on_station = replace(on_station, esp_proposals="aes128gcm16-curve25519")
    gateway = replace(gateway, esp_proposals="aes128gcm16-curve25519")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        Caravan(network.sg, gateway).wait_ready()
        ms = station(network.ms, on_station, output).wait_ready()
        renew(ms)
        renew(ms, "--ike")
        renew(ms)
        ping(network.ms, SERVER_ADDRESS, 1)
        order(network.ms, "down", "road").check()
        ms.stop()
    opener = read(output)
    check_tshark(output, opener)
    assert opener.read[: len(logged(ms))] == logged(ms)
    assert len(logged(ms)) >= 10
    assert (opener.fragments > 0) == has_certificates


def crash(network: RemoteAccess, sg: Caravan, ms: Caravan) -> None:
    """The gateway is killed and runs again, and the station is back by its ticket."""
    sg.crash()
    Caravan(network.sg, sg.connection).wait_ready()
    settle(lambda: ping(network.ms, SERVER_ADDRESS, 1, timeout_s=1).received == 1, 30)
    assert ms.is_resumed()


def drain(network: RemoteAccess, sg: Caravan, ms: Caravan) -> None:
    """The gateway sends the station to another address of the host."""
    order(sg.host, "drain", "road", "--to", OTHER_ADDRESS).check()
    network.sg.add_address("wan0", f"{OTHER_ADDRESS}/24")
    settle(lambda: OTHER_ADDRESS in json.dumps(ms.status()["connections"][0]["sessions"]))


def cross(network: RemoteAccess, sg: Caravan, ms: Caravan) -> None:
    """Both ends begin a renewal before they hear of each other's."""
    # A busy machine may be late with one command.
    for _ in range(20):
        at_once(
            lambda: order(network.sg, "rekey", "road", "--ike").check(),
            lambda: order(network.ms, "rekey", "road").check(),
        )
        time.sleep(4 * SLOW_MS / 1000)
        if any("TEMPORARY_FAILURE" in words for words in logged(ms)):
            return


def nothing(network: RemoteAccess, sg: Caravan, ms: Caravan) -> None:
    """The tunnel is all."""


@dataclass(frozen=True)
class Part:
    """A part of IKEv2: what both ends have for it, what is done, and payloads that it is about.

    `pool`: lines of the gateway's pool. `held`: octets of some message. `inside`: who answers a
    ping through the tunnel. `answers`: what tshark shows of them. `has_ml_dsa`: both ends have keys
    of ML-DSA.
    """

    name: str
    change: Callable[[Connection], Connection]
    act: Callable[[RemoteAccess, Caravan, Caravan], None]
    payloads: tuple[str, ...]
    pool: str = ""
    held: bytes = b""
    inside: str = SERVER_ADDRESS
    answers: str = ANSWERS
    network: RemoteAccessConfig = PLAIN
    has_ml_dsa: bool = False

    def __str__(self) -> str:
        return self.name


SLOW_MS = 150
"""One way: mostly longer than one command begins after the other."""
PARTS = (
    Part(
        "another group",
        lambda it: replace(
            it, proposals=f"{SUITE},{SUITE_P256}" if it.remote_addrs else SUITE_P256
        ),
        nothing,
        ("N(INVALID_KE_PAYLOAD)",),
    ),
    Part(
        "crossing",
        lambda it: it,
        cross,
        ("N(TEMPORARY_FAILURE)",),
        network=RemoteAccessConfig(link=LinkConfig(delay=f"{SLOW_MS}ms")),
    ),
    Part(
        "domains",
        lambda it: it,
        nothing,
        ("CP",),
        pool='domains = ["corp.example"]\n',
        # INTERNAL_DNS_DOMAIN (RFC 8598 §3.1).
        held=b"\0\x19\0\x0ccorp.example",
    ),
    Part(
        "ipv6",
        lambda it: (
            replace(it, remote_ts=PRIVATE_NETWORK6)
            if it.remote_addrs
            else replace(it, local_ts=PRIVATE_NETWORK6, pool="fd99::/112")
        ),
        nothing,
        ("CP",),
        # INTERNAL_IP6_ADDRESS with the length of its prefix (RFC 7296 §3.15.1).
        held=b"\0\x08\0\x11\xfd\x99" + bytes(13) + b"\x01\x80",
        inside=SERVER_ADDRESS6,
        answers="esp && icmpv6.type == 129",
        network=RemoteAccessConfig(is_dual_stack=True),
    ),
    Part(
        "ah",
        lambda it: replace(it, ah_proposals="sha256"),
        lambda _network, _sg, ms: renew(ms),
        ("N(REKEY_SA)",),
        # AUTH_HMAC_SHA2_256_128.
        held=b"\x03\0\0\x08\x03\0\0\x0c",
        answers="ah && icmp.type == 0",
        # No NAT passes AH.
        network=RemoteAccessConfig(has_nat=False),
    ),
    Part(
        "ml-dsa",
        lambda it: it,
        nothing,
        ("CERT", "AUTH"),
        # Method 14, and the algorithm in DER: ML-DSA-44 (RFC 9881 §2).
        held=bytes.fromhex("0e0000000d300b0609608648016503040311"),
        has_ml_dsa=True,
    ),
    Part(
        "transport",
        lambda it: replace(it, mode="transport", local_ts="", remote_ts="", wants_address=False),
        nothing,
        ("N(USE_TRANSPORT_MODE)",),
        inside=GATEWAY_ADDRESS,
    ),
    Part(
        "childless",
        lambda it: replace(it, childless="prefer"),
        lambda _network, _sg, ms: renew(ms),
        ("N(CHILDLESS_IKEV2_SUPPORTED)",),
    ),
    Part(
        "followup",
        lambda it: replace(it, esp_proposals="aes128gcm16-curve25519-ke1_mlkem768"),
        lambda _network, _sg, ms: renew(ms),
        ("KE N(ADDITIONAL_KEY_EXCHANGE)",),
    ),
    Part(
        "resumption",
        lambda it: replace(it, resumption=True, crash_detection=True),
        crash,
        (
            *("N(TICKET_REQUEST)", "N(TICKET_LT_OPAQUE)", "N(TICKET_OPAQUE)"),
            "N(QUICK_CRASH_DETECTION)",
        ),
    ),
    Part(
        "redirect",
        lambda it: replace(it, redirect=(f"{OTHER_ADDRESS}/32",) if it.remote_addrs else None),
        drain,
        ("N(REDIRECT_SUPPORTED)", "N(REDIRECT)", "N(REDIRECTED_FROM)"),
    ),
)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_scapy_reads_the_messages_of_each_part(
    part: Part,
    keys: tuple[PublicKey, PublicKey],
    authority: CaravanAuthority,
    output: Path,
) -> None:
    if part.has_ml_dsa:
        keys = keys_of_ml_dsa(authority, output / "pki")
    both = Connection(keys[0], version=2, is_legacy=False, proposals=SUITE)
    gateway, on_station = map(part.change, road_warrior(both, keys))
    with RemoteAccess(part.network, output) as network:
        file = write_files(network.sg, gateway)
        file.write_text(file.read_text().replace("[pools.inner]\n", f"[pools.inner]\n{part.pool}"))
        sg = Caravan(network.sg, gateway, file=file).wait_ready()
        ms = station(network.ms, on_station, output).wait_ready()
        part.act(network, sg, ms)
        ping(network.ms, part.inside, 1)
        ms.stop()
    opener = check(part.payloads, ms, output, answers=part.answers)
    assert any(part.held in message for message in opener.messages)


def keys_of_ml_dsa(authority: CaravanAuthority, folder: Path) -> tuple[PublicKey, PublicKey]:
    """Of the gateway and of the station."""
    issue = [str(caravan_binary()), "pki", "issue", "--ca", str(authority.directory)]
    made = []
    for name in NAMES:
        argv = [*issue, "--name", name, "--ml-dsa", "44", "--out", str(folder)]
        subprocess.run(argv, check=True, capture_output=True)
        own = Credentials(folder / f"{name}.pem", folder / f"{name}.key", f"CN={name}")
        made.append(PublicKey(own, authority))
    gateway, on_station = made
    return gateway, on_station


def check(
    payloads: Iterable[str],
    ms: Caravan,
    output: Path,
    keys_before: Sequence[Keys] = (),
    answers: str = ANSWERS,
) -> Opener:
    """What scapy and tshark read is what our log says, and these payloads are among it."""
    opener = read(output, keys_before)
    check_tshark(output, opener, answers)
    assert lines_in(output / "ms.pcapng") == logged(ms)
    print("\n".join(opener.read))
    # The log leaves out what is not authentic, and probes.
    beside = {"N(INVALID_IKE_SPI) N(QUICK_CRASH_DETECTION)"}
    assert set(logged(ms)) <= set(opener.read) <= set(logged(ms)) | beside
    for words in payloads:
        assert any(words in message for message in opener.read), words
    return opener


@pytest.mark.parametrize(
    ("method", "is_alone"),
    [("mschapv2", False), ("tls", False), ("tls", True)],
    ids=["password", "tls", "tls-alone"],
)
def test_scapy_reads_the_messages_of_eap(
    method: str, is_alone: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    both = Connection(keys[0], version=2, is_legacy=False, proposals=SUITE)
    gateway, on_station = road_warrior(both, keys, (NAMES[0], NAMES[1] if method == "tls" else ""))
    user, password = ("", "") if is_alone else ("alice", "correct horse")
    gateway, on_station = (
        replace(end, auth=Eap(method, own, user, password, is_alone=is_alone))
        for end, own in zip((gateway, on_station), keys, strict=True)
    )
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        Caravan(network.sg, gateway).wait_ready()
        ms = station(network.ms, on_station, output).wait_ready()
        ping(network.ms, SERVER_ADDRESS, 1)
        ms.stop()
    first = ("N(EAP_ONLY_AUTHENTICATION)", "IDr EAP") if is_alone else ("IDr CERT AUTH EAP",)
    check(("EAP", *first), ms, output)


def test_scapy_reads_the_messages_of_a_move(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    both = Connection(keys[0], version=2, is_legacy=False, proposals=SUITE)
    gateway, on_station = road_warrior(both, keys)
    with RoamNetwork(output, addresses=2) as network:
        Caravan(network.sg, gateway).wait_ready()
        ms = station(network.ms, on_station, output).wait_ready()
        pinging = Pinging(network.ms)
        for place in (CELL, WIFI):
            pinging.gap(network.move(place))
        pinging.stop()
        ms.stop()
    payloads = ("MOBIKE_SUPPORTED", "ADDITIONAL_IP4_ADDRESS", "ADDITIONAL_IP6_ADDRESS")
    check((*payloads, "N(UPDATE_SA_ADDRESSES)", "N(COOKIE2)"), ms, output)


def test_scapy_reads_the_messages_of_a_gateway_that_asks_for_cookies(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    both = Connection(keys[0], version=2, is_legacy=False, proposals=SUITE)
    gateway, on_station = road_warrior(both, keys)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        sg = Caravan(network.sg, gateway).wait_ready()
        with station(network.ms, on_station, output) as ms:
            ms.wait_ready()
        first = next(datagrams(output / "ms.pcapng"))
        flood(network.server, first)
        settle(lambda: sg.status()["drops"]["cookie-asked"] > 0)
        ms = station(network.ms, on_station, output).wait_ready()
        ping(network.ms, SERVER_ADDRESS, 1)
        ms.stop()
    check(("N(COOKIE)", "N(COOKIE) SA KE No"), ms, output)


def flood(host: Host, first: bytes) -> None:
    """Send a first message again under so many SPIs that the gateway asks for cookies."""
    messages = [number.to_bytes(8, "big").hex() + first[8:].hex() for number in range(1, 201)]
    text = f"""import socket
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for message in {messages}:
    out.sendto(bytes.fromhex(message), ("{GATEWAY_LAN_ADDRESS}", 500))
"""
    host.run([sys.executable, "-c", text])


@needs(RELEASE)
@pytest.mark.parametrize("has_ppk", [False, True], ids=["plain", "ppk"])
def test_scapy_reads_the_messages_of_intermediate_exchanges(
    has_ppk: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    """Their keys are not the last ones: charon's log has them."""
    suite = "aes256gcm16-prfsha384-curve25519-ke1_mlkem768-ke2_mlkem1024"
    both = Connection(
        keys[0],
        version=2,
        is_legacy=False,
        proposals=suite,
        ppk=Ppk("fleet", PPK, is_required=False) if has_ppk else None,
    )
    gateway, on_station = road_warrior(both, keys)
    secrets = output / "secrets.log"
    log = f"filelog {{\n    secrets {{\n      path = {secrets}\n      ike = 4\n    }}\n  }}"
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        NewStrongSwan(network.sg, gateway, log)
        ms = station(network.ms, on_station, output).wait_ready()
        renew(ms, "--ike")
        ping(network.ms, SERVER_ADDRESS, 1)
        ms.stop()
    payloads = ("KE", "N(INTERMEDIATE_EXCHANGE_SUPPORTED)", "KE N(ADDITIONAL_KEY_EXCHANGE)")
    ppk = ("N(USE_PPK)", "N(PPK_IDENTITY)", "N(NO_PPK_AUTH)") if has_ppk else ()
    check((*payloads, *ppk), ms, output, keys_in(secrets.read_text()))


def keys_in(log: str) -> list[Keys]:
    """The keys that charon derived, in order; with an AEAD."""
    dump = r" secret => \d+ bytes @ \S+\n((?:.*\[IKE\] +\d+: .*\n)+)"

    def of(name: str) -> list[bytes]:
        lines = [found.splitlines() for found in re.findall(f"Sk_{name}{dump}", log)]
        # Sixteen octets a line, and then what they are as text.
        return [
            b"".join(bytes.fromhex(line.split(": ", 1)[1][:48]) for line in found)
            for found in lines
        ]

    return [Keys(pair, (b"", b"")) for pair in zip(of("ei"), of("er"), strict=True)]

"""What strongSwan's IKEv2 and wireguard-go really send before data, and at a move.

`python -m caravan.bench.tunnels [--wireguard PROGRAM]` brings each up between two namespaces
with no link between them but a veth, so times are those of the programs alone. A station sends an
echo, and then comes to a new address while it sends one every few milliseconds. Left out: their
throughput (`caravan.bench`), and loss.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from caravan.bench.wireguard import PORT, KeyPair, Peer, WireGuard
from caravan.testbed.capture import ETHER_TYPE_IPV4, ETHERNET_BYTES, IPPROTO_UDP, Frame
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.dot1x.exchange import Tap
from caravan.testbed.dot1x.measurement import Echoes
from caravan.testbed.errors import TimedOut
from caravan.testbed.host import Host
from caravan.testbed.isolation import enter
from caravan.testbed.network import Network
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import ping

STATION, MOVED, GATEWAY = "192.0.2.1", "192.0.2.3", "192.0.2.2"
INSIDE, BEHIND = "10.9.0.1", "10.9.1.1"
MTU_BYTES = 1500
IKE_PORTS = (500, 4500)
MARKER = bytes(4)
"""Of messages of IKE on port 4500 (RFC 3948 §2.2)."""
DATA = 4
"""WireGuard's type of a message with data; an empty one has 32 octets."""
EMPTY_BYTES = 32
ANSWER_S = 10.0
SECRET = SharedKey("a key of both ends, long enough to be none of a dictionary")
PROPOSALS = "aes128gcm16-prfsha256-x25519", "aes128gcm16"
"""Those of `exchanges/ikev2-psk.toml`."""


@dataclass(frozen=True)
class Message:
    """A message, in octets of its IP packet."""

    is_from_station: bool
    bytes: int


@dataclass(frozen=True)
class Measured:
    """What a tunnel took: its messages before data, the seconds from the first one to the answer of
    the first echo, and the longest silence of a move. `data`: the echo, a packet of 84 octets, and
    its answer, as they are on the wire."""

    name: str
    messages: tuple[Message, ...]
    data_s: float
    gap_s: float
    data: tuple[Message, ...] = ()

    @property
    def rounds(self) -> int:
        """How often the station has waited: answers of the gateway that follow a message of it."""
        ends = [False, *(one.is_from_station for one in self.messages)]
        return sum(before and not now for before, now in itertools.pairwise(ends))


class _Pair(Network):
    """Two hosts with one wire."""

    def __init__(self, output: Path) -> None:
        super().__init__(output)
        self.station, self.gateway = self.host("station"), self.host("gateway")
        self.station.connect("wan0", self.gateway, "wan0", MTU_BYTES)
        self.station.add_address("wan0", f"{STATION}/24")
        self.gateway.add_address("wan0", f"{GATEWAY}/24")
        # A round of ARP is none of a tunnel's.
        for one, address in ((self.station, GATEWAY), (self.gateway, STATION)):
            ping(one, address, 1)


@contextlib.contextmanager
def strongswan(pair: _Pair) -> Iterator[Callable[[], object]]:
    """charon at both ends; the result brings the tunnel up."""
    proposals, esp = PROPOSALS
    own, other = ("station.example", "gateway.example")
    at_station = Connection(
        SECRET,
        local_id=own,
        remote_id=other,
        proposals=proposals,
        esp_proposals=esp,
        remote_addrs=GATEWAY,
        remote_ts=f"{BEHIND}/32",
        wants_address=True,
        version=2,
    )
    at_gateway = Connection(
        SECRET,
        local_id=other,
        remote_id=own,
        proposals=proposals,
        esp_proposals=esp,
        local_ts=f"{BEHIND}/32",
        pool=f"{INSIDE}/32",
        version=2,
    )
    pair.gateway.add_address("lo", f"{BEHIND}/32")
    with StrongSwan(pair.gateway, at_gateway), StrongSwan(pair.station, at_station) as station:
        yield station.initiate


@contextlib.contextmanager
def wireguard(pair: _Pair, program: Path) -> Iterator[Callable[[], object]]:
    """wireguard-go at both ends; its handshake begins with the first packet."""
    keys = KeyPair.make(), KeyPair.make()
    hosts, outer, inner = (pair.station, pair.gateway), (STATION, GATEWAY), (INSIDE, BEHIND)
    argv = [str(program), "--foreground"]
    for own, other in ((0, 1), (1, 0)):
        host, interface = hosts[own], f"wg{host_number(hosts[own])}{'sg'[own]}"
        peer = Peer(keys[other].public, outer[other], f"{inner[other]}/32")
        WireGuard(host, argv, interface, keys[own], peer)
        host.add_address(interface, f"{inner[own]}/32")
        host.link_up(interface)
        host.run(["ip", "route", "replace", f"{inner[other]}/32", "dev", interface])
    yield lambda: None


def host_number(host: Host) -> str:
    """A part of an interface's name that no other testbed has."""
    return host.namespace[-6:]


def measured(name: str, pair: _Pair, bring_up: Callable[[], object]) -> Measured:
    """Brings a tunnel up, sends an echo, and moves the station."""
    with contextlib.closing(Tap(pair.station, "wan0", has_everything=True)) as tap:
        tap.read()
        bring_up()
        if not ping(pair.station, BEHIND, 1, timeout_s=ANSWER_S).received:
            raise TimedOut(f"{name}: nothing comes through its tunnel")
        frames = tap.read()
    first_s = min(one.time_s for one in frames if _message(one) is not None)
    told = [(one, _message(one)) for one in frames]
    data = [at for at, (one, it) in enumerate(told) if _is_data(one)]
    messages = tuple(it for _, it in told[: data[0]] if it is not None)
    # The echo and its answer are the first two packets of data.
    data_s = frames[data[1]].time_s - first_s
    echoes = tuple(_sized(frames[at]) for at in data[:2])
    return Measured(name, messages, data_s, _moved(pair), echoes)


def _moved(pair: _Pair) -> float:
    """The longest silence between two answers while the station changes its address."""
    with Echoes(pair.station, BEHIND) as echoes:
        echoes.wait_for_one(0.0)
        # Another prefix: the kernel takes the addresses of one away together.
        pair.station.add_address("wan0", f"{MOVED}/25")
        pair.station.remove_address("wan0", f"{STATION}/24")
        moved_s = time.time()
        echoes.wait_for_one(moved_s + 0.05)
        time.sleep(0.5)
        times = echoes.times()
    return max(after - before for before, after in itertools.pairwise(times))


def _udp(frame: Frame) -> tuple[tuple[int, int], bytes] | None:
    if frame.ether_type != ETHER_TYPE_IPV4 or frame.protocol != IPPROTO_UDP:
        return None
    return struct.unpack_from("!HH", frame.payload), frame.payload[8:]


def _is_data(frame: Frame) -> bool:
    found = _udp(frame)
    if found is None:
        return False
    ports, payload = found
    if PORT in ports:
        return payload[0] == DATA and len(payload) > EMPTY_BYTES
    return IKE_PORTS[1] in ports and payload[:4] != MARKER and len(payload) > 1


def _message(frame: Frame) -> Message | None:
    """A message of a key exchange; WireGuard's empty one belongs to it."""
    found = _udp(frame)
    if found is None or _is_data(frame):
        return None
    ports, payload = found
    if not set(ports) & {PORT, *IKE_PORTS} or len(payload) <= 1:
        return None
    return _sized(frame)


def _sized(frame: Frame) -> Message:
    is_own = frame.data[ETHERNET_BYTES + 12 :][:4] == bytes(map(int, STATION.split(".")))
    return Message(is_own, len(frame.data) - ETHERNET_BYTES)


def measure(output: Path, program: Path | None = None) -> Sequence[Measured]:
    """strongSwan, and wireguard-go if its program is there; in a private namespace."""
    found = []
    with _Pair(output / "ikev2") as pair, strongswan(pair) as up:
        found.append(measured("strongswan ikev2", pair, up))
    if program is not None:
        with _Pair(output / "wireguard") as pair, wireguard(pair, program) as up:
            found.append(measured("wireguard-go", pair, up))
    return found


def main(
    wireguard: Annotated[Path | None, typer.Option(help="wireguard-go's program")] = None,
) -> None:
    """Print what each tunnel takes, as JSON."""
    enter()
    with tempfile.TemporaryDirectory(prefix="caravan-tunnels-") as folder:
        for one in measure(Path(folder), wireguard):
            print(json.dumps({**asdict(one), "rounds": one.rounds}))


if __name__ == "__main__":
    typer.run(main)

"""The cost of one policy on the paper's network: handshake, bytes on the wire, rate, delay, CPU.

Transport mode as in the paper: the client talks to the gateway's own address, which forwards
published ports to the server inside. `none` takes the same path unencrypted, as the gateway's
configuration says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from caravan.testbed.capture import (
    IPPROTO_AH,
    IPPROTO_ESP,
    IPPROTO_ICMP,
    Capture,
    Frame,
)
from caravan.testbed.caravan import Caravan, HandshakeMessage
from caravan.testbed.connection import Connection, PublicKey, Published
from caravan.testbed.headers import datagram_headers_bytes
from caravan.testbed.host import Host
from caravan.testbed.pki import Authority, CaravanAuthority
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    INNER_POOL,
    PRIVATE_NETWORK,
    SERVER_ADDRESS,
    RemoteAccess,
)
from caravan.testbed.traffic import IPERF_PORT, iperf, ping

SIZES_BYTES = (64, 480)
"""IP packets whose size on the wire is shown: the paper's example and its mean."""
PUBLISHED_HTTP_PORT = 8080
IKE_PROPOSAL = "aes128-sha256-modp2048"
ROUND_TRIPS = 50
PROBES = 3
"""Pings per size: other packets between them have other sizes."""
CLEAR = "none"


class Keys(NamedTuple):
    """Certificates of both ends."""

    gateway: PublicKey
    station: PublicKey

    @classmethod
    def make(cls, directory: Path) -> Keys:
        """Make an authority in this directory, and a certificate for each end."""
        return cls.of(CaravanAuthority(directory))

    @classmethod
    def of(cls, authority: Authority) -> Keys:
        """A new certificate of this authority for each end."""
        return cls(
            PublicKey(authority.issue("sg.example"), authority),
            PublicKey(authority.issue("ms.example"), authority),
        )


@dataclass(frozen=True)
class Cost:
    """The measurements of one policy; `wire_bytes` by size of the clear packet.

    `cpu_s_per_gb`: both daemons, all threads. None: it does not exist without protection.
    """

    policy: str
    handshake_ms: float | None
    wire_bytes: dict[int, int]
    mbit_s: float
    rtt_ms: float
    cpu_s_per_gb: float | None


def transport_ends(
    keys: Keys, esp_proposals: str = "", *, version: int = 2
) -> tuple[Connection, Connection]:
    """Gateway and client of the paper's setup, with published ports; it has `version=1`, where six
    messages with PFS set it up."""
    gateway = replace(
        _gateway(keys, esp_proposals, version),
        mode="transport",
        publish=(
            Published(PUBLISHED_HTTP_PORT, f"{SERVER_ADDRESS}:80"),
            Published(IPERF_PORT, f"{SERVER_ADDRESS}:{IPERF_PORT}"),
        ),
    )
    return gateway, _station_of(gateway, keys)


def tunnel_ends(
    keys: Keys, esp_proposals: str = "", *, version: int = 2
) -> tuple[Connection, Connection]:
    """Gateway and client with an inner address; IKEv1 has two more messages for it."""
    gateway = replace(_gateway(keys, esp_proposals, version), local_ts=PRIVATE_NETWORK)
    station = _station_of(gateway, keys)
    return gateway, replace(station, wants_address=True, remote_ts=PRIVATE_NETWORK)


def _gateway(keys: Keys, esp_proposals: str, version: int) -> Connection:
    """What every gateway has: with IKEv1 aggressive mode, with IKEv2 what the program offers by
    itself."""
    is_old = version == 1
    return Connection(
        keys.gateway,
        local_id="sg.example",
        version=version,
        is_aggressive=is_old,
        is_legacy=is_old,
        proposals=IKE_PROPOSAL if is_old else "",
        esp_proposals=esp_proposals,
        pool=INNER_POOL,
    )


def _station_of(gateway: Connection, keys: Keys) -> Connection:
    return replace(
        gateway,
        auth=keys.station,
        local_id="ms.example",
        remote_id="sg.example",
        remote_addrs=GATEWAY_ADDRESS,
        local_ts="",
        pool="",
        publish=(),
    )


def measure(network: RemoteAccess, keys: Keys, policy: str, seconds: int, output: Path) -> Cost:
    """Set the policy up, measure it with `seconds` of TCP, take it down."""
    if policy == CLEAR:
        with Caravan(network.sg, transport_ends(keys, CLEAR, version=1)[0]) as forwarder:
            forwarder.wait_ready()
            return _measure(network, policy, (), seconds, output)
    gateway, station = transport_ends(keys, f"{policy}-modp2048", version=1)
    with Caravan(network.sg, gateway) as responder:
        responder.wait_ready()
        with Caravan(network.ms, station) as initiator:
            initiator.wait_ready()
            cost = _measure(network, policy, (responder, initiator), seconds, output)
            return replace(cost, handshake_ms=handshake_ms(initiator))


def handshake_ms(initiator: Caravan) -> float | None:
    """From the first message to the last of quick mode, as the initiator logged them."""
    return elapsed_ms(initiator.handshake())


def elapsed_ms(messages: Sequence[HandshakeMessage]) -> float | None:
    """From the first of these messages to the last."""
    if not messages:
        return None
    return (messages[-1].time_s - messages[0].time_s) * 1000


def _measure(
    network: RemoteAccess, policy: str, daemons: Sequence[Caravan], seconds: int, output: Path
) -> Cost:
    is_clear = policy == CLEAR
    wire_bytes = {
        size: wire_size(
            network.ms,
            network.outer,
            GATEWAY_ADDRESS,
            (GATEWAY_ADDRESS, size),
            output / f"{policy}-{size}.pcap",
            is_clear=is_clear,
        )
        for size in SIZES_BYTES
    }
    rtt = ping(network.ms, GATEWAY_ADDRESS, ROUND_TRIPS, 0.01)
    before = sum(daemon.cpu_s() for daemon in daemons)
    flow = iperf(
        network.ms, network.server, GATEWAY_ADDRESS, seconds, reverse=True, bind=SERVER_ADDRESS
    )
    spent = sum(daemon.cpu_s() for daemon in daemons) - before
    per_gb = spent / (flow.received_bytes / 1e9) if daemons else None
    return Cost(policy, None, wire_bytes, flow.mbit_s, rtt.mean_ms, per_gb)


def wire_size(
    station: Host,
    seen: tuple[Host, str],
    gateway: str,
    probe: tuple[str, int],
    path: Path,
    *,
    is_clear: bool,
) -> int:
    """Bytes of the IP packet that carries a clear one of a size to an address: the `probe`.

    `seen` is a host and its interface on the link to the gateway, whose address there is
    `gateway`; `path` is the capture's. Only the pings count, not IKE messages or other packets.
    """
    address, size = probe
    headers = datagram_headers_bytes(address)
    with Capture(*seen, path) as capture:
        ping(station, address, PROBES, 0.05, payload_bytes=size - headers)
    return probe_size([frame for frame in capture.frames() if frame.source != gateway], is_clear)


def probe_size(sent: Sequence[Frame], is_clear: bool) -> int:
    """The size of the probes among these frames: most of them must be there, and all be equal."""
    sizes = Counter(len(frame.packet) for frame in sent if _carries(frame, is_clear))
    for size, times in sizes.most_common(1):
        if times > PROBES / 2:
            return size
    seen = ", ".join(f"{times} of {size}" for size, times in sorted(sizes.items())) or "none"
    raise ValueError(f"{PROBES} probes were sent, and the outer link carried, by bytes: {seen}")


def _carries(frame: Frame, is_clear: bool) -> bool:
    if is_clear:
        return frame.protocol == IPPROTO_ICMP or frame.is_echo6
    return frame.is_udp_esp or frame.protocol in (IPPROTO_ESP, IPPROTO_AH)

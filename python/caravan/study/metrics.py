"""The metrics of results: unit, and words for axes and tables.

A metric of one station is written `name:station`, as `utilisation:ms`; one of a flow
`name:flow`, as `throughput_kbps:ms2 down`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric of a result row."""

    unit: str
    label: str


@dataclass(frozen=True)
class Measure:
    """One metric of a cell. `reading` is set if a cell has several metrics of one name."""

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    state: str = ""
    reading: str = ""
    bound: str = ""
    """`lower` or `upper` if only the bytes of the underlying work have a cost."""
    policy: str | None = None
    """The policy of the flow or tunnel of a graph; None: that of the cell."""
    reason: str | None = None
    """Why it has no value."""


METRICS = {
    "operations": Metric("", "Operations"),
    "cycles": Metric("", "Processor cycles"),
    "time_ms": Metric("ms", "Processing time"),
    "protected_bytes": Metric("bytes", "Protected packet"),
    "payload_ratio": Metric("", "Payload ratio R"),
    "energy_uj": Metric("uJ", "Energy"),
    "mean_delay_ms": Metric("ms", "Mean end-to-end delay"),
    "p50_delay_ms": Metric("ms", "Median delay"),
    "p95_delay_ms": Metric("ms", "95th percentile of delay"),
    "p99_delay_ms": Metric("ms", "99th percentile of delay"),
    "throughput_kbps": Metric("kbit/s", "Throughput, clear"),
    "protected_kbps": Metric("kbit/s", "Protected data rate"),
    "user_kbps": Metric("kbit/s", "Throughput of user data"),
    "throughput_pps": Metric("packets/s", "Throughput in packets"),
    "packets": Metric("packets", "Packets simulated"),
    "wait_ms": Metric("ms", "Mean wait"),
    "queue_bytes": Metric("bytes", "Mean clear data waiting"),
    "utilisation": Metric("", "Utilisation"),
    "capacity_kbps": Metric("kbit/s", "Capacity of the path, clear"),
    "cpu_capacity_kbps": Metric("kbit/s", "Capacity of the processor, clear"),
    "carried_kbps": Metric("kbit/s", "Highest stable rate of the grid"),
    "mean_packet_bytes": Metric("bytes", "Mean packet"),
    "handshake_ms": Metric("ms", "Handshake"),
    "handshake_messages": Metric("messages", "Messages of the handshake"),
    "handshake_bytes": Metric("bytes", "Handshake on the wire"),
    "wire_bytes_64": Metric("bytes", "A packet of 64 bytes on the wire"),
    "wire_bytes_480": Metric("bytes", "A packet of 480 bytes on the wire"),
    "rounds": Metric("", "Rounds before data"),
    "messages": Metric("messages", "Messages"),
    "message_bytes": Metric("bytes", "Messages on the wire"),
    "data_bytes": Metric("bytes", "A data packet on the wire"),
    "move_bytes": Metric("bytes", "Messages of a move"),
    "standing": Metric(
        "", "Standing: 0 must not, 1 should not, 2 unjudged, 3 allowed, 4 recommended"
    ),
    "byte_ns": Metric("ns", "Processor time for a byte"),
    "first_sent_ms": Metric("ms", "Until the first data may leave"),
    "gap_ms": Metric("ms", "Handover gap"),
    "rtt_ms": Metric("ms", "Round trip"),
    "user_kbytes_s": Metric("KB/s", "User data"),
    "tcp_kbps": Metric("kbit/s", "TCP throughput"),
    "tcp_kbytes_s": Metric("KB/s", "TCP throughput"),
    "timeouts": Metric("", "Timeouts of TCP"),
    "reachable_ms": Metric("ms", "Until a node is reachable"),
    "eap_start_ms": Metric("ms", "Until the access point asks"),
    "eap_ms": Metric("ms", "Access by 802.1X"),
    "discovery_ms": Metric("ms", "Until an agent is found"),
    "registration_ms": Metric("ms", "Registration of Mobile IP"),
    "key_exchange_ms": Metric("ms", "Key exchange of the tunnel"),
    "transport_ms": Metric("ms", "Handshake of TLS"),
    "authentication_ms": Metric("ms", "Authentication"),
    "access_frames": Metric("frames", "Frames of 802.1X"),
    "access_bytes": Metric("bytes", "Frames of 802.1X, without link headers"),
    "radius_packets": Metric("packets", "Packets of RADIUS"),
    "radius_bytes": Metric("bytes", "Packets of RADIUS"),
    "sent_packets": Metric("packets", "Packets sent"),
    "received_packets": Metric("packets", "Packets received"),
    "missing_packets": Metric("packets", "Packets that never came"),
    "authentication_s": Metric("s", "Authentication"),
    "computing_s": Metric("s", "Work of this machine in the authentication"),
    "apart_percent": Metric("%", "Authentication, computed less measured"),
    "discovery_s": Metric("s", "Until a node that may send asks for its registration"),
    "harness_s": Metric("s", "What the testbed itself took"),
    "harness_ms": Metric("ms", "What the testbed itself took"),
    "setup_ms": Metric("ms", "From the start of the program until the tunnel is up"),
    "computing_ms": Metric("ms", "Work of this machine"),
    "tcp_bytes_s": Metric("bytes/s", "TCP throughput"),
    "udp_bytes_s": Metric("bytes/s", "UDP throughput"),
    "tcp_cost_bytes_s": Metric("bytes/s", "TCP throughput lost"),
    "udp_cost_bytes_s": Metric("bytes/s", "UDP throughput lost"),
    "response_ms": Metric("ms", "Response time by TCP, its first round trip"),
    "udp_response_ms": Metric("ms", "Response time by UDP, a datagram that comes back"),
    "ipsec_cpu_ns_byte": Metric("ns", "Processor time of IPsec for a byte"),
    "link_cpu_ns_byte": Metric("ns", "Processor time of the wireless link for a byte"),
    "cipher_cpu_ns_byte": Metric("ns", "Processor time of the link cipher for a byte"),
    "reports": Metric("", "Reports of packets that are too large"),
    "wire_packets": Metric("packets", "Packets on the wire for a datagram or a segment"),
    "wire_bytes": Metric("bytes", "Bytes of IP on the wire for a datagram or a segment"),
    "link_mbit_s": Metric("Mbit/s", "Data that the wire carries"),
    "cpu_mbit_s": Metric("Mbit/s", "Data that the processor carries"),
    "data_mbit_s": Metric("Mbit/s", "Throughput of data"),
    "cycles_byte": Metric("", "Processor cycles for a byte of data"),
    "cpu_percent": Metric("%", "Processor of one host"),
    "peak_bytes": Metric("bytes", "Datagram that the wire carries fastest"),
    "whole_bytes": Metric("bytes", "Largest datagram in one packet"),
    "satisfies": Metric("", "Option satisfies objective"),
    "counters": Metric("", "Objective counters threat"),
    "steps": Metric("", "Steps of a function of AAA"),
    "objectives": Metric("", "Security objectives"),
    "path_bytes": Metric("bytes", "What the path was found to carry"),
    "headers": Metric("", "Headers as printed"),
    "bytes": Metric("bytes", "Part of a packet"),
    "value": Metric("", "Value"),
}

AXES = {
    "policy": Metric("", "Security policy"),
    "device": Metric("", "Device"),
    "link": Metric("", "Link"),
    "mips": Metric("MIPS", "Processor"),
    "rate_kbps": Metric("kbit/s", "Clear data rate"),
    "packet_bytes": Metric("bytes", "Packet size"),
    "reading": Metric("", "Reading"),
}
"""Columns of the results that a grid may vary."""

AXIS_KEYS = {
    "policy": "policy",
    "rate_kbps": "traffic.rate",
    "packet_bytes": "traffic.sizes.bytes",
}
"""Axes whose key is the same in every scenario; those of nodes and links follow the topology."""

NUMERIC_AXES = ("mips", "rate_kbps", "packet_bytes")

DIVERGES = "not-stationary"
"""The state of a point where queues grow without bound."""
NEAR = "near-saturation"
"""The state of a point whose mean would still change in longer runs."""
APPROXIMATION = "approximation"
"""The state of a closed form that is used beyond what was proved."""
WITHOUT_MEAN = ("mean_delay_ms", "wait_ms", "queue_bytes")
"""Metrics without a value where queues grow without bound."""
OF_THE_PATH = ("capacity_kbps", "cpu_capacity_kbps", "mean_packet_bytes", "user_kbytes_s", "rtt_ms")
"""Metrics that do not depend on the offered rate."""
WITHOUT_RATE = (*OF_THE_PATH, "carried_kbps")
"""Metrics with one value for all rates of a grid."""
ONE_FOR_ALL = {"rate_kbps": WITHOUT_RATE, "packet_bytes": ("peak_bytes", "whole_bytes")}
"""Metrics with one value for all values of an axis, by axis."""


LOWER = "lower"
"""The bound of a value that may be larger: the time of work of which only the bytes have a cost,
and everything that follows from it."""
UPPER = "upper"
"""The bound of a value that may be smaller: a rate that such work permits."""
MORE_WITH_WORK = (
    "time_ms",
    "byte_ns",
    "operations",
    "cycles",
    "cycles_byte",
    "cpu_percent",
    "energy_uj",
    "handshake_ms",
    "rtt_ms",
    "first_sent_ms",
    "gap_ms",
    "reachable_ms",
    "missing_packets",
    "eap_start_ms",
    "eap_ms",
    "discovery_ms",
    "registration_ms",
    "key_exchange_ms",
    "authentication_ms",
    "authentication_s",
    "response_ms",
    "udp_response_ms",
)
OF_HANDSHAKE = ("handshake_ms", "handshake_messages", "handshake_bytes")
AT_STATION = ("utilisation", "wait_ms", "queue_bytes")
LESS_WITH_WORK = (
    "capacity_kbps",
    "cpu_capacity_kbps",
    "cpu_mbit_s",
    "data_mbit_s",
    "carried_kbps",
    "throughput_kbps",
    "throughput_pps",
    "protected_kbps",
    "tcp_kbps",
    "tcp_kbytes_s",
    "user_kbytes_s",
    "received_packets",
    "tcp_bytes_s",
    "udp_bytes_s",
)
BOUND_WORDS = {LOWER: "at least", UPPER: "at most"}
BOUNDS_SAY = (
    "These devices have a cost per byte but no cost per packet. Times are lower bounds, rates are "
    "upper bounds."
)
UNWORKED_SAY = "Times that the work of a machine is missing in are lower bounds."


def bound(metric: str, stations: Collection[str]) -> str:
    """The direction of a value's error if only the bytes of the work of `stations` have a cost;
    empty: none."""
    name, _, station = metric.partition(":")
    if not stations or (name in AT_STATION and station not in stations):
        return ""
    if name in (*MORE_WITH_WORK, *AT_STATION) or name.endswith("_delay_ms"):
        return LOWER
    return UPPER if name in LESS_WITH_WORK else ""


def needs_mean(metric: str) -> bool:
    """Whether it has no value where queues grow without bound."""
    return metric.partition(":")[0] in WITHOUT_MEAN or metric.endswith("_delay_ms")


def describe(metric: str) -> Metric:
    """Unit and words of `metric`: of a packet's part, a station, a flow or the whole path."""
    name, _, place = metric.partition(":")
    known = METRICS[name]
    between = " at " if name in (*AT_STATION, *OF_HANDSHAKE) else ": "
    return Metric(known.unit, f"{known.label}{between}{place}" if place else known.label)


def is_known(metric: str) -> bool:
    """Whether results can contain it."""
    return metric.partition(":")[0] in METRICS


def heading(name: str) -> str:
    """Words and unit of a metric or an axis, for an axis or a column of a table."""
    known = AXES.get(name) or describe(name)
    return f"{known.label}, {known.unit}" if known.unit else known.label

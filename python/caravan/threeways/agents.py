"""Measures how long the ten steps of tunnel agents take, by part, with the real agents and Caravan
at both ends of the tunnel, in namespaces.

One wire is a link's (`caravan link`): Client's, or for what Host and Target say to each other,
Target's. All others are as fast as they can. Parts are told by the kernel's times of messages where
they leave and where they come:

```
     Client              Host              Target
  work |---- Request ----->| work            |
       |                   |---- Inquiry --->| work
       |                   |<--- Offer ------|
       |                   |---- Referral -->| work: database, certificate, its end
       |                   |<- Authorization-|
       |<--- Response -----| work            |
  work |------------------ IKE ------------->|
```

So what messages take on the wires and what the programs and databases take are told apart. A relay
that lets a message go later than it is due is the testbed's own time, and in neither. Left out:
what Target does after the tunnel is up.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from caravan.testbed.agents import (
    CLIENT_ADDRESS,
    HOST_ADDRESS,
    PORT,
    TARGET_ADDRESS,
    Agent,
    AgentFiles,
    AgentNetwork,
    agent,
    gateway,
    prepare,
)
from caravan.testbed.capture import ETHER_TYPE_IPV4, IPPROTO_UDP, Frame
from caravan.testbed.dot1x.exchange import Tap
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host
from caravan.testbed.relay import Late, LinkConfig, Relay, lateness_s
from caravan.threeways.cases import Value
from caravan.threeways.hosts import mean

CLIENT_HOST, HOST_TARGET = "agent-client-host", "agent-host-target"
IKE, STEPS = "agent-ike", "agent-steps"
PARTS = (CLIENT_HOST, HOST_TARGET, IKE, STEPS)
"""What a cell measures; the last one is the whole, and the work in it."""
WIRE, MORE_FRAGMENTS, OFFSET = "wan0", 0x2000, 0x1FFF
START = b"CTA\x03"
REQUEST, REFERRAL, AUTHORIZATION, RESPONSE, INQUIRY, OFFER = 1, 3, 4, 5, 6, 7
"""Kinds of messages: docs/design/agents.md."""
IKE_PORTS = (500, 4500)
MARKER = bytes(4)
"""Before a message of IKE on the second port (RFC 3948 §2.2)."""
UP_S = 90.0
"""Longer than Client asks; over the slowest link a tunnel is up much sooner."""


@dataclass(frozen=True)
class Setting:
    """A cell: a part, a link, and how often it is measured."""

    part: str
    link: LinkConfig
    runs: int

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """From a study's request."""
        return cls(request["part"], LinkConfig.of(request["link"]), request["runs"])

    @property
    def relayed(self) -> str:
        """Whose wire has the link."""
        return "target" if self.part == HOST_TARGET else "client"


@dataclass(frozen=True)
class Message:
    """One datagram on a wire: when its first fragment and when its last one passed. `kind`: of an
    agent's message; None: of IKE."""

    kind: int | None
    source: str
    destination: str
    first_s: float
    last_s: float
    size_bytes: int
    """Of its IP packets."""


@dataclass(frozen=True)
class Part:
    """Messages on their way: how long it took them, without what the relay was late."""

    seconds: float
    messages: int
    size_bytes: int
    late_s: float


@dataclass(frozen=True)
class Run:
    """One tunnel. `work`: what each program took, in seconds; `late_s`: the relay, in all of it."""

    parts: Mapping[str, Part]
    work: Mapping[str, float]
    whole_s: float
    late_s: float


class Beds:
    """Agents that run for cells to come; the relay is of one link at a time. A context manager."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._bed: Bed | None = None
        self._count = 0
        self._runs: dict[tuple[str, LinkConfig, int], list[Run]] = {}

    def measure(self, setting: Setting) -> list[dict[str, Any]]:
        """The metrics of a cell. The process must have entered a private namespace."""
        key = setting.relayed, setting.link, setting.runs
        if key not in self._runs:
            bed = self._of(setting.relayed)
            self._runs[key] = list(bed.runs(setting.link, setting.runs))
        return [asdict(value) for value in values(setting.part, self._runs[key])]

    def _of(self, relayed: str) -> Bed:
        if self._bed is None or self._bed.relayed != relayed:
            self.close()
            self._count += 1
            self._bed = Bed(self._output / str(self._count), relayed)
        return self._bed

    def close(self) -> None:
        """End all agents."""
        bed, self._bed = self._bed, None
        if bed is not None:
            bed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Bed:
    """Host's and Target's agents, with a gateway at Target, and taps at all three machines."""

    def __init__(self, output: Path, relayed: str) -> None:
        self.relayed = relayed
        self._folder = output / "folder"
        self._folder.mkdir(parents=True)
        self._sheets = itertools.count(1)
        self._ends = contextlib.ExitStack()
        try:
            self._start(output)
        except BaseException:
            self._ends.close()
            raise

    def _start(self, output: Path) -> None:
        self._network = self._ends.enter_context(AgentNetwork(output, relayed=self.relayed))
        network = self._network
        # Nobody can be reached before a relay runs; messages begin after that. The paper's IKE is
        # IKEv1, and so are the exchanges that the model computes.
        prepare(network, self._folder, self._target_end, files=AgentFiles(version=1))
        self._target = self._ends.enter_context(self._agent("target", network.target))
        hosts = (network.client, network.keeper, network.target)
        self._taps = [
            self._ends.enter_context(Tap(host, WIRE, has_everything=True)) for host in hosts
        ]

    def _agent(self, role: str, host: Host) -> Agent:
        return Agent(host, role, "-c", f"{self._folder}/{role}.toml").wait_ready()

    def _target_end(self) -> list[str]:
        (self._folder / "tunnels").mkdir(mode=0o700)
        self._ends.enter_context(gateway(self._network.target, self._folder))
        return ['connection = "idle"', 'folder = "tunnels"']

    def runs(self, link: LinkConfig, count: int) -> Iterator[Run]:
        """So many tunnels over a link, each by a key of its own."""
        sheet = self._folder / f"sheet-{next(self._sheets)}.txt"
        words = ("--user", "alice", "--count", str(count), "--out", str(sheet))
        agent(self._network.keeper, "issue", "-c", f"{self._folder}/host.toml", *words).check()
        ends = ("client", "net") if self.relayed == "client" else ("net", "target")
        relay = Relay(self._network.air, link, *ends, has_lateness=True)
        try:
            for key in range(1, count + 1):
                # One that has run before knows Target's options, and does not ask for them.
                with self._agent("host", self._network.keeper):
                    yield self._run(relay, sheet, key)
        finally:
            relay.process.stop()

    def _run(self, relay: Relay, sheet: Path, key: int) -> Run:
        for tap in self._taps:
            tap.read()
        relay.forget_late()
        words = ("--user", "alice", "--sheet", str(sheet), "--key", str(key), "--lifetime", "10m")
        began_s = time.time()
        with Agent(self._network.client, "client", *words) as client:
            handle = client.wait_for("up", UP_S).fields["key"]
            self._await("up", handle)
            up_s = client.logged_s("up")
            told = [messages(tap.read()) for tap in self._taps]
            late = relay.late()
        client.process.wait(UP_S).check()
        self._await("ended", handle)
        station = self._station().hardware_address(WIRE)
        return seen(told, (began_s, up_s), late, station)

    def _await(self, step: str, handle: str) -> None:
        """Wait until Target has done a step with a key. A tunnel that ends before Target has seen
        it up is taken down after minutes."""

        def is_done() -> bool:
            events = self._target.events()
            return any((one.step, one.fields["key"]) == (step, handle) for one in events)

        self._target.process.wait_for(is_done, f"{step} at Target", UP_S)

    def _station(self) -> Host:
        return self._network.client if self.relayed == "client" else self._network.target

    def close(self) -> None:
        """End all of it."""
        self._ends.close()


def messages(frames: Sequence[Frame]) -> list[Message]:
    """The agents' messages and those of IKE among frames, in the order in which they began."""
    begun: dict[tuple[str | None, str | None, int], int] = {}
    found: list[Message] = []
    for frame in frames:
        if frame.ether_type != ETHER_TYPE_IPV4 or frame.protocol != IPPROTO_UDP:
            continue
        packet = frame.packet
        place = int.from_bytes(packet[6:8], "big")
        key = frame.source, frame.destination, int.from_bytes(packet[4:6], "big")
        if place & OFFSET:
            if (at := begun.get(key)) is not None:
                found[at] = _longer(found[at], frame)
            continue
        kind = _kind(frame.payload)
        if kind is None:
            continue
        if place & MORE_FRAGMENTS:
            begun[key] = len(found)
        source, destination = str(frame.source), str(frame.destination)
        times = frame.time_s, frame.time_s
        found.append(Message(kind or None, source, destination, *times, len(packet)))
    return found


def _longer(message: Message, frame: Frame) -> Message:
    size_bytes = message.size_bytes + len(frame.packet)
    first_s, last_s = message.first_s, frame.time_s
    ends = message.source, message.destination
    return Message(message.kind, *ends, first_s, last_s, size_bytes)


def _kind(datagram: bytes) -> int | None:
    """The kind of an agent's message, 0 of IKE, None of anything else."""
    ports = [int.from_bytes(datagram[at : at + 2], "big") for at in (0, 2)]
    payload = datagram[8:]
    if PORT in ports and payload.startswith(START):
        return payload[len(START)]
    if IKE_PORTS[0] in ports or (IKE_PORTS[1] in ports and payload.startswith(MARKER)):
        return 0
    return None


@dataclass(frozen=True)
class Way:
    """A message where it left and where it came."""

    left: Message
    came: Message

    @property
    def span(self) -> tuple[float, float]:
        """From its first fragment there to its last one here."""
        return self.left.first_s, self.came.last_s


def seen(
    told: Sequence[Sequence[Message]],
    whole: tuple[float, float],
    late: Sequence[Late],
    station: str,
) -> Run:
    """A tunnel by what three taps have told: at Client, Host and Target. `whole`: when Client's
    agent was started, and when it said that the tunnel is up."""
    client, host, target = told
    began_s, up_s = whole
    asked = way(REQUEST, client, host, CLIENT_ADDRESS)
    inquired = way(INQUIRY, host, target, HOST_ADDRESS)
    offered = way(OFFER, target, host, TARGET_ADDRESS)
    referred = way(REFERRAL, host, target, HOST_ADDRESS)
    authorized = way(AUTHORIZATION, target, host, TARGET_ADDRESS)
    answered = way(RESPONSE, host, client, HOST_ADDRESS)
    ike = negotiation(client, target, up_s)
    agreeing_s = ike[0].left.first_s, up_s
    parts = {
        CLIENT_HOST: (asked, answered),
        HOST_TARGET: (inquired, offered, referred, authorized),
        IKE: ike,
    }
    found = {name: _part(ways, late, station) for name, ways in parts.items()}
    on_the_way_s = found[IKE].seconds + found[IKE].late_s
    return Run(
        found,
        {
            "client": _between((began_s, began_s), asked.span, answered.span, agreeing_s),
            "host": _between(
                asked.span,
                inquired.span,
                offered.span,
                referred.span,
                authorized.span,
                answered.span,
            ),
            "target": _between(inquired.span, offered.span, referred.span, authorized.span),
            "ike": up_s - agreeing_s[0] - on_the_way_s,
        },
        up_s - began_s,
        sum(one.late_s for one in found.values()),
    )


def way(kind: int, there: Sequence[Message], here: Sequence[Message], source: str) -> Way:
    """The first message of a kind and of a sender, where it left and where it came."""
    ends = [
        next((one for one in side if (one.kind, one.source) == (kind, source)), None)
        for side in (there, here)
    ]
    left, came = ends
    if left is None or came is None:
        raise NamespaceError(f"the agents' message {kind} of {source} was not seen on its way")
    return Way(left, came)


def negotiation(client: Sequence[Message], target: Sequence[Message], up_s: float) -> list[Way]:
    """The messages of IKE up to the last one for which Client waits."""
    # One of Client's last messages may still be on its way, so the lengths differ.
    there, here = _ike_of(client, CLIENT_ADDRESS), _ike_of(target, CLIENT_ADDRESS)
    to_target = [Way(left, came) for left, came in zip(there, here, strict=False)]
    there, here = _ike_of(target, TARGET_ADDRESS), _ike_of(client, TARGET_ADDRESS)
    to_client = [Way(left, came) for left, came in zip(there, here, strict=False)]
    waited = [one for one in to_client if one.came.last_s <= up_s]
    if not waited or not to_target:
        raise NamespaceError("the messages of IKE were not seen on their way")
    last_s = waited[-1].left.first_s
    ways = [*waited, *(one for one in to_target if one.came.last_s <= last_s)]
    return sorted(ways, key=_left_s)


def _ike_of(side: Sequence[Message], source: str) -> list[Message]:
    return [one for one in side if one.kind is None and one.source == source]


def _left_s(one: Way) -> float:
    return one.left.first_s


def _part(ways: Sequence[Way], late: Sequence[Late], station: str) -> Part:
    covered = _covered([one.span for one in ways])
    late_s = sum(lateness_s(late, station, *span) for span in covered)
    seconds = sum(last_s - first_s for first_s, last_s in covered)
    size_bytes = sum(one.left.size_bytes for one in ways)
    return Part(seconds - late_s, len(ways), size_bytes, late_s)


def _covered(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times in which a message is on its way: two that leave together, or a repeated one, are
    beside each other."""
    found: list[tuple[float, float]] = []
    for first_s, last_s in sorted(spans):
        if found and first_s <= found[-1][1]:
            found[-1] = found[-1][0], max(last_s, found[-1][1])
        else:
            found.append((first_s, last_s))
    return found


def _between(*spans: tuple[float, float]) -> float:
    """A program's time: from the end of each first span to the begin of the one after it."""
    pairs = zip(spans[::2], spans[1::2], strict=True)
    return sum(after[0] - before[1] for before, after in pairs)


def values(part: str, runs: Sequence[Run]) -> Iterator[Value]:
    """The metrics of a part."""
    if part == STEPS:
        yield mean("setup_ms", [1e3 * (one.whole_s - one.late_s) for one in runs])
        for name in runs[0].work:
            yield mean(f"computing_ms:{name}", [1e3 * one.work[name] for one in runs])
        yield mean("harness_ms", [1e3 * one.late_s for one in runs])
        return
    own = [one.parts[part] for one in runs]
    yield mean("first_sent_ms", [1e3 * one.seconds for one in own])
    yield mean("messages", [one.messages for one in own])
    yield mean("message_bytes", [one.size_bytes for one in own])
    yield mean("harness_ms", [1e3 * one.late_s for one in own])

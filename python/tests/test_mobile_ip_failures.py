"""Mobile IPv4 against forgers, and after the end of each of its programs."""

from __future__ import annotations

import hashlib
import hmac
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from caravan.testbed import tshark
from caravan.testbed.capture import ETHER_TYPE_IPV4, Capture
from caravan.testbed.caravan import READY_S, order
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import (
    AGENT,
    CORRESPONDENT,
    HOME,
    HOME_AGENT,
    HOME_ROUTER,
    MOBILE,
    SECRET,
    VISITED,
    MobileIp,
    Place,
    Role,
    Settings,
    foreign_agent,
    home_agent,
    mobile_node,
)

pytestmark = pytest.mark.root

PORT = 434
LIFETIME_S = 4
SHORT = Settings({"lifetime": f"{LIFETIME_S}s"})
HEALS_S = 3 * LIFETIME_S + 6.0
"""Three of these lifetimes and a margin: much less than a lifetime by default."""
QUIET_S = 0.7
NTP_EPOCH_S = 2_208_988_800
REVERSE, COLOCATED = 0x02, 0x20


def request(
    moment_s: float, *, secret: str = SECRET, home: str = MOBILE, flags: int = COLOCATED | REVERSE
) -> bytes:
    """A Registration Request with its authenticator, by a second implementation (RFC 5944 §3.3,
    §3.5.2)."""

    def address(text: str) -> bytes:
        return bytes(map(int, text.split(".")))

    ntp = int((moment_s + NTP_EPOCH_S) * 2**32)
    addresses = address(home) + address(HOME_AGENT) + address(VISITED.care_of)
    covered = struct.pack("!BBH", 1, flags, 60) + addresses + struct.pack("!Q", ntp)
    covered += struct.pack("!BBI", 32, 36, 1000)
    return covered + hmac.digest(bytes.fromhex(secret), covered, hashlib.sha256)


ASK = """
import socket, sys
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asker.settimeout(float(sys.argv[3]))
asker.sendto(bytes.fromhex(sys.argv[1]), (sys.argv[2], 434))
try:
    print(asker.recv(2000)[1])
except TimeoutError:
    print("silence")
"""


def answer(network: MobileIp, asked: bytes, timeout_s: float = READY_S) -> str:
    """The code of the reply, or "silence"."""
    argv = [sys.executable, "-c", ASK, asked.hex(), HOME_AGENT, str(timeout_s)]
    return network.ms.run(argv, name="ask").stdout.strip()


def test_requests_that_are_not_right_get_the_code_of_the_standard_and_are_counted(
    output: Path,
) -> None:
    """RFC 5944 §3.8.2, §3.4: and a capture of all has nothing that tshark cannot read."""
    with MobileIp(output) as network, home_agent(network) as ha:
        ha.wait_ready()
        network.ms.remove_address("eth0", f"{MOBILE}/24")
        network.move(VISITED)
        with Capture(network.rt, "wan0", output / "asked") as heard:
            now = time.time()
            good = request(now)
            assert answer(network, good) == "0"
            # Repeated: answered again, but it changes nothing.
            left = ha.mobility()["bindings"][0]["left_s"]
            assert answer(network, good) == "0"
            assert ha.mobility()["bindings"][0]["left_s"] < left
            assert answer(network, request(now - 1)) == "133", "replayed"
            assert answer(network, request(now - 60)) == "133", "stale"
            assert answer(network, request(now + 60)) == "133", "of the future"
            assert answer(network, request(time.time(), secret="31" * 16)) == "131"
            forged = bytearray(request(time.time()))
            forged[12] ^= 1
            assert answer(network, bytes(forged), QUIET_S) == "silence", (
                "it says it comes from elsewhere"
            )
            assert answer(network, request(time.time(), home="10.18.3.99"), QUIET_S) == "silence"
            assert answer(network, request(time.time())[:30], QUIET_S) == "silence"
            assert answer(network, request(time.time(), flags=COLOCATED | 0x08)) == "0", "GRE"
            (binding,) = ha.mobility()["bindings"]
            assert binding["encapsulation"] == "gre"
        assert len(tshark.read(heard.path, "mip && _ws.malformed")) == 1, "the cut"
        assert len(tshark.read(heard.path, "mip.type == 3")) == 7
        assert ha.refused() == {
            "denied-131": 2,
            "denied-133": 3,
            "malformed": 1,
            "unknown-node": 1,
        }


def test_a_node_with_a_wrong_secret_is_refused_and_says_so(output: Path) -> None:
    wrong = Settings(association={"key": "39" * 16})
    with MobileIp(output) as network, home_agent(network) as ha, mobile_node(network, wrong) as ms:
        ha.wait_ready()
        ms.wait_ready()
        network.move(VISITED)
        ha.wait_for(lambda it: it["refused"].get("denied-131", 0) > 1, "refused")
        assert ms.mobility()["state"] == "registering"
        # Its authenticator is wrong to the node, too.
        assert ms.refused()["unauthenticated"] > 0
        said = "an answer came whose authenticator is wrong"
        assert said in ms.wait_for_event("not registered: ")
        assert ms.mobility()["trouble"].startswith(said)
        assert ha.wait_for_event("is refused").endswith("is refused: denied-131")
        (refusal,) = ha.mobility()["refusals"]
        assert (refusal["home_address"], refusal["reason"]) == (MOBILE, "denied-131")
        assert refusal["from"] == VISITED.care_of


def test_a_node_without_a_home_agent_says_what_the_link_says(output: Path) -> None:
    wrong = Settings({"home_agent": "10.18.3.77"})
    with MobileIp(output) as network, mobile_node(network, wrong) as ms:
        ms.wait_ready()
        said = ms.wait_for_event("not registered: ")
        assert "the home agent 10.18.3.77 does not answer on eth0" in said
        assert ms.mobility()["trouble"] in said
        assert "neither it nor a router to it is on the link" in ms.mobility()["trouble"]


def test_an_agent_says_that_its_link_is_down_or_its_default_route_is_missing(
    output: Path,
) -> None:
    with MobileIp(output) as network:
        network.ha.run(["ip", "link", "set", "eth0", "down"])
        with home_agent(network) as ha:
            ha.wait_ready()
            assert "eth0 has no link" in ha.wait_for_event("home_agent.interface")
            assert any("eth0 has no link" in it for it in ha.status()["warnings"])
        network.fa.run(["ip", "route", "del", "default"])
        with foreign_agent(network) as fa:
            fa.wait_ready()
            assert "no default route" in fa.wait_for_event("no default route")
            (said,) = fa.status()["warnings"]
            assert said.startswith("this host has no default route")


def test_a_home_agent_says_what_its_host_lacks(output: Path) -> None:
    with MobileIp(output) as network:
        network.ha.run(["ip", "route", "del", "default"])
        with home_agent(network) as ha, mobile_node(network) as ms:
            ha.wait_ready()
            ms.wait_ready().wait_at(HOME)
            (said,) = ha.status()["warnings"]
            assert said.startswith("this host has no default route")
            assert "no default route" in ha.wait_for_event("no default route")
            network.move(VISITED)
            ha.wait_for(lambda it: len(it["bindings"]) == 1, "bound")
            told = f"this host has no route to {VISITED.care_of}"
            assert ha.status()["warnings"][1] == f"{MOBILE} is not reached: {told}"
            assert told in ha.wait_for_event(told)
            assert ha.status()["drops"]["send-failed"] > 0, "the reply"
            network.ha.add_route("default", HOME_ROUTER)
            ms.wait_at(VISITED)
            assert ha.status()["warnings"] == []
        network.ha.connect("other0", network.links, "ha-other0", 1500)
        with home_agent(network, Settings({"interface": "other0"})) as ha:
            ha.wait_ready()
            (said,) = ha.status()["warnings"]
            assert f"has the address {HOME_AGENT}, not other0" in said


def test_a_node_says_that_its_programs_use_another_address_at_home(output: Path) -> None:
    """As if DHCP had given it one before the program put the home address there."""
    other = "10.18.3.140"
    with MobileIp(output) as network, home_agent(network) as ha:
        ha.wait_ready()
        network.ms.remove_address("eth0", f"{MOBILE}/24")
        network.ms.add_address("eth0", f"{other}/24")
        with mobile_node(network) as ms:
            ms.wait_ready().wait_at(HOME)
            told = f"programs use the address {other}, not the home address {MOBILE}"
            assert told in ms.wait_for_event(told)
            (said,) = ms.status()["warnings"]
            assert told in said
            network.ms.remove_address("eth0", f"{other}/24")
            network.ms.run(["ip", "address", "replace", f"{MOBILE}/24", "dev", "eth0"])
            assert ms.status()["warnings"] == []


def test_a_home_agent_says_that_its_host_does_not_hear_nodes_that_come_home(output: Path) -> None:
    """Until it knows, its route to the node leads into the tunnel."""
    with MobileIp(output) as network, home_agent(network) as ha:
        ha.wait_ready()
        assert ha.status()["warnings"] == []
        network.ha.sysctl("net.ipv4.conf.all.rp_filter", "1")
        (said,) = ha.status()["warnings"]
        assert said.startswith("net.ipv4.conf.eth0.rp_filter is 1")
        assert "drops what nodes that come home send" in said


def left(host: Host) -> dict[str, str]:
    """What the program may have changed on a host."""
    commands = ("addr", "rule", "route show table all", "neigh show nud permanent")
    state = {one: host.run(["ip", *one.split()]).stdout for one in commands}
    state["nft"] = host.run(["nft", "list", "ruleset"]).stdout
    interfaces = [name for name in host.interfaces() if name != "lo"]
    keys = [f"net.ipv4.conf.{name}.arp_ignore" for name in interfaces]
    state["sysctl"] = host.run(["sysctl", *keys]).stdout
    return state


def without_times(state: dict[str, str]) -> dict[str, set[str]]:
    """Without what changes by itself."""
    return {
        name: {line.split(" valid_lft")[0] for line in text.splitlines()}
        for name, text in state.items()
    }


Kill = Callable[[Role], None]


@pytest.mark.parametrize("role", ["ha", "fa", "ms"])
@pytest.mark.parametrize(
    "kill", [lambda it: it.process.signal(signal.SIGKILL), Role.crash], ids=["one", "both"]
)
def test_a_killed_program_leaves_nothing_and_heals_within_a_lifetime(
    role: str, kill: Kill, output: Path
) -> None:
    """Of two processes, the steward undoes what the killed one wanted; if both are killed, the next
    start does."""
    serves: dict[str, Callable[[dict[str, Any]], bool]] = {
        "ha": lambda it: len(it["bindings"]) == 1,
        "fa": lambda it: len(it["visitors"]) == 1,
    }
    with MobileIp(output) as network:
        hosts = {"ha": network.ha, "fa": network.fa, "ms": network.ms}
        start: dict[str, Callable[[], Role]] = {
            "ha": lambda: home_agent(network),
            "fa": lambda: foreign_agent(network),
            "ms": lambda: mobile_node(network, SHORT),
        }
        before = without_times(left(hosts[role]))
        roles = {name: make() for name, make in start.items()}
        for one in roles.values():
            one.wait_ready()
        roles["ms"].wait_at(HOME)
        network.move(AGENT)
        roles["ms"].wait_at(AGENT)
        network.wait_connected()
        kill(roles[role])
        roles[role].process.wait(5)
        if kill is not Role.crash:
            wait_nothing_left(role, before, hosts[role])
        roles[role] = start[role]().wait_ready()
        until = time.monotonic() + HEALS_S
        # The node may not know yet that an agent has lost it: the agent does.
        if role in serves:
            roles[role].wait_for(serves[role], "serving the node", HEALS_S)
        roles["ms"].wait_at(AGENT, until - time.monotonic())
        network.wait_connected(until - time.monotonic())
        for one in (roles["ms"], roles["fa"], roles["ha"]):
            one.stop()
        wait_nothing_left(role, before, hosts[role])


def wait_nothing_left(role: str, before: Lines, host: Host) -> None:
    """Wait until the host is as it was, but a node abroad has no home address."""
    until = time.monotonic() + READY_S
    while (found := changes(role, before, without_times(left(host)))) != ({}, {}):
        assert time.monotonic() < until, found
        time.sleep(0.05)


Lines = dict[str, set[str]]


def changes(role: str, before: Lines, after: Lines) -> tuple[Lines, Lines]:
    """What came and what went. From a node abroad its home address goes, with its routes."""
    came = {name: after[name] - before[name] for name in before}
    went = {name: before[name] - after[name] for name in before}
    if role == "ms":
        went = {name: {it for it in lines if "10.18.3." not in it} for name, lines in went.items()}
    return named(came), named(went)


def named(found: Lines) -> Lines:
    """Only those with any lines."""
    return {name: lines for name, lines in found.items() if lines}


def test_away_and_not_registered_a_node_sends_nothing_from_its_home_address(output: Path) -> None:
    """Its filter is another matter: this node has no firewall."""
    speak = ["ping", "-n", "-c", "1", "-W", "0.5", "-I", MOBILE, CORRESPONDENT]
    with MobileIp(output) as network, home_agent(network) as ha, mobile_node(network) as ms:
        ha.wait_ready()
        ms.wait_ready().wait_at(HOME)
        network.wait_connected()
        assert network.ms.run(speak).code == 0
        ha.crash()
        with Capture(network.ms, "eth0", output / "abroad") as heard:
            network.move(VISITED)
            ms.wait_for(lambda it: it["state"] == "registering", "away")
            while "unreachable" not in network.ms.run(["ip", "rule"]).stdout:
                pass
            assert network.ms.run(speak, check=False).code != 0
            # Programs that want no certain address, and those that want the care-of address, speak.
            asked = ["ping", "-n", "-c", "1", "-W", "2", "192.0.2.1"]
            assert network.ms.run(asked).code == 0
            assert network.ms.run([*asked, "-I", VISITED.care_of]).code == 0
        home = bytes(map(int, MOBILE.split(".")))
        from_home = [
            frame
            for frame in heard.frames()
            if frame.ether_type == ETHER_TYPE_IPV4
            and frame.data[26:30] == home
            and frame.data[30:34] == bytes(map(int, CORRESPONDENT.split(".")))
        ]
        assert from_home == []
        with home_agent(network).wait_ready():
            ms.wait_at(VISITED, 20)
            network.wait_connected()
            assert "unreachable" not in network.ms.run(["ip", "rule"]).stdout


def test_what_dhcp_sets_at_home_stays_though_the_home_agent_answers_late(output: Path) -> None:
    """Without the address, the kernel refuses the default route that comes next, or removes it."""
    with MobileIp(output) as network, home_agent(network) as ha, mobile_node(network) as ms:
        ha.wait_ready()
        ms.wait_ready().wait_at(HOME)
        network.move(VISITED)
        ms.wait_at(VISITED)
        network.links.unplug("ha-eth0")
        # Otherwise it is sometimes faster than DHCP.
        ms.process.signal(signal.SIGSTOP)
        network.move(HOME)
        network.ms.add_address("eth0", f"{MOBILE}/24")
        ms.process.signal(signal.SIGCONT)
        ms.wait_for(lambda it: it["state"] == "registering", "on a link of which it knows nothing")
        network.ms.add_route("default", HOME_ROUTER)
        time.sleep(1)
        network.links.plug("ha-eth0", "home")
        ms.wait_at(HOME, 20)
        assert HOME_ROUTER in network.ms.run(["ip", "route", "show", "default"]).stdout
        assert f"{MOBILE}/24" in network.ms.addresses("eth0")
        network.wait_connected()


def test_a_home_address_that_comes_on_a_strange_link_goes_again(output: Path) -> None:
    with MobileIp(output) as network, home_agent(network) as ha, mobile_node(network) as ms:
        ha.wait_ready()
        ms.wait_ready().wait_at(HOME)
        network.move(AGENT)
        ms.wait_for(lambda it: it["state"] == "registering", "away")
        until = time.monotonic() + 20
        for _ in range(2):
            while f"{MOBILE}/24" in network.ms.addresses("eth0"):
                assert time.monotonic() < until
                time.sleep(0.05)
            network.ms.add_address("eth0", f"{MOBILE}/24")
        network.move(VISITED)
        ms.wait_at(VISITED)
        assert network.ms.addresses("eth0") == [VISITED.address]


@pytest.mark.parametrize("place", [VISITED, AGENT], ids=["co-located", "agent"])
def test_down_abroad_deregisters(place: Place, output: Path) -> None:
    with (
        MobileIp(output) as network,
        home_agent(network) as ha,
        foreign_agent(network) as fa,
        mobile_node(network) as ms,
    ):
        for one in (ha, fa, ms):
            one.wait_ready()
        ms.wait_at(HOME)
        network.move(place)
        ms.wait_at(place)
        ms.down()
        assert ha.mobility()["bindings"] == [] and fa.mobility()["visitors"] == []


def test_a_home_agent_that_ends_tells_its_nodes(output: Path) -> None:
    with MobileIp(output) as network, home_agent(network) as ha, mobile_node(network) as ms:
        ha.wait_ready()
        ms.wait_ready().wait_at(HOME)
        network.move(VISITED)
        ms.wait_at(VISITED)
        ha.down()
        # Its registration would hold for minutes.
        ms.wait_for(lambda it: it["state"] == "registering", "told")
        with home_agent(network).wait_ready():
            ms.wait_at(VISITED, 30)
            network.wait_connected()


def test_a_reload_keeps_bindings_and_refuses_what_cannot_change(output: Path) -> None:
    with MobileIp(output) as network, home_agent(network) as ha, mobile_node(network) as ms:
        ha.wait_ready()
        ms.wait_ready().wait_at(HOME)
        network.move(VISITED)
        ms.wait_at(VISITED)
        text = ha.file.read_text()
        second = text[text.index("[mobile_nodes.ms]") :].replace(
            "mobile_nodes.ms", "mobile_nodes.m2"
        )
        ha.file.write_text(text + second.replace(MOBILE, "10.18.3.18"))
        assert "home-agent: changed" in ha.reload().stdout
        assert ha.mobility()["nodes"] == 2
        assert len(ha.mobility()["bindings"]) == 1
        assert "home-agent: unchanged" in ha.reload().stdout
        ha.file.write_text(text.replace('interface = "eth0"', 'interface = "eth1"'))
        refused = order(network.ha, "reload")
        assert (
            refused.code == 1 and "its interface cannot be changed while it runs" in refused.stderr
        )
        told = ms.file.read_text()
        ms.file.write_text(told.replace("[mobile]", '[mobile]\nencapsulation = "gre"'))
        ms.reload()
        ha.wait_for(lambda it: it["bindings"][0]["encapsulation"] == "gre", "gre")
        network.wait_connected()
        # Nobody is served any more.
        ha.file.write_text(text.replace(MOBILE, "10.18.3.18"))
        ha.reload()
        assert ha.mobility()["bindings"] == []

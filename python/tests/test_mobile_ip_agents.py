"""Mobile IPv4 through a foreign agent, behind a NAT, and with what RFC 5944 leaves to choice."""

from __future__ import annotations

import hashlib
import hmac
import math
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from caravan.testbed.capture import Capture
from caravan.testbed.caravan import order
from caravan.testbed.mobile_ip import (
    AGENT,
    BEHIND_AGENT,
    CARE_OF,
    CORRESPONDENT,
    FOREIGN_AGENT,
    HOME,
    HOME_AGENT,
    MOBILE,
    NAT,
    PRIVATE,
    VISITED,
    MobileIp,
    Place,
    Role,
    Settings,
    foreign_agent,
    home_agent,
    mobile_node,
)
from caravan.testbed.nat import Nat, NatConfig
from caravan.testbed.traffic import endless_download, iperf, ping

pytestmark = pytest.mark.root

NODE_AND_AGENT = {"spi": 2000, "key": "31313131313131313131313131313131"}
AGENTS = {"spi": 3000, "key": "32323232323232323232323232323232"}
NAI = "ms@example"
AAA_KEY = "33" * 16
CHAP_SPI = 2
"""Of authenticators as in CHAP (RFC 4721 §8)."""


@pytest.mark.parametrize("form", ["ip-in-ip", "minimal", "gre"])
@pytest.mark.parametrize("delivery", ["direct", "encapsulating"])
def test_a_download_survives_a_visit_at_a_foreign_agent(
    form: str, delivery: str, output: Path
) -> None:
    own = {"encapsulation": form, "encapsulating_delivery": delivery == "encapsulating"}
    with MobileIp(output) as network, home_agent(network) as ha, foreign_agent(network) as fa:
        ha.wait_ready()
        fa.wait_ready()
        with mobile_node(network, Settings(own)) as ms:
            ms.wait_ready().wait_at(HOME)
            with endless_download(network.ms, network.cn, CORRESPONDENT) as download:
                network.move(AGENT)
                ms.wait_at(AGENT)
                (visitor,) = fa.mobility()["visitors"]
                assert visitor["home_address"] == MOBILE
                assert visitor["encapsulation"] == form
                assert visitor["encapsulating_delivery"] == (delivery == "encapsulating")
                assert ms.mobility()["through"] == FOREIGN_AGENT
                network.wait_connected()
                download.wait_for_more()
                network.move(HOME)
                ms.wait_at(HOME)
                download.wait_for_more()
                assert download.local_addresses() == {MOBILE}


def test_what_a_visitor_sends_fits_the_tunnel_and_it_hears_what_does_not(output: Path) -> None:
    """1,500 octets on both links, and 20 more in the tunnel."""
    with MobileIp(output) as network, home_agent(network) as ha, foreign_agent(network) as fa:
        ha.wait_ready()
        fa.wait_ready()
        with mobile_node(network) as ms:
            ms.wait_ready().wait_at(HOME)
            network.move(AGENT)
            ms.wait_at(AGENT)
            flow = iperf(network.ms, network.cn, CORRESPONDENT, 1)
            assert flow.received_bytes > 1_000_000
            large = ["ping", "-I", MOBILE, "-M", "do", "-c", "2", "-W", "1", CORRESPONDENT, "-s"]
            assert ", 0% packet loss" in network.ms.run([*large, "1452"]).stdout
            told = network.ms.run([*large, "1472"], check=False)
            said = told.stdout + told.stderr
            assert "mtu = 1480" in said or "mtu=1480" in said, said


def test_an_interface_that_comes_later_is_used(output: Path) -> None:
    """As if a modem was plugged in, and once more."""
    both = Settings({"interfaces": ["usb0", "eth0"]})
    with MobileIp(output) as network, home_agent(network) as ha, foreign_agent(network) as fa:
        ha.wait_ready()
        fa.wait_ready()
        with mobile_node(network, both) as ms:
            ms.wait_ready().wait_at(HOME)
            for _ in range(2):
                network.ms.connect("usb0", network.links, "ms-usb0", 1500)
                # The agent gives nobody's visit to another link-layer address.
                network.ms.run(["ip", "link", "set", "usb0", "address", "02:00:00:00:00:07"])
                network.links.plug("ms-usb0", AGENT.bridge)
                network.links.link_down("ms-eth0")
                ms.wait_at(AGENT)
                assert ms.mobility()["interface"] == "usb0"
                network.wait_connected()
                key = "/proc/sys/net/ipv4/conf/usb0/arp_ignore"
                assert network.ms.run(["cat", key]).stdout.strip() == "1"
                network.links.run(["ip", "link", "del", "ms-usb0"])
                network.links.link_up("ms-eth0")
                ms.wait_at(HOME)


CABLE_AND_AIR = Settings({"interfaces": ["eth0", "wlan0"]})


def add_air(network: MobileIp) -> None:
    """A second interface, abroad."""
    network.ms.connect("wlan0", network.links, "ms-wlan0", 1500)
    network.links.plug("ms-wlan0", VISITED.bridge)


def test_a_cable_at_home_without_an_address_brings_a_node_home(output: Path) -> None:
    """Abroad on the other interface, it hears the home agent's advertisements on this one."""
    with MobileIp(output) as network, home_agent(network) as ha:
        add_air(network)
        ha.wait_ready()
        network.links.link_down("ms-eth0")
        network.ms.remove_address("eth0", f"{MOBILE}/24")
        with mobile_node(network, CABLE_AND_AIR) as ms:
            ms.wait_ready()
            network.ms.add_address("wlan0", str(VISITED.address))
            network.ms.add_route("default", str(VISITED.router))
            ms.wait_at(VISITED)
            network.links.link_up("ms-eth0")
            ms.wait_at(HOME)
            assert ms.mobility()["interface"] == "eth0"
            network.wait_connected()


ADVERTISE = """
import socket, struct, sys
def summed(octets):
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff
def icmp(checksum):
    router = struct.pack("!BBHBBH", 9, 16, checksum, 0, 2, 1800)
    return router + struct.pack("!BBHHBB", 16, 6, 1, 300, 0x20, 0)
octets = icmp(summed(icmp(0)))
ends = socket.inet_aton(sys.argv[1]) + socket.inet_aton("224.0.0.1")
header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(octets), 0, 0, 1, 1, 0)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
raw.sendto(header + ends + octets, ("224.0.0.1", 0))
"""
"""An advertisement of a home agent, from anybody."""


def test_who_advertises_himself_as_the_home_agent_keeps_no_node(output: Path) -> None:
    with MobileIp(output) as network:
        add_air(network)
        network.ms.remove_address("eth0", f"{MOBILE}/24")
        network.ms.add_address("wlan0", str(VISITED.address))
        with mobile_node(network, CABLE_AND_AIR) as ms:
            ms.wait_ready()
            ms.wait_for(lambda it: it["interface"] == "wlan0", "abroad")
            network.cn.run([sys.executable, "-c", ADVERTISE, HOME_AGENT])
            ms.wait_for(lambda it: it["state"] == "coming home", "deceived")
            ms.wait_for(lambda it: it["interface"] == "wlan0", "abroad again")
            network.cn.run([sys.executable, "-c", ADVERTISE, HOME_AGENT])
            assert ms.mobility()["interface"] == "wlan0"


def test_a_preferred_link_without_a_route_takes_no_node_off_another(output: Path) -> None:
    """As if a cable led to a network without a router."""
    with MobileIp(output) as network, home_agent(network) as ha:
        add_air(network)
        ha.wait_ready()
        network.links.link_down("ms-eth0")
        network.ms.remove_address("eth0", f"{MOBILE}/24")
        network.ms.add_address("wlan0", str(VISITED.address))
        network.ms.add_route("default", str(VISITED.router))
        with mobile_node(network, CABLE_AND_AIR) as ms:
            ms.wait_ready().wait_at(VISITED)
            network.wait_connected()
            network.links.plug("ms-eth0", AGENT.bridge)
            network.ms.add_address("eth0", str(BEHIND_AGENT.address))
            assert network.is_connected()
            assert ms.mobility()["interface"] == "wlan0"
            # Its router comes, and is better than the other one.
            replace = f"ip route replace default via {BEHIND_AGENT.router} dev eth0"
            network.ms.run(replace.split())
            ms.wait_at(BEHIND_AGENT)
            network.wait_connected()


def wait_renewed(node: Role) -> None:
    """Wait until a registration has been renewed: there is more left of it than before."""
    least_s = math.inf

    def is_renewed(part: dict[str, Any]) -> bool:
        nonlocal least_s
        left_s = part["left_s"]
        if part["state"] != "registered" or left_s is None:
            return False
        least_s = min(least_s, left_s)
        return bool(left_s > least_s + 1)

    node.wait_for(is_renewed, "renewed")


def test_a_visitor_proves_itself_by_challenge_name_and_nonce(output: Path) -> None:
    """RFC 4721, RFC 2794, and the nonces of RFC 5944 §5.7.2."""
    nonces = {"replay": "nonces"}
    shared = {"foreign_agents.fa": {"address": FOREIGN_AGENT, "association": NODE_AND_AGENT}}
    node = Settings({"nai": NAI, "lifetime": "4s"}, nonces, shared)
    known = {"mobile_nodes.ms": {"home_address": MOBILE, "association": NODE_AND_AGENT}}
    with MobileIp(output) as network:
        with (
            home_agent(network, Settings({}, nonces, node={"nai": NAI})) as ha,
            foreign_agent(network, Settings({"challenges": True}, tables=known)) as fa,
            Capture(network.fa, "lan0", output / "link") as heard,
        ):
            ha.wait_ready()
            fa.wait_ready()
            with mobile_node(network, node) as ms:
                ms.wait_ready()
                network.move(AGENT)
                ms.wait_at(AGENT)
                # The next challenge is the one in the last reply.
                wait_renewed(ms)
                network.wait_connected()
                assert fa.refused() == {}
        told = tshark(network, heard.path, "mip.type == 1 && ip.dst == 198.51.100.1")
        assert NAI in told
        assert "(132)" in told, "the challenge"


@pytest.mark.parametrize("spi", [CHAP_SPI, 4000])
def test_a_visitor_proves_its_aaa_key_to_both_agents(spi: int, output: Path) -> None:
    """RFC 4721: the node shares nothing else with the foreign agent."""
    aaa = {"spi": spi, "key": AAA_KEY}
    known = {"mobile_nodes.ms": {"home_address": MOBILE, "aaa": aaa}}
    with MobileIp(output) as network:
        with (
            home_agent(network, Settings(node={"aaa": aaa})) as ha,
            foreign_agent(network, Settings({"challenges": True}, tables=known)) as fa,
            Capture(network.ha, "eth0", output / "home") as heard,
        ):
            ha.wait_ready()
            fa.wait_ready()
            with mobile_node(network, Settings({"aaa": aaa, "lifetime": "4s"})) as ms:
                ms.wait_ready()
                network.move(AGENT)
                ms.wait_at(AGENT)
                wait_renewed(ms)
                network.wait_connected()
                network.move(VISITED)
                ms.wait_at(VISITED)
                network.move(HOME)
                ms.wait_at(HOME)
                assert fa.refused() == ha.refused() == {}
            heard.stop()
        proofs = [proof for frame in heard.frames() for proof in proven(frame.data)]
        assert {spi, CHAP_SPI} == set(proofs), "straight to the home agent, as in CHAP"


def proven(frame: bytes) -> list[int]:
    """The SPI of the Mobile-AAA authenticator of a registration request, computed anew."""
    if frame[12:14] != b"\x08\x00" or frame[23] != 17 or frame[36:38] != b"\x01\xb2":
        return []
    message = frame[42:]
    at, challenge, key = 24, b"\0", bytes.fromhex(AAA_KEY)
    while message[0] == 1 and at < len(message):
        if message[at] == 36:
            length = int.from_bytes(message[at + 2 : at + 4])
            spi = int.from_bytes(message[at + 4 : at + 8])
            data, value = message[: at + 8], message[at + 8 : at + 4 + length]
            inner = hashlib.md5(data).digest()
            whole = challenge[:1] + key + inner + challenge[-237:]
            is_chap = spi == CHAP_SPI
            expected = hashlib.md5(whole) if is_chap else hmac.new(key, data, "md5")
            assert value == expected.digest()
            return [spi]
        if message[at] == 132:
            challenge = message[at + 2 : at + 2 + message[at + 1]]
        at += 2 + message[at + 1]
    return []


@pytest.mark.parametrize("denied", ["denied-108", "denied-144"])
def test_a_wrong_aaa_key_is_denied_with_the_code_of_who_sees_it(denied: str, output: Path) -> None:
    right, wrong = ({"spi": 4000, "key": digits * 16} for digits in ("33", "34"))
    at_home, abroad = (right, wrong) if denied == "denied-108" else (wrong, right)
    known = {"mobile_nodes.ms": {"home_address": MOBILE, "aaa": abroad}}
    with (
        MobileIp(output) as network,
        home_agent(network, Settings(node={"aaa": at_home})) as ha,
        foreign_agent(network, Settings({"challenges": True}, tables=known)) as fa,
    ):
        ha.wait_ready()
        fa.wait_ready()
        with mobile_node(network, Settings({"aaa": right})) as ms:
            ms.wait_for_event("attached at home")
            network.move(AGENT)
            refuses = fa if denied == "denied-108" else ha
            for role in (refuses, ms):
                role.wait_for(lambda it: denied in it["refused"], denied)
            assert ms.mobility()["state"] == "registering"
            assert ha.mobility()["bindings"] == fa.mobility()["visitors"] == []


def tshark(network: MobileIp, path: Path, wanted: str) -> str:
    """What tshark reads in the packets of a capture; none of them is malformed."""
    argv = ["tshark", "-r", str(path), "-V", "-Y"]
    broken = network.cn.run([*argv, "mip && _ws.malformed"]).stdout
    assert broken == ""
    told = network.cn.run([*argv, wanted]).stdout
    assert told != ""
    return told


def test_a_foreign_agent_without_the_key_of_a_node_serves_nobody_else(output: Path) -> None:
    known = {"mobile_nodes.ms": {"home_address": MOBILE, "association": NODE_AND_AGENT}}
    with (
        MobileIp(output) as network,
        home_agent(network) as ha,
        foreign_agent(network, Settings({"challenges": True}, tables=known)) as fa,
    ):
        ha.wait_ready()
        fa.wait_ready()
        with mobile_node(network) as ms:
            ms.wait_ready().wait_at(HOME)
            network.move(AGENT)
            for role in (fa, ms):
                role.wait_for(lambda it: "denied-67" in it["refused"], "denied")
                assert set(role.refused()) == {"denied-67"}
            assert ms.mobility()["state"] == "registering"


@pytest.mark.parametrize("udp", ["behind-nat", "never"])
def test_a_rebound_nat_is_noticed_by_keepalives(udp: str, output: Path) -> None:
    """RFC 3519 §4.9, §4.10. Without a tunnel in UDP nothing comes through this NAT."""
    with (
        MobileIp(output) as network,
        home_agent(network, Settings({"udp_keepalive": "10s"})) as ha,
        mobile_node(network, Settings({"udp": udp})) as ms,
    ):
        ha.wait_ready()
        ms.wait_ready()
        network.move(PRIVATE)
        ms.wait_at(PRIVATE)
        if udp == "never":
            assert not network.is_connected()
            return
        (binding,) = ha.mobility()["bindings"]
        assert binding["udp"].startswith(f"{NAT}:2")
        network.wait_connected()
        network.nat.rebind()
        assert not ping(network.cn, MOBILE, 1).received
        # Ten seconds, and three tries.
        ha.wait_for(lambda it: it["bindings"][0]["udp"].startswith(f"{NAT}:3"), "rebound", 30)
        network.wait_connected()


@pytest.mark.parametrize("is_behind_nat", [True, False], ids=["nat", "no-nat"])
def test_a_node_with_an_address_behind_an_agent_gets_its_own_tunnel_in_udp(
    is_behind_nat: bool, output: Path
) -> None:
    """RFC 3519 §4.11: the request comes from the agent, the node's port with its keepalive."""
    own = Settings({"required": True, "udp": "behind-nat"})
    with (
        MobileIp(output) as network,
        home_agent(network) as ha,
        foreign_agent(network, own) as fa,
        mobile_node(network, Settings({"udp": "behind-nat"})) as ms,
    ):
        if is_behind_nat:
            Nat(network.fa, NatConfig("wan0", (CARE_OF,)))
        for role in (ha, fa, ms):
            role.wait_ready()
        network.move(BEHIND_AGENT)
        # It asks by itself, until it hears the agent.
        ms.wait_for(lambda it: it.get("through") == FOREIGN_AGENT, "through the agent", 30)
        ms.wait_at(BEHIND_AGENT)
        end = f"{CARE_OF}:2" if is_behind_nat else f"{BEHIND_AGENT.care_of}:434"
        ha.wait_for(lambda it: str(it["bindings"][0]["udp"]).startswith(end), "complete")
        network.wait_connected()
        (binding,) = ha.mobility()["bindings"]
        assert (binding["care_of"], binding["colocated"]) == (BEHIND_AGENT.care_of, True)


def test_a_tunnel_in_udp_without_a_nat_can_be_refused(output: Path) -> None:
    """RFC 3519 §4.6.1."""
    with (
        MobileIp(output) as network,
        home_agent(network, Settings({"forced_udp": False})) as ha,
        mobile_node(network, Settings({"udp": "always"})) as ms,
    ):
        ha.wait_ready()
        ms.wait_ready()
        network.move(VISITED)
        for role in (ha, ms):
            role.wait_for(lambda it: "denied-129" in it["refused"], "denied")
        assert ha.mobility()["bindings"] == []
        # Behind a NAT, nothing is forced.
        network.move(PRIVATE)
        ha.wait_for(lambda it: bool(it["bindings"]), "bound")
        assert ha.mobility()["bindings"][0]["udp"].startswith(f"{NAT}:")


def test_simultaneous_bindings_get_each_packet_at_both_places(output: Path) -> None:
    with (
        MobileIp(output) as network,
        home_agent(network) as ha,
        foreign_agent(network) as fa,
        mobile_node(network, Settings({"simultaneous": True})) as ms,
    ):
        ha.wait_ready()
        fa.wait_ready()
        ms.wait_ready()
        network.move(VISITED)
        ms.wait_at(VISITED)
        network.move(AGENT)
        ms.wait_at(AGENT)
        places = {binding["care_of"] for binding in ha.mobility()["bindings"]}
        assert places == {VISITED.care_of, CARE_OF}
        with Capture(network.rt, "wan0", output / "copies") as heard:
            network.wait_connected()
            heard.stop()
            ends = {frame.destination for frame in heard.frames() if frame.source == HOME_AGENT}
        assert {VISITED.care_of, CARE_OF} <= ends
        network.move(HOME)
        ms.wait_at(HOME)
        assert ha.mobility()["bindings"] == []


@pytest.mark.parametrize("place", [VISITED, AGENT], ids=["co-located", "agent"])
def test_an_administrator_ends_a_registration_and_the_node_makes_another(
    place: Place, output: Path
) -> None:
    """RFC 3543."""
    to_agent = {"foreign_agents.fa": {"address": CARE_OF, "association": AGENTS}}
    to_home = {"home_agents.ha": {"address": HOME_AGENT, "association": AGENTS}}
    with (
        MobileIp(output) as network,
        home_agent(network, Settings(tables=to_agent)) as ha,
        foreign_agent(network, Settings(tables=to_home)) as fa,
        mobile_node(network) as ms,
    ):
        ha.wait_ready()
        fa.wait_ready()
        ms.wait_ready()
        network.move(place)
        ms.wait_at(place)
        # Otherwise it may be registered again before we look.
        ms.process.signal(signal.SIGSTOP)
        done = order(network.ha, "down", "home-agent", "--peer", MOBILE).check()
        assert done.stdout == f"home-agent: the registration of {MOBILE} has ended\n"
        assert ha.mobility()["bindings"] == []
        again = order(network.ha, "down", "home-agent", "--peer", MOBILE)
        assert again.stderr.endswith(f"home-agent: {MOBILE} is not registered\n")
        ms.process.signal(signal.SIGCONT)
        ha.wait_for(lambda it: len(it["bindings"]) == 1, "bound again")
        ms.wait_at(place)
        network.wait_connected()
        if place == AGENT:
            assert "revoked" in fa.wait_for_event("revoked")
            done = order(network.fa, "down", "foreign-agent", "--peer", MOBILE).check()
            assert done.stdout == f"foreign-agent: the registration of {MOBILE} has ended\n"
            fa.wait_for(lambda it: len(it["visitors"]) == 1, "back")
            network.wait_connected()


STRANGER = """
import socket, struct, sys
home, agent, own, care_of = sys.argv[1:]
port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port.settimeout(10)
port.bind(("", 434))
proof = bytes([32, 20]) + struct.pack("!I", 1000) + bytes(16)
number = struct.pack("!Q", 7)
asked = struct.pack("!BBH", 1, 0, 100) + b"".join(map(socket.inet_aton, (home, own, care_of)))
port.sendto(asked + number + proof, (agent, 434))
try:
    port.recv(2000)
except TimeoutError:
    sys.exit("not relayed")
yes = struct.pack("!BBH", 3, 0, 100) + socket.inet_aton(home) + socket.inet_aton(own)
port.sendto(yes + number + proof, (care_of, 434))
"""
"""A node that is also the home agent of any address."""


def test_a_stranger_who_answers_himself_gets_no_packets_of_this_host(output: Path) -> None:
    with MobileIp(output) as network:
        network.fa.sysctl("net.ipv4.conf.lan0.rp_filter", "1")
        with foreign_agent(network) as fa:
            fa.wait_ready()
            assert "sysctl -w net.ipv4.conf.lan0.rp_filter=2" in fa.wait_for_event("rp_filter")
            network.ms.remove_address("eth0", f"{MOBILE}/24")
            network.move(BEHIND_AGENT)
            own = BEHIND_AGENT.care_of

            def come(home: str) -> None:
                argv = [sys.executable, "-c", STRANGER, home, FOREIGN_AGENT, own, CARE_OF]
                network.ms.run(argv, name="stranger", check=False)

            for near in ("198.51.100.8", FOREIGN_AGENT, CARE_OF):
                come(near)
            assert fa.mobility()["visitors"] == []
            assert fa.refused() == {"denied-65": 3}
            come(CORRESPONDENT)
            fa.wait_for(lambda it: len(it["visitors"]) == 1, "come")
            assert ping(network.fa, CORRESPONDENT, 1).received == 1, "by the ordinary route"


def test_home_agents_that_are_not_named_are_refused(output: Path) -> None:
    with (
        MobileIp(output) as network,
        home_agent(network) as ha,
        foreign_agent(network, Settings({"home_agents": ["192.0.2.0/24"]})) as fa,
        mobile_node(network) as ms,
    ):
        for one in (ha, fa, ms):
            one.wait_ready()
        network.move(AGENT)
        ms.wait_for(lambda it: "denied-65" in it["refused"], "refused")
        text = fa.file.read_text()
        fa.file.write_text(text.replace("192.0.2.0/24", "10.18.3.1/32"))
        fa.reload()
        ms.wait_at(AGENT)
        network.wait_connected()

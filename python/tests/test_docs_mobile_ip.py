"""`docs/vpn-mobile-ip.md`, followed from top to bottom: files and commands are the page's own, each
host has an `/etc/caravan` of its own, and the node walks where the page says that it may."""

from __future__ import annotations

import json
import re
import subprocess
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doc_pages import DOCS, MOBILE_IP, Block, Heading, Put, Setting, blocks, obey, steps

from caravan.testbed.binary import TOP, caravan_binary
from caravan.testbed.capture import ETHER_TYPE_IPV4, IPPROTO_ICMP, IPPROTO_SKIP, Capture
from caravan.testbed.caravan import order
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import Place
from caravan.testbed.nat import Nat, NatConfig
from caravan.testbed.network import Network
from caravan.testbed.process import Process
from caravan.testbed.traffic import (
    EndlessDownload,
    endless_download,
    ping,
    wait_to_reach_each_other,
)

HOME_ADDRESS, HOME_AGENT, CORRESPONDENT = "10.18.3.17", "10.18.3.1", "10.18.3.5"
FIREWALL_OUTSIDE, FIREWALL_INSIDE = "203.0.113.1", "192.168.4.1"
HOME = Place("home", f"{HOME_ADDRESS}/24", HOME_AGENT)
ELSEWHERE = Place("elsewhere", "10.18.7.7/24", "10.18.7.1")
"""Another network inside."""
VISITED = Place("visited", "192.0.2.7/24", "192.0.2.1")
AGENT = Place("agent")
HOTEL = Place("hotel", "172.16.9.2/24", "172.16.9.1")
"""Behind a NAT."""
FILES, SAMPLES = "/etc/caravan", TOP / "packaging"
REGISTERED_S = 15
HOSTS = ("home-agent", "node", "foreign-agent", "firewall")
HOST_OF = {"home_agent": "home-agent", "mobile.firewall": "node", "firewall": "firewall"}
FILES_OF = {"home-agent": "home-agent.toml", "node": "mobile.toml", "firewall": "firewall.toml"}


class Page(Network):
    """The hosts of the page:

    ```
    home: node correspondent --- home-agent --- 192.168.4.0/24 --- firewall --- 203.0.113.0/24
    elsewhere 10.18.7.0/24 ------'                                              |
                                                                         internet router
    hotel 172.16.9.0/24 --- nat ---.                                            |
    agent 198.51.100.0/24 --- foreign-agent --- visited 192.0.2.0/24 -----------'
    ```

    The node has a cable (`eth0`) at home and a radio (`wlan0`) elsewhere.
    """

    def __init__(self, output: Path) -> None:
        super().__init__(output)
        try:
            self.links = self.host("links")
            for bridge in ("home", "elsewhere", "visited", "agent", "hotel"):
                self.links.bridge(bridge, [])
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        self.node, self.correspondent = self.host("node"), self.host("correspondent")
        self.home_agent, self.firewall = self.host("home-agent"), self.host("firewall")
        self.foreign_agent, self.router = self.host("foreign-agent"), self.host("internet")
        nat = self.host("nat")
        for host, interface, bridge, address in (
            (self.home_agent, "eth1", "home", f"{HOME_AGENT}/24"),
            (self.home_agent, "eth2", "elsewhere", "10.18.7.1/24"),
            (self.correspondent, "eth0", "home", f"{CORRESPONDENT}/24"),
            (self.node, "eth0", "home", HOME.address),
            (self.node, "wlan0", "visited", None),
            (self.foreign_agent, "eth0", "visited", "192.0.2.9/24"),
            (self.foreign_agent, "wlan0", "agent", "198.51.100.1/24"),
            (self.router, "lan0", "visited", "192.0.2.1/24"),
            (nat, "wan0", "visited", "192.0.2.8/24"),
            (nat, "lan0", "hotel", "172.16.9.1/24"),
        ):
            port = f"{host.role}-{interface}"[-15:]
            host.connect(interface, self.links, port, 1500)
            self.links.plug(port, bridge)
            if address is not None:
                host.add_address(interface, address)
        perimeter = (
            (self.home_agent, "eth0", "192.168.4.2/24"),
            (self.firewall, "eth1", f"{FIREWALL_INSIDE}/24"),
        )
        outside = (
            (self.firewall, "eth0", f"{FIREWALL_OUTSIDE}/24"),
            (self.router, "fw0", "203.0.113.254/24"),
        )
        for one, two in (perimeter, outside):
            one[0].connect(one[1], two[0], two[1], 1500)
            for host, interface, address in (one, two):
                host.add_address(interface, address)
        for host in (self.foreign_agent, nat):
            host.add_route("default", "192.0.2.1")
        self.router.add_route("198.51.100.0/24", "192.0.2.9")
        self.firewall.add_route("default", "203.0.113.254")
        self.firewall.add_route("10.18.0.0/16", "192.168.4.2")
        self.home_agent.add_route("default", FIREWALL_INSIDE)
        for host in (self.node, self.correspondent):
            host.add_route("default", HOME_AGENT)
        for host in (self.router, nat):
            host.forward()
        Nat(nat, NatConfig("wan0", ("192.0.2.8",)))
        self.links.link_down("node-wlan0")
        for host in self.hosts:
            # As systemd sets it.
            host.sysctl("net.ipv4.conf.all.rp_filter", "2")

    def open(self) -> None:
        """Let the internet reach the home network, by an ordinary router."""
        self.firewall.forward()
        self.router.add_route("10.18.0.0/16", FIREWALL_OUTSIDE)

    def close_home(self) -> None:
        """Let the router be the firewall that it is to become."""
        self.firewall.sysctl("net.ipv4.ip_forward", "0")
        self.router.remove_route("10.18.0.0/16", FIREWALL_OUTSIDE)

    def move(self, to: Place) -> None:
        """Take the node elsewhere; what DHCP has set goes, and comes from the new network."""
        for interface in ("eth0", "wlan0"):
            self.links.link_down(f"node-{interface}")
            for address in self.node.addresses(interface):
                if not address.startswith(f"{HOME_ADDRESS}/"):
                    self.node.remove_address(interface, address)
            self.node.run(
                ["ip", "route", "del", "default", "dev", interface], check=False, name="leave"
            )
        interface = "eth0" if to == HOME else "wlan0"
        self.links.plug(f"node-{interface}", to.bridge)
        if to.address is not None and to.router is not None:
            self.node.add_address(interface, to.address)
            way = ["ip", "route", "replace", "default", "via", to.router, "dev", interface]
            self.node.run(way)

    def wait_at(self, place: Place) -> None:
        """Wait until the node says that it is there."""
        until = time.monotonic() + REGISTERED_S
        while True:
            part = status(self.node)
            if place == HOME and part["state"] == "at home":
                return
            care_of = "192.0.2.9" if place == AGENT else place.care_of
            if part["state"] == "registered" and part["care_of"] == care_of:
                return
            assert time.monotonic() < until, (place, part)
            time.sleep(0.05)

    def walk(self, download: EndlessDownload, *places: Place) -> None:
        """Take the node to each place, and home; the download goes on."""
        self.wait_at(HOME)
        for place in (*places, HOME):
            self.move(place)
            self.wait_at(place)
            download.wait_for_more()
            ends = (self.correspondent, CORRESPONDENT), (self.node, HOME_ADDRESS)
            wait_to_reach_each_other(*ends)
        assert download.local_addresses() == {HOME_ADDRESS}


def status(host: Host) -> dict[str, Any]:
    """What `caravan status` says about Mobile IP."""
    part: dict[str, Any] = json.loads(order(host, "status", "--json").check().stdout)["mobility"]
    return part


class Reader:
    """Somebody who does what the page says; `folder` carries files between hosts."""

    def __init__(self, network: Page, folder: Path) -> None:
        self.network, self.folder = network, folder
        self.running: dict[str, Process] = {}
        self.put: list[Put] = []
        self.starts: dict[str, Block] = {}
        folder.mkdir(parents=True)

    def host(self, name: str) -> Host:
        return next(host for host in self.network.hosts if host.role == name)

    def follow(self, step: Block | Put | Setting) -> None:
        """Do one step; files are put on the host of the next block."""
        if isinstance(step, Setting):
            for table in step.tables:
                name = HOST_OF[table]
                words = (name, FILES_OF[name], "adds")
                self.write(Block("toml", words, f"[{table}]\n{step.text}\n"), self.host(name))
            return
        if isinstance(step, Put):
            self.put.append(step)
            return
        if not step.words:
            return
        if step.words[0] not in HOSTS:
            check_alone(step, self.folder / step.words[0])
            return
        host = self.host(step.words[0])
        for one in self.put:
            self.carry(one, host)
        self.put.clear()
        if step.language == "toml":
            self.write(step, host)
        else:
            if step.words[1:] == ("runs",):
                self.starts[host.role] = step
            obey(host, step, self.folder, self.running)

    def start_again(self) -> None:
        """Start all roles again, as the page said last."""
        for step in self.starts.values():
            self.follow(step)

    def carry(self, put: Put, host: Host) -> None:
        """Put files on a host: samples, and what was made, wherever that was."""
        host.run(["mkdir", "-p", put.folder])
        files = [*put.samples]
        for name in put.names:
            path = self.folder / name
            makers = [one for one in self.network.hosts if one is not host]
            if not any(fetched(one, f"{put.folder}/{name}", path) for one in makers):
                assert path.exists(), f"nobody has made {name}"
            files.append(path)
        host.run(["cp", "-p", *map(str, files), put.folder])

    def write(self, block: Block, host: Host) -> None:
        """Write a file, or add tables and keys to it, as an editor would."""
        path, text = f"{FILES}/{block.words[1]}", block.text
        if block.words[2:] == ("adds",):
            text = added(host.run(["cat", path]).stdout, text)
        draft = self.folder / "draft.toml"
        draft.write_text(text)
        host.run(["cp", str(draft), path])
        host.run([str(caravan_binary()), "check", path])


def check_alone(block: Block, folder: Path) -> None:
    """`caravan check` a file for a host that is not in this network; the keys that it names are
    made. What is added goes to the host's file, or to the sample."""
    folder.mkdir(exist_ok=True)
    program, path, text = str(caravan_binary()), folder / block.words[1], block.text
    if block.words[2:] == ("adds",):
        before = path if path.exists() else SAMPLES / path.name
        text = added(before.read_text(), text)
    old = ["--group", "skip2048", "--legacy"] if "legacy = true" in text else []
    for name in set(re.findall(r'"([\w.-]+)\.skip\.(?:key|pub)"', text)):
        if not (folder / f"{name}.skip.key").exists():
            make = [program, "pki", "skip", "--name", name, "--out", str(folder), *old]
            subprocess.run(make, check=True, capture_output=True)
    for name in re.findall(r'key_file = "([^"]+)"', text):
        (folder / name).write_text("30" * 32)
    path.write_text(text)
    done = subprocess.run(
        [program, "check", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.root
def test_each_file_of_another_host_is_valid(tmp_path: Path) -> None:
    files = [block for block in blocks(MOBILE_IP) if block.language == "toml"]
    others = [block for block in files if block.words[0] not in HOSTS]
    assert others
    for block in others:
        check_alone(block, tmp_path / block.words[0])


@pytest.mark.root
def test_a_file_without_a_needed_key_is_found(tmp_path: Path) -> None:
    text = '[firewall]\noutside = "203.0.113.1"\n[skip]\nkey = "wall.skip.key"\n'
    with pytest.raises(AssertionError, match="'outside_interface' is missing"):
        check_alone(Block("toml", ("other", "firewall.toml"), text), tmp_path / "other")


def test_each_file_of_the_page_has_a_host() -> None:
    files = [block for block in blocks(MOBILE_IP) if block.language == "toml"]
    assert [block.text for block in files if len(block.words) < 2] == []


def fetched(host: Host, path: str, to: Path) -> bool:
    return host.run(["cp", "-p", path, str(to)], check=False).code == 0


def added(text: str, piece: str) -> str:
    """A file with a piece added: keys go below the heading of their table, if it is there."""
    for table in re.split(r"^(?=\[)", piece, flags=re.M):
        heading, _, keys = table.partition("\n")
        if not heading:
            continue
        if re.search(rf"^{re.escape(heading)}$", text, re.M):
            text = text.replace(f"{heading}\n", f"{heading}\n{keys.strip()}\n", 1)
        else:
            text += f"\n{table}"
    tomllib.loads(text)
    return text


def walk_in_the_open(reader: Reader, download: EndlessDownload) -> None:
    reader.network.walk(download, ELSEWHERE, VISITED, AGENT)


def walk_through_the_firewall(reader: Reader, download: EndlessDownload) -> None:
    """Nothing but SKIP is to be seen outside, and nobody else gets in."""
    network = reader.network
    with Capture(network.router, "lan0", network.output / "outside") as heard:
        network.walk(download, ELSEWHERE, VISITED)
    frames = [frame for frame in heard.frames() if frame.ether_type == ETHER_TYPE_IPV4]
    packets = {(frame.protocol, frame.source) for frame in frames}
    solicitation = (IPPROTO_ICMP, "0.0.0.0")
    ends = (FIREWALL_OUTSIDE, VISITED.care_of)
    assert packets - {solicitation} == {(IPPROTO_SKIP, end) for end in ends}
    network.router.add_route("10.18.0.0/16", FIREWALL_OUTSIDE)
    for address in (HOME_AGENT, CORRESPONDENT):
        assert ping(network.router, address, 1, timeout_s=0.5).received == 0


def walk_behind_a_nat(reader: Reader, download: EndlessDownload) -> None:
    reader.network.walk(download, HOTEL, VISITED)


def walk_once_more(reader: Reader, download: EndlessDownload) -> None:
    reader.start_again()
    reader.network.walk(download, VISITED, HOTEL)


ENDS: dict[str, Callable[[Reader, EndlessDownload], None]] = {
    "Foreign agent": walk_in_the_open,
    "A firewall before the home network": walk_through_the_firewall,
    "Behind a NAT": walk_behind_a_nat,
    "Reading instead of binding": walk_once_more,
}
"""What is tried at the end of a section."""


@pytest.mark.root
def test_a_new_user_s_node_walks_out_and_home_after_each_section(output: Path) -> None:
    """One download goes on all the time, also while roles are started again."""
    with (
        Page(output) as network,
        endless_download(network.node, network.correspondent, CORRESPONDENT) as download,
    ):
        network.open()
        reader = Reader(network, output / "folder")
        done, section = [], ""
        for step in [*steps(MOBILE_IP), Heading("end")]:
            if not isinstance(step, Heading):
                reader.follow(step)
                continue
            if section in ENDS:
                ENDS[section](reader, download)
                done.append(section)
            section = step.title
            if section == "A firewall before the home network":
                network.close_home()
        assert done == list(ENDS)


def test_each_key_that_the_page_names_is_one_of_the_configuration() -> None:
    known = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "vpn-configuration.md").read_text(), re.M))
    text = MOBILE_IP.read_text()
    named = set(re.findall(r"`(\w+) = ", text))
    assert named and named <= known

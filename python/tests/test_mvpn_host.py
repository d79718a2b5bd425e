"""The hosts of a mobile private network: what other programs do to them, and what they lack."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from mvpn_by_hand import wait_reaches

from caravan.testbed.capture import Capture
from caravan.testbed.caravan import READY_S, order
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import HOME_AGENT, Role, Settings
from caravan.testbed.mvpn import (
    BRANCH,
    CORRESPONDENT,
    INSIDE,
    OUTSIDE,
    VISITED,
    Keys,
    Mvpn,
    all_roles,
    firewall,
    home_agent,
    mobile_node,
    walk,
)
from caravan.testbed.traffic import ping

pytestmark = pytest.mark.root

LOOKS_PER_S = 5
"""How often the program looks at its tables, at most."""
CHANGES = 100


def tables(host: Host) -> str:
    """The rules of our packet filter."""
    names = [
        line
        for line in host.run(["nft", "list", "tables"]).stdout.splitlines()
        if "caravan." in line
    ]
    listed = [host.run(["nft", "--stateless", "list", *line.split()]).stdout for line in names]
    return "".join(listed)


def wait_back(role: Role, rules: str, count: int, timeout_s: float = 5.0) -> dict[str, Any]:
    """Wait until the filter is as it was, and the status counts so many tables at least."""
    until = time.monotonic() + timeout_s
    while True:
        process: dict[str, Any] = role.status()["process"]
        if tables(role.host) == rules and process["tables_put_back"] >= count:
            return process
        assert time.monotonic() < until, (tables(role.host), process)
        time.sleep(0.05)


def test_a_packet_filter_that_another_program_removes_or_changes_is_put_back(output: Path) -> None:
    """`nft flush ruleset`, which the reload of a firewall service runs, too."""
    with Mvpn(output) as network, all_roles(network) as it:
        walk(network, it.ms, VISITED)
        for role in (it.fw, it.ms):
            rules = tables(role.host)
            assert "drop" in rules
            assert role.status()["process"]["tables_put_back"] == 0
            role.host.run(["nft", "flush", "ruleset"])
            process = wait_back(role, rules, 1)
            assert "has removed or changed the nftables table caravan." in role.process.stderr()
            # One rule is enough to be open.
            table = next(line for line in rules.splitlines() if "table inet" in line).split()[2]
            chain = {"fw": "through", "ms": "from-link"}[role.host.role]
            role.host.run(["nft", "insert", "rule", "inet", table, chain, "accept"])
            wait_back(role, rules, process["tables_put_back"] + 1)
        wait_reaches(network)


def test_what_changes_while_a_filter_is_put_back_never_counts_as_right(output: Path) -> None:
    """Two changes, the second one while the first is mended."""
    with Mvpn(output) as network, firewall(network, Keys(network)) as role:
        role.wait_ready()
        rules = tables(network.fw)
        table = next(line for line in rules.splitlines() if "table inet" in line).split()[2]
        for gap_ms in range(0, 60, 3):
            back = role.status()["process"]["tables_put_back"]
            network.fw.run(["nft", "insert", "rule", "inet", table, "through", "accept"])
            time.sleep(gap_ms / 1000)
            network.fw.run(["nft", "flush", "chain", "inet", table, "through"])
            wait_back(role, rules, back + 1)


def test_what_changes_before_a_filter_was_looked_at_does_not_stay(output: Path) -> None:
    """A node on its way loads its filter, and looks at it later."""
    with Mvpn(output) as network, all_roles(network) as it:
        walk(network, it.ms, VISITED)
        rules = tables(network.ms)
        table = next(line for line in rules.splitlines() if "table inet" in line).split()[2]
        for _ in range(3):
            walk(network, it.ms, BRANCH)
            it.ms.process.wait_for(lambda: tables(network.ms) == "", "no filter", READY_S)
            network.move(VISITED)
            insert = ["nft", "insert", "rule", "inet", table, "from-link", "accept"]
            while network.ms.run(insert, check=False).code:
                time.sleep(0.001)
            wait_back(it.ms, rules, 0)
            it.ms.wait_at(VISITED)
        # Nor is what the node itself removes and adds again taken for somebody else's doing.
        assert it.ms.status()["process"]["entries_put_back"] == 0


@pytest.mark.parametrize("is_port", [False, True], ids=["renamed", "port of a bridge"])
def test_a_link_outside_under_another_name_stays_closed(is_port: bool, output: Path) -> None:
    """As if `ppp0` came back as `ppp1`, or another program put the link into a bridge."""
    with Mvpn(output) as network, all_roles(network) as it:
        walk(network, it.ms, VISITED)
        wait_reaches(network)
        fw, r1 = network.fw, network.r1
        if is_port:
            fw.run(["ip", "link", "add", "ext0", "type", "bridge"])
            fw.run(["ip", "address", "flush", "dev", "out0"])
            fw.run(["ip", "link", "set", "out0", "master", "ext0"])
        else:
            fw.run(["ip", "link", "set", "out0", "down"])
            fw.run(["ip", "link", "set", "out0", "name", "ext0"])
        fw.run(["ip", "address", "replace", f"{OUTSIDE}/24", "dev", "ext0"])
        fw.run(["ip", "link", "set", "ext0", "up"])
        fw.run(["ip", "route", "replace", "default", "via", "192.0.2.254"])
        r1.run(["ip", "route", "replace", "10.0.0.0/8", "via", OUTSIDE])
        with Capture(fw, "in0", output / "at-fw") as inside:
            for address in (CORRESPONDENT, HOME_AGENT, OUTSIDE):
                assert ping(r1, address, 2, timeout_s=0.5).received == 0, address
            inside.stop()
        source = IPv4Address("192.0.2.254").packed
        assert not [frame for frame in inside.frames() if frame.packet[12:16] == source]
        (said,) = it.fw.status()["warnings"]
        assert f"has the address {OUTSIDE}, not out0" in said


@pytest.mark.parametrize("name", ["eth0x", "in0"])
def test_a_file_that_names_another_link_outside_opens_no_firewall(name: str, output: Path) -> None:
    """The table of an earlier run stands, and the start that is refused replaces it."""
    with Mvpn(output) as network:
        keys, fw, r1 = Keys(network), network.fw, network.r1
        with firewall(network, keys) as right:
            right.wait_ready()
        fw.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        r1.run(["ip", "route", "replace", "10.0.0.0/8", "via", OUTSIDE])
        wrong = firewall(network, keys, Settings({"outside_interface": name}))
        assert wrong.process.wait(READY_S).code != 0
        assert f"no interface {name} has the address {OUTSIDE}" in wrong.process.stderr()
        for address in (CORRESPONDENT, HOME_AGENT, OUTSIDE):
            assert ping(r1, address, 2, timeout_s=0.5).received == 0, address


def test_before_the_link_outside_has_its_address_no_link_counts_as_inside(output: Path) -> None:
    """The file names another link, and DHCP is late."""
    with Mvpn(output) as network:
        keys, fw, r1 = Keys(network), network.fw, network.r1
        fw.run(["ip", "address", "del", f"{OUTSIDE}/24", "dev", "out0"])
        wrong = firewall(network, keys, Settings({"outside_interface": "in0"}))
        assert wrong.process.wait(READY_S).code != 0
        assert f"no interface has {OUTSIDE}, so each may be" in wrong.process.stderr()
        fw.run(["ip", "address", "add", f"{OUTSIDE}/24", "dev", "out0"])
        fw.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        r1.run(["ip", "route", "replace", "10.0.0.0/8", "via", OUTSIDE])
        for address in (CORRESPONDENT, HOME_AGENT, OUTSIDE):
            assert ping(r1, address, 2, timeout_s=0.5).received == 0, address


def test_nobody_outside_learns_by_arp_that_the_firewall_has_an_inside_address(
    output: Path,
) -> None:
    with Mvpn(output) as network:
        keys, r1 = Keys(network), network.r1

        def answers(address: str) -> bool:
            r1.run(["ip", "neigh", "flush", "all"])
            r1.run(["ip", "route", "replace", f"{address}/32", "dev", "fw0"])
            ping(r1, address, 1, timeout_s=1)
            return "lladdr" in r1.run(["ip", "neigh", "show", address]).stdout

        assert answers(INSIDE), "Linux answers for all of its addresses"
        with firewall(network, keys) as role:
            role.wait_ready()
            assert answers(OUTSIDE)
            assert not answers(INSIDE)
        order(network.fw, "down", "firewall").check()
        assert answers(INSIDE), "the setting is taken back"


def test_a_node_is_filtered_on_a_link_that_gets_another_name(output: Path) -> None:
    with Mvpn(output) as network, all_roles(network) as it:
        walk(network, it.ms, VISITED)
        ms = network.ms
        ms.run(["ip", "link", "set", "eth0", "down"])
        ms.run(["ip", "link", "set", "eth0", "name", "wlan7"])
        ms.run(["ip", "link", "set", "wlan7", "up"])
        ms.run(["ip", "address", "replace", f"{VISITED.address}", "dev", "wlan7"])
        assert VISITED.router is not None
        assert ping(ms, VISITED.router, 2, timeout_s=0.5).received == 0


def test_a_file_without_a_firewall_does_not_remove_a_filter_that_stands(output: Path) -> None:
    """The process was killed outside: the node is still there."""
    with Mvpn(output) as network, all_roles(network) as it:
        walk(network, it.ms, VISITED)
        it.ms.crash()
        rules = tables(network.ms)
        assert "drop" in rules
        with mobile_node(network, None) as plain:
            assert plain.process.wait(READY_S).code != 0
            assert "a packet filter of an earlier run stands" in plain.process.stderr()
        assert tables(network.ms) == rules
        order(network.ms, "down", "mobile").check()
        assert tables(network.ms) == ""
        with mobile_node(network, None) as plain:
            plain.wait_ready()


HOLDS_PORT = """
import socket, sys
holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
holder.bind(("0.0.0.0", 434))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_node_is_filtered_before_anything_else_of_its_start_can_fail(output: Path) -> None:
    with Mvpn(output) as network:
        network.move(VISITED)
        ms = network.ms
        with ms.popen([sys.executable, "-c", HOLDS_PORT], name="holder", is_told=True) as holder:
            holder.wait_for(lambda: "held" in holder.stdout(), "held", READY_S)
            with mobile_node(network, Keys(network)) as node:
                assert node.process.wait(READY_S).code != 0
        assert VISITED.router is not None
        assert "drop" in tables(ms)
        assert ping(ms, VISITED.router, 2, timeout_s=0.5).received == 0


def test_a_node_without_one_of_its_interfaces_is_filtered_and_runs(output: Path) -> None:
    """As if a modem was not plugged in at the start."""
    both = Settings({"interfaces": ["usb0", "eth0"]})
    with Mvpn(output) as network, all_roles(network, node=both) as it:
        walk(network, it.ms, VISITED)
        assert "there is no interface usb0 yet" in it.ms.process.stderr()
        assert VISITED.router is not None
        assert ping(network.ms, VISITED.router, 2, timeout_s=0.5).received == 0
        wait_reaches(network)


def test_the_first_reply_of_a_start_outside_is_not_lost(output: Path) -> None:
    """The kernel drops what comes out of a device that has no address yet."""
    with Mvpn(output) as network:
        keys = Keys(network)
        with home_agent(network) as ha, firewall(network, keys) as fw:
            ha.wait_ready()
            fw.wait_ready()
            network.move(VISITED)
            with mobile_node(network, keys) as ms:
                ms.wait_ready().wait_at(VISITED)
                text = network.ms.run(["cat", "/proc/net/netstat"]).stdout.splitlines()
                names, counts = (text[line].split()[1:] for line in (0, 1))
                counted = dict(zip(names, map(int, counts), strict=True))
                assert counted["IPReversePathFilter"] == 0


@pytest.mark.parametrize("is_key_wrong", [False, True], ids=["no firewall", "wrong key"])
def test_a_node_that_does_not_come_up_says_why_and_that_its_filter_stays(
    is_key_wrong: bool, output: Path
) -> None:
    with Mvpn(output) as network, contextlib.ExitStack() as stack:
        keys = Keys(network)
        if is_key_wrong:
            # At home: a denial by another key does not come through a firewall.
            stack.enter_context(home_agent(network)).wait_ready()
        else:
            network.move(VISITED)
        wrong = Settings(association={"key": "39" * 16} if is_key_wrong else {})
        with mobile_node(network, keys, wrong) as ms:
            ms.wait_ready()
        stays = "the packet filter stays; `caravan down mobile` removes it"
        assert stays in ms.process.stderr()
        argv = ["up", "-c", str(ms.file), "--detach", "--timeout", "3"]
        done = order(network.ms, *argv)
        assert done.code == 1
        assert stays in done.stderr
        why = "the keys of `association` differ" if is_key_wrong else f"from the firewall {OUTSIDE}"
        assert why in done.stderr, done.stderr


def shown(host: Host) -> str:
    """What `caravan status` shows to people."""
    return order(host, "status").check().stdout


def test_the_status_says_whether_a_node_is_outside_and_when_it_was_heard(output: Path) -> None:
    with Mvpn(output) as network, all_roles(network) as it:
        text = shown(network.ms)
        assert " mobile node, pid" in text
        assert "half-open" not in text
        assert "  at home, no packet filter\n" in text
        walk(network, it.ms, VISITED)
        text = shown(network.ms)
        assert f"  outside, encrypted to {OUTSIDE}, packet filter in force\n" in text
        assert f"behind firewall {INSIDE}" in shown(network.ha)
        assert "1 of 2 nodes bound" in shown(network.fw)

        def silent() -> float:
            (entry,) = [one for one in it.fw.mobility()["entries"] if one["care_of"]]
            return float(entry["silent_s"])

        it.fw.wait_for(lambda _: silent() > 1, "silent")
        before, until = silent(), time.monotonic() + READY_S
        while silent() >= before:
            assert time.monotonic() < until
            wait_reaches(network)
        walk(network, it.ms, BRANCH)
        assert "  inside, no packet filter\n" in shown(network.ms)


def test_a_program_that_changes_its_own_tables_all_the_time_costs_few_looks(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, nft = tmp_path / "started", shutil.which("nft")
    counting = tmp_path / "nft"
    counting.write_text(f'#!/bin/sh\necho $PPID >> {started}\nexec {nft} "$@"\n')
    counting.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Mvpn(output) as network, firewall(network, Keys(network)) as fw:
        fw.wait_ready()
        rules, steward = tables(network.fw), str(fw.steward())
        before = started.read_text().splitlines().count(steward)
        began = time.monotonic()
        for number in range(CHANGES):
            network.fw.run(["nft", "add", "table", "inet", f"other{number}"])
        found = started.read_text().splitlines().count(steward) - before
        # A look may be due before the first change, and after the last one.
        looks = LOOKS_PER_S * (time.monotonic() - began) + 2
        assert 1 <= found <= looks
        assert fw.status()["process"]["tables_put_back"] == 0
        assert tables(network.fw) == rules

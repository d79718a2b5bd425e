"""The firewall of a mobile private network: what crosses it, and what does not."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import skip_by_hand
from mvpn_by_hand import (
    ECHO_REPLY,
    Stranger,
    dropped,
    echo,
    ip_packets,
    reaches,
    secret_of,
    send,
    skip_frames,
    wait_dropped,
    wait_reaches,
)

from caravan.testbed.binary import TOP, caravan_binary
from caravan.testbed.capture import IPPROTO_ICMP, Capture
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Settings
from caravan.testbed.mvpn import (
    ANNEX,
    BRANCH,
    CN2,
    CN3,
    CORRESPONDENT,
    HOME,
    HOTEL,
    INSIDE,
    NAT,
    NAT2,
    OUTSIDE,
    PAPER,
    SECOND,
    VISITED,
    Keys,
    Mvpn,
    all_roles,
    firewall,
    home_agent,
    mobile_node,
    walk,
)
from caravan.testbed.traffic import ping, serve_files

pytestmark = pytest.mark.root

UDP = Settings({"udp": True})
DENIED = {"selector-mismatch": 2, "skip-unknown-name": 1, "skip-wrong-algorithm": 1}
SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"


def test_two_nodes_with_the_same_private_address_both_work(output: Path) -> None:
    """The firewall knows them by the outer address and port, and by the home address inside."""
    with Mvpn(output) as network, all_roles(network, wall=UDP, through={"udp": True}) as it:
        second = mobile_node(network, it.keys, through={"udp": True}, host=network.ms2)
        with second as ms2:
            ms2.wait_ready().wait_at(HOME)
            walk(network, it.ms, HOTEL)
            walk(network, ms2, ANNEX)
            wait_reaches(network)
            wait_reaches(network, network.ms2, SECOND)
            assert reaches(network) and reaches(network, network.ms2, SECOND)
            entries = it.fw.mobility()["entries"]
            places = [one["care_of"].split(":")[0] for one in entries]
            assert places == [NAT, NAT2]
            bindings = {one["home_address"]: one["care_of"] for one in it.ha.mobility()["bindings"]}
            assert bindings == {MOBILE: HOTEL.care_of, SECOND: HOTEL.care_of}


def test_a_node_that_wrongly_asks_from_inside_is_served(output: Path) -> None:
    with Mvpn(output) as network, all_roles(network, through={"side": "outside"}) as it:
        walk(network, it.ms, BRANCH)
        assert it.fw.mobility()["entries"][0]["care_of"] == f"{BRANCH.care_of}:0"
        wait_reaches(network)


def changes(host: Host) -> list[str]:
    """What the program may have changed on a host."""
    commands = ("ip rule", "ip -4 route show table all", "ip addr", "nft list ruleset")
    lines = "".join(host.run(one.split()).stdout for one in commands).splitlines()
    return sorted(line.split(" valid_lft")[0] for line in lines)


def test_down_opens_the_host_and_leaves_nothing_but_a_kill_does_not(output: Path) -> None:
    with Mvpn(output) as network:
        keys = Keys(network)
        before = changes(network.fw)
        with home_agent(network) as ha, firewall(network, keys) as killed:
            for role in (ha, killed):
                role.wait_ready()
            killed.process.signal(signal.SIGKILL)
            killed.process.wait(5)
            assert "table inet" in "".join(changes(network.fw))
            fw = firewall(network, keys).wait_ready()
            with mobile_node(network, keys) as ms:
                ms.wait_ready().wait_at(HOME)
                walk(network, ms, VISITED)
                wait_reaches(network)
                assert "table inet" in "".join(changes(network.ms))
                ms.down()
            fw.down()
        assert changes(network.fw) == before
        abroad = "".join(changes(network.ms))
        assert "table inet" not in abroad and MOBILE not in abroad


def test_a_correspondent_learns_what_both_tunnels_carry(output: Path) -> None:
    """RFC 2003 §5.1: a packet that is too big in the second tunnel is reported to the first one,
    and that reports the next one to the sender."""
    with Mvpn(output) as network, all_roles(network, PAPER) as it:
        walk(network, it.ms, VISITED)

        def largest() -> int:
            shown = network.cn1.run(["ip", "route", "get", MOBILE]).stdout
            found = re.search(r"mtu (\d+)", shown)
            return int(found[1]) if found else 1500

        sizes = [largest()]
        for _ in range(20):
            pong = ping(
                network.cn1, MOBILE, 1, 0.2, sizes[-1] - 28, timeout_s=0.5, dont_fragment=True
            )
            if pong.received:
                break
            sizes.append(largest())
        assert pong.received == 1, sizes
        # IP in IP twice, and then SKIP, AH and ESP in an outer header.
        assert 1300 < sizes[-1] < 1500 - 20 - 20 - 32 - 24 - 16, sizes


def test_on_a_visited_link_nobody_but_the_firewall_reaches_the_node(output: Path) -> None:
    """The node's own packet filter: what its file opens in clear passes, and nothing else does."""
    with Mvpn(output) as network, all_roles(network, through={"clear": ["tcp/80"]}) as it:
        walk(network, it.ms, VISITED)
        serve_files(network.cn2, output, CN2)
        # A host of the link may send to the home address, too.
        network.cn2.run(["ip", "route", "add", MOBILE, "dev", "eth0"])
        network.cn2.add_neighbour("eth0", MOBILE, network.ms.hardware_address("eth0"))
        for address in (MOBILE, VISITED.care_of):
            assert ping(network.cn2, address, 1, timeout_s=0.5).received == 0
        care_of = VISITED.care_of
        asked = ["ping", "-n", "-c", "1", "-W", "0.5", "-I", care_of, CN2]
        assert network.ms.run(asked, check=False).code != 0
        fetch = ["curl", "--silent", "--interface", care_of, "--max-time", "5"]
        assert network.ms.run([*fetch, f"http://{CN2}/"]).code == 0
        wait_reaches(network)


# The access list.


def test_host_network_and_nomadic_entries_are_searched_in_this_order_then_all_is_denied(
    output: Path,
) -> None:
    """The table of the paper: RC2 for a host, RC4 for a network, DES for a node on the move."""
    with Mvpn(output) as network:
        keys = Keys(network, PAPER)
        rc2 = keys.peer("host") | {"crypt": "rc2"}
        rc4 = keys.peer("net") | {"crypt": "rc4"}
        inside = {"inside": ["10.19.0.0/16"]}
        entries = {
            "access.a-net": {"address": "203.0.113.0/24", "skip": rc4} | inside,
            "access.b-host": {"address": "203.0.113.5", "skip": rc2} | inside,
        }
        keys.private("fw")
        cn2 = Stranger(network.cn2, CN2, skip_by_hand.RC2_CBC, secret_of(keys, "host", "fw"))
        node = Stranger(network.cn2, "203.0.113.6", skip_by_hand.RC4, secret_of(keys, "net", "fw"))
        network.cn2.add_address("eth0", "203.0.113.6/24")
        network.r2.add_route("203.0.113.0/24", INSIDE)
        with (
            home_agent(network) as ha,
            firewall(network, keys, Settings(tables=entries)) as fw,
            mobile_node(network, keys) as ms,
        ):
            for role in (ha, fw, ms):
                role.wait_ready()
            ms.wait_at(HOME)
            for one in (cn2, node):
                answer = exchange(network, one, output / one.address)
                opened = skip_by_hand.opened(one.line(b"", answer))
                assert (opened[9], opened[20]) == (IPPROTO_ICMP, ECHO_REPLY)
                assert opened[12:16] == IPv4Address(CORRESPONDENT).packed
            assert dropped(fw) == {}
            # The network's key is not the host's; and nobody has an entry elsewhere.
            as_host = Stranger(network.cn2, CN2, node.crypt, node.master)
            elsewhere = Stranger(network.cn3, CN3, node.crypt, node.master)
            # Nor may the host send elsewhere, or as somebody else.
            wrong = [echo(CN2, HOME_AGENT), echo(CN3, CORRESPONDENT)]
            with Capture(network.fw, "in0", output / "inside") as crossed:
                send(network.cn2, as_host.sealed(echo(CN2, CORRESPONDENT)))
                send(network.cn3, elsewhere.sealed(echo(CN3, CORRESPONDENT)))
                send(network.cn2, *map(cn2.sealed, wrong))
                wait_dropped(fw, DENIED)
            assert ip_packets(crossed) == []
            walk(network, ms, VISITED)
            wait_reaches(network)


def exchange(network: Mvpn, one: Stranger, path: Path) -> bytes:
    """The answer to a ping in SKIP."""
    for _ in range(10):
        with Capture(network.cn2, "eth0", path) as heard:
            send(one.host, one.sealed(echo(one.address, CORRESPONDENT)))
            time.sleep(0.2)
        for frame in skip_frames(heard):
            if frame.source == OUTSIDE:
                return frame.packet
    raise AssertionError(f"no answer to {one.address}")


def test_the_sample_file_and_the_table_in_it_are_right(tmp_path: Path) -> None:
    sample = (TOP / "packaging/firewall.toml").read_text()
    own, table = sample.split("# [access.host]")
    table = "\n".join(line.removeprefix("#").removeprefix(" ") for line in table.splitlines())
    modern, old = tmp_path / "modern", tmp_path / "old"
    for folder, names, group in (
        (modern, ["firewall", "ms1"], ["--group", "x25519"]),
        (old, ["firewall", "host", "net", "nomad"], ["--group", "skip2048", "--legacy"]),
    ):
        folder.mkdir()
        for name in names:
            caravan("pki", "skip", "--name", name, "--out", str(folder), *group)
    (modern / "firewall.toml").write_text(sample)
    caravan("check", str(modern / "firewall.toml"))
    (old / "firewall.toml").write_text(own.split("# A mobile node,")[0] + f"[access.host]{table}\n")
    told = caravan("check", str(old / "firewall.toml"))
    for name, bits in (("host", 56), ("net", 56), ("nomad", 56)):
        assert f"access.{name}.skip: LEGACY: skip-paper with {bits} effective bits" in told


def caravan(*words: str) -> str:
    command = [str(caravan_binary()), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_node_whose_key_stays_on_a_token_goes_out(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "softhsm2.conf"
    (tmp_path / "tokens").mkdir()
    settings.write_text(f"directories.tokendir = {tmp_path}/tokens\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(settings))
    pin = tmp_path / "pin"
    pin.touch(0o600)
    pin.write_text("1234\n")
    token = ("softhsm2-util", "--init-token", "--free", "--label", "caravan")
    subprocess.run([*token, "--pin", "1234", "--so-pin", "5678"], check=True, capture_output=True)
    with Mvpn(output) as network:
        keys = Keys(network)
        at = ("--module", SOFTHSM, "--token", "caravan", "--pin-file", str(pin))
        caravan("pki", "skip", "--name", "ms", "--out", str(keys.folder), *at)
        table = {"module": SOFTHSM, "label": "caravan", "key": "ms", "pin_file": str(pin)}
        node = Settings(tables={"skip": {"token": table}})
        with (
            home_agent(network) as ha,
            firewall(network, keys) as fw,
            mobile_node(network, keys, node) as ms,
        ):
            for role in (ha, fw, ms):
                role.wait_ready()
            assert not (keys.folder / "ms.skip.key").exists()
            ms.wait_at(HOME)
            walk(network, ms, VISITED)
            wait_reaches(network)

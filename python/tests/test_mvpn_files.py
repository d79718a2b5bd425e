"""The files of several firewalls and of SKIP from end to end: what is wrong in one is said with its
place. `test_docs_mobile_ip.py` checks the right ones, those of the page."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from caravan.testbed.binary import TOP, caravan_binary

OWN_KEYS = {"firewall": "firewall", "home-agent": "home-agent", "mobile": "ms1"}
CHAIN = """
[[mobile.firewall.behind]]
outside = "{}"
skip = {{ public = "inner.skip.pub" }}
"""
NODE = """
[mobile.firewall]
outside = "{}"
skip = {{ public = "firewall.skip.pub" }}
"""
PLACE = 'inside = "192.168.5.1"\nnetworks = ["10.18.0.0/16"]\n'


def caravan(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(caravan_binary()), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def folder_with_keys(folder: Path) -> Path:
    folder.mkdir()
    for name in ("firewall", "inner", "home-agent", "ms1"):
        made = caravan("pki", "skip", "--name", name, "--out", str(folder))
        assert made.returncode == 0, made.stderr
    (folder / "ms1.key").touch(0o600)
    (folder / "ms1.key").write_text("30313233343536373839616263646566\n")
    return folder


def check(folder: Path, name: str, part: str) -> str:
    """What `caravan check` says of a file."""
    own = OWN_KEYS[name.removesuffix(".toml")]
    text = part if name == "firewall.toml" else (TOP / "packaging" / name).read_text() + part
    if "[skip]" not in text and "skip =" in text:
        text += f'\n[skip]\nkey = "{own}.skip.key"\n'
    (folder / name).write_text(text)
    done = caravan("check", str(folder / name))
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (NODE.format("203.0.113.1"), "mobile.firewall.inside: it is needed"),
        (NODE.format("203.0.113.1") + 'inside = "192.168.5.1"\n', "mobile.firewall.networks"),
        (NODE.format("10.18.3.1") + PLACE, "mobile.firewall.inside: the home agent ends SKIP"),
        (NODE.format("10.18.3.1") + 'side = "inside"\n', "mobile.firewall.side"),
        (
            "reverse_tunnel = false\n" + NODE.format("10.18.3.1"),
            "mobile.reverse_tunnel: with a firewall or a VPN gateway",
        ),
        (
            'udp = "always"\n' + NODE.format("10.18.3.1"),
            "mobile.udp: with a firewall or a VPN gateway nothing",
        ),
        (
            NODE.format("203.0.113.1") + PLACE + CHAIN.format("203.0.113.1"),
            "mobile.firewall.behind.outside: 203.0.113.1 is there twice",
        ),
        (
            NODE.format("10.18.3.1") + CHAIN.format("192.168.6.2"),
            "it is the home agent's address: the last one",
        ),
        (
            NODE.format("203.0.113.1")
            + PLACE
            + "".join(CHAIN.format(f"192.168.6.{number}") for number in (2, 3, 4)),
            "mobile.firewall.behind: 3 are too many, limit 2",
        ),
    ],
)
def test_what_is_wrong_in_a_nodes_file_is_said_with_its_place(
    part: str, said: str, tmp_path: Path
) -> None:
    folder = folder_with_keys(tmp_path / "keys")
    assert said in check(folder, "mobile.toml", part)


def test_what_is_wrong_in_other_files_is_said_with_its_place(tmp_path: Path) -> None:
    folder = folder_with_keys(tmp_path / "keys")
    own = '[firewall]\noutside = "203.0.113.1"\noutside_interface = "eth0"\ninside = "192.0.2.1"\n'
    node = (
        '\n[access.ms1]\naddress = "*"\nskip = { public = "ms1.skip.pub", remote = "1/10.0.0.7" }'
    )
    inside = '\ninside = ["10.0.0.0/8"]\n'
    host = node.replace('"*"', '"192.0.2.7"') + inside
    for name, part, said in (
        ("firewall.toml", own, "access: there is none"),
        ("firewall.toml", own + node, "name firewall.home_agents, or inside"),
        ("firewall.toml", own + 'end_to_end = ["192.0.2.1"]\n', "the firewall's own address"),
        ("home-agent.toml", host, "mobile nodes alone"),
        ("home-agent.toml", node + inside, "only a firewall lets nodes"),
    ):
        assert said in check(folder, name, part), part


def test_a_slip_of_a_needed_key_is_told_as_such(tmp_path: Path) -> None:
    file = tmp_path / "home-agent.toml"
    file.write_text('[home_agent]\nadress = "10.18.3.1"\nprefix = 24\ninterface = "eth1"\n')
    done = caravan("check", str(file))
    assert done.returncode != 0
    assert "home_agent.adress: did you mean 'address'? That key is missing" in done.stderr


def test_check_names_interfaces_that_are_not_there(tmp_path: Path) -> None:
    folder = folder_with_keys(tmp_path / "keys")
    (folder / "mobile.toml").write_text(
        (TOP / "packaging/mobile.toml").read_text().replace('"wlan0"', '"nowhere0"')
    )
    done = caravan("check", str(folder / "mobile.toml"))
    assert done.returncode == 0, done.stderr
    assert "warning: mobile.interfaces: this host has no interface nowhere0 now" in done.stdout


def test_an_address_inside_that_the_firewall_does_not_have_is_a_warning(tmp_path: Path) -> None:
    """This host has the other address and its interface, so it is the one that is meant."""
    folder = folder_with_keys(tmp_path / "keys")
    line = 'skip = {{ public = "{0}.skip.pub", remote = "1/10.18.3.{1}" }}\n'
    lines = (
        f'[access.{name}]\naddress = "*"\n' + line.format(name, number)
        for name, number in (("ms1", 17), ("inner", 18))
    )
    (folder / "firewall.toml").write_text(
        '[firewall]\noutside = "192.0.2.99"\noutside_interface = "lo"\ninside = "192.0.2.98"\n'
        'home_agents = ["10.18.3.1"]\n[skip]\nkey = "firewall.skip.key"\n' + "".join(lines)
    )
    done = caravan("check", str(folder / "firewall.toml"))
    assert done.returncode == 0, done.stderr
    warnings = [it for it in done.stdout.splitlines() if it.startswith("warning: firewall")]
    assert warnings == [
        "warning: firewall: on this host lo does not have the address 192.0.2.99",
        "warning: firewall.inside: no interface of this host has the address 192.0.2.98",
    ]
    # What the profile lacks is said once, not for each line.
    assert done.stdout.count("has no forward secrecy") == 1
    assert done.stdout.count("breaks a rule of the draft") == 4

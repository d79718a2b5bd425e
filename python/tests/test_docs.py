"""The pages of `docs/vpn-*.md`: their commands are run, on the hosts that they name.

Hosts share one folder, which stands for carrying files from one to the other. A block of Python is
a whole program that must succeed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import DOCS, MOBILE_IP, PAGES, blocks, obey
from strongswan_app import connected_app

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.dot1x.cause import SENTENCES
from caravan.testbed.process import Process
from caravan.testbed.remote_access import GATEWAY_ADDRESS, OPERATOR_ADDRESS6, SERVER_ADDRESS
from caravan.testbed.traffic import download, make_file, serve_files

OTHERS = [page for page in PAGES if page != MOBILE_IP]
README = DOCS.parent / "README.md"
STATUS = DOCS / "vpn-status.md"
MOVING = DOCS / "vpn-moving.md"
PHONES = DOCS / "vpn-phones.md"


def test_the_readme_names_every_page() -> None:
    text = README.read_text()
    pages = [*PAGES, *DOCS.glob("lab*.md")]
    assert [page.name for page in pages if f"docs/{page.name}" not in text] == []


@pytest.mark.root
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != MOBILE_IP], ids=lambda page: page.stem
)
def test_the_commands_of_a_page_do_what_they_say(page: Path, output: Path) -> None:
    folder = output / "folder"
    folder.mkdir(parents=True)
    expected = make_file(output / "www/file", 100_000)
    running: dict[str, Process] = {}
    said = ""
    with RemoteAccess(RemoteAccessConfig(is_dual_stack=page == MOVING), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        if page == MOVING:
            other_network(network)
        hosts = {"client": network.ms, "gateway": network.sg}
        hosts |= {"link": network.server, "authority": network.server}
        for block in blocks(page):
            if block.language == "python":
                subprocess.run([sys.executable, "-c", block.text], check=True, timeout=120)
            if not block.words:
                continue
            host = hosts[block.words[0]]
            if block.language == "toml":
                file = folder / block.words[1]
                before = file.read_text() if block.words[2:] == ("adds",) else ""
                file.write_text(before + block.text)
            else:
                said += obey(host, block, folder, running)
        if page == PHONES:
            passwords = re.findall(r"^password of the certificate: (\S+)$", said, re.M)
            # The last one of the page that has a password.
            device_connects(network, folder / "ben-tablet/ben-tablet.sswan", passwords[-1])
            assert download(network.ms, f"http://{SERVER_ADDRESS}/file").sha256 == expected


def device_connects(network: RemoteAccess, profile: Path, password: str) -> None:
    """strongSwan connects with this profile: first as Windows and Apple's systems, which do not say
    that they read more than SHA-1, and then as the app."""
    network.ms.run(["sh", "-c", f"echo {GATEWAY_ADDRESS} sg.example >> /etc/hosts"])
    old = connected_app(network.ms, profile, password, "signature_authentication = no")
    old.stop()
    old.socket.unlink()
    connected_app(network.ms, profile, password)


def other_network(network: RemoteAccess) -> None:
    """Another network of both families, at the client's `wan1`, which is down."""
    assert network.nat is not None
    router = network.nat.host
    network.ms.connect("wan1", router, "lan1", 1500)
    network.ms.link_down("wan1")
    router.add_address("lan1", "10.0.1.1/24")
    router.add_address("lan1", "2001:db8:0:d::1/64")
    network.sg.add_route("2001:db8:0:d::/64", OPERATOR_ADDRESS6)


def test_the_page_of_status_has_each_state_of_a_mobile_node_and_the_codes_as_they_are() -> None:
    crates = DOCS.parent / "crates"
    node = (crates / "daemon/src/run/mobility/mobile_node/report.rs").read_text()
    word = node.split("fn state_word")[1].split("\n    }\n")[0]
    (page,) = re.findall(r"^## Mobile IP\n(.*?)^## ", STATUS.read_text(), re.M | re.S)
    states = re.findall(r'=> "([^"]+)"', word)
    assert states and all(f"`{state}`" in page for state in states)
    numbers = (crates / "wire/src/mip4/registration.rs").read_text()
    codes = re.findall(r"^\| `denied-(\d+)` \| `(\w+)` \|", page, re.M)
    assert codes and all(f"{name} = {number}," in numbers for number, name in codes)


def test_the_page_of_runs_has_each_cause_of_a_station_without_access() -> None:
    lines = (DOCS / "lab-run.md").read_text().splitlines()
    names = {"identity": "STATION", "server_name": "SERVER", "access_point": "ACCESS POINT"}
    found = [line for line in lines if "STATION" in line or "ACCESS POINT" in line]
    assert found == [f"- {sentence.format(**names)}" for sentence in SENTENCES.values()]

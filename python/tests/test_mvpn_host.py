"""The hosts of a mobile private network: what other programs do to them, and what they lack."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from mvpn_by_hand import reaches

from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import Role
from caravan.testbed.mvpn import VISITED, Keys, Mvpn, all_roles, firewall, walk

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
        assert reaches(network)


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
        # A look may be due before the first change, and after the last one.
        looks = LOOKS_PER_S * (time.monotonic() - began) + 2
        found = started.read_text().splitlines().count(steward) - before
        assert 1 <= found <= looks < CHANGES
        assert fw.status()["process"]["tables_put_back"] == 0
        assert tables(network.fw) == rules

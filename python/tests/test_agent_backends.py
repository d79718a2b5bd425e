"""Back-ends of tunnel agents, without the agents: each builds one end, tells how it is, and takes
it down. Caravan and strongSwan at each end, with packets; what is left afterwards is nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_ends import (
    CLIENT_NAME,
    NAME,
    OPTIONS,
    TARGET_NAME,
    TUNNEL,
    Backend,
    certificates,
    end,
    issued,
    processes,
    texts,
)

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.capture import IPPROTO_AH, IPPROTO_ESP, IPPROTO_UDP, Capture
from caravan.testbed.caravan import Daemon, environment, order
from caravan.testbed.host import Host
from caravan.testbed.libreswan import Pluto
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.remote_access import GATEWAY_ADDRESS, PRIVATE_NETWORK, SERVER_ADDRESS
from caravan.testbed.strongswan import BareStrongSwan
from caravan.testbed.traffic import ping

pytestmark = pytest.mark.root

ENDS: dict[str, Any] = {
    "addresses": ("", GATEWAY_ADDRESS),
    "networks": (PRIVATE_NETWORK,),
}


@pytest.fixture(scope="module")
def client_pem(authority: CaravanAuthority) -> tuple[Path, Path]:
    """The client's certificate of minutes and its key."""
    made = issued(authority, CLIENT_NAME)
    return made.certificate, made.key


@pytest.fixture(scope="module")
def target_pem(authority: CaravanAuthority) -> tuple[Path, Path]:
    """The target's certificate and its key."""
    made = issued(authority, TARGET_NAME)
    return made.certificate, made.key


@pytest.fixture
def ends(
    client_pem: tuple[Path, Path], target_pem: tuple[Path, Path]
) -> Mapping[str, Mapping[str, Any]]:
    """The credentials of both sides: each trusts the other's certificate alone."""
    return {
        "client": certificates(*client_pem, target_pem[0]),
        "target": certificates(*target_pem, client_pem[0]),
    }


@contextlib.contextmanager
def gateway(host: Host, pem: tuple[Path, Path]) -> Iterator[tuple[Daemon, Backend]]:
    """A running gateway that includes a folder, and the back-end that writes there."""
    folder = host.logs / "gateway"
    tunnels = folder / "tunnels"
    tunnels.mkdir(parents=True)
    file = folder / "gateway.toml"
    certificate, key = pem
    file.write_text(
        '[daemon]\ninclude = "tunnels"\n\n[connections.agents]\n'
        f'local = {{ certs = ["{certificate}"], key = "{key}", id = "{TARGET_NAME}" }}\n'
        f'remote = {{ certs = ["{certificate}"], id = "{TARGET_NAME}" }}\n'
        f'[connections.agents.children.net]\nlocal_ts = ["{PRIVATE_NETWORK}"]\n'
    )
    runtime = environment(host)["CARAVAN_RUNTIME_DIR"]
    which = {"gateway": {"runtime_dir": runtime, "connection": "agents", "folder": str(tunnels)}}
    with Daemon(host, "gateway", file).wait_ready() as daemon, Backend(host, which) as backend:
        yield daemon, backend
        assert list(tunnels.iterdir()) == []


@contextlib.contextmanager
def own_client(host: Host) -> Iterator[Backend]:
    """Client's back-end with processes of its own."""
    folder = runtime_of(host)
    folder.mkdir()
    with Backend(host, {"client": {"folder": str(folder)}}, "agent") as backend:
        yield backend
    # Nothing is left in it.
    folder.rmdir()


def runtime_of(host: Host) -> Path:
    """Where the folders of a client's tunnels are; paths of sockets are short."""
    return Path("/run") / f"{host.namespace}-tunnels"


@contextlib.contextmanager
def charon(host: Host) -> Iterator[Backend]:
    """A running charon without a configuration, and its back-end."""
    with (
        BareStrongSwan(host) as running,
        Backend(host, {"strongswan": {"socket": str(running.socket)}}) as backend,
    ):
        yield backend
        listed = running.swanctl("--list-conns").stdout
        assert NAME not in listed


def alive(host: Host) -> list[int]:
    """The processes of tunnels on a host."""
    words = ("tunnel-end", "--attended", "steward")
    return [pid for word in words for pid in processes(host, word)]


def traces(host: Host) -> set[str]:
    """Links, rules, routes, tables and addresses of a host, by lines."""
    orders = (
        "ip -br link",
        "ip rule",
        "ip route show table all",
        "ip -6 route show table all",
        "ip -br address",
        "nft list ruleset",
    )
    said = [host.run(order.split(), check=False).stdout for order in orders]
    return {line for text in said for line in text.splitlines()}


def wait_untouched(host: Host, before: set[str]) -> None:
    """Wait until a host is as it was."""
    deadline = time.monotonic() + 20
    while traces(host) != before:
        assert time.monotonic() < deadline, traces(host) ^ before
        time.sleep(0.1)


def check_packets(network: RemoteAccess, wanted: set[int]) -> None:
    """The server answers, and what goes over the wire has these protocols."""
    host, interface = network.outer
    with Capture(host, interface, network.ms.logs / "wire.pcap") as capture:
        answer = ping(network.ms, SERVER_ADDRESS, count=3)
        time.sleep(0.2)
    assert answer.received == 3
    ipsec = {IPPROTO_AH, IPPROTO_ESP}
    seen = {frame.protocol for frame in capture.frames()}
    assert seen & ipsec == wanted, seen
    if not wanted:
        assert IPPROTO_UDP in seen


@pytest.mark.parametrize("ike", [1, 2])
@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_carries_packets_between_two_caravans_and_leaves_nothing(
    option: str,
    ike: int,
    ends: Mapping[str, Mapping[str, Any]],
    target_pem: tuple[Path, Path],
    output: Path,
) -> None:
    with RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network:
        before = traces(network.ms)
        with gateway(network.sg, target_pem) as (_, target), own_client(network.ms) as client:
            assert client.options == target.options == list(OPTIONS)
            target.build(end("target", option, ends["target"], **ENDS, ike=ike))
            if option == "Native":
                network.open_clear_route()
            client.build(end("client", option, ends["client"], **ENDS, ike=ike))
            client.wait_for("up")
            # Without IKE the gateway cannot see who comes.
            target.wait_for("open" if option == "Native" else "up")
            if option == "Native":
                assert ping(network.ms, SERVER_ADDRESS).received > 0
                network.close_clear_route()
            else:
                # AH is outside; ESP alone goes in UDP.
                check_packets(network, {IPPROTO_AH} if "AH" in option else set())
            client.destroy()
            assert client.state() == ("absent", None)
            wait_untouched(network.ms, before)
            target.destroy()
            assert target.state() == ("absent", None)
            assert ping(network.ms, SERVER_ADDRESS, count=1).received == 0
            client.destroy()
            target.destroy()


def test_a_killed_agent_leaves_no_tunnel_and_no_trace(
    ends: Mapping[str, Mapping[str, Any]], target_pem: tuple[Path, Path], output: Path
) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        before = traces(network.ms)
        with gateway(network.sg, target_pem) as (_, target):
            target.build(end("target", "ESP", ends["target"], **ENDS))
            for has_come in (False, True):
                with own_client(network.ms) as client:
                    client.build(end("client", "ESP", ends["client"], **ENDS))
                    if has_come:
                        client.wait_for("up")
                        check_packets(network, set())
                    client.process.signal(signal.SIGKILL)
                    client.process.wait(5)
                    # One that was only just started may still make its folder.
                    deadline = time.monotonic() + 20
                    while left := [*alive(network.ms), *runtime_of(network.ms).iterdir()]:
                        assert time.monotonic() < deadline, left
                        time.sleep(0.1)
                    wait_untouched(network.ms, before)
            target.wait_for("waiting")
            target.destroy()


@pytest.mark.parametrize("killed", ["tunnel-end", "--attended", "steward"])
def test_whichever_process_of_a_tunnel_is_killed_it_leaves_no_trace(
    killed: str,
    ends: Mapping[str, Mapping[str, Any]],
    target_pem: tuple[Path, Path],
    output: Path,
) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        before = traces(network.ms)
        with gateway(network.sg, target_pem) as (_, target), own_client(network.ms) as client:
            target.build(end("target", "ESP", ends["target"], **ENDS))
            client.build(end("client", "ESP", ends["client"], **ENDS))
            client.wait_for("up")
            (pid,) = processes(network.ms, killed)
            os.kill(pid, signal.SIGKILL)
            client.wait_for("down")
            client.destroy()
            assert client.state() == ("absent", None)
            assert list(runtime_of(network.ms).iterdir()) == []
            assert not alive(network.ms)
            wait_untouched(network.ms, before)
            target.destroy()


def test_what_an_agent_and_its_helper_leave_that_are_killed_the_next_agent_removes(
    ends: Mapping[str, Mapping[str, Any]], target_pem: tuple[Path, Path], output: Path
) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        before, folder = traces(network.ms), runtime_of(network.ms)
        with gateway(network.sg, target_pem) as (_, target), own_client(network.ms) as client:
            target.build(end("target", "ESP", ends["target"], **ENDS))
            client.build(end("client", "ESP", ends["client"], **ENDS))
            client.wait_for("up")
            # Another agent leaves it alone.
            with Backend(network.ms, {"client": {"folder": str(folder)}}, "other"):
                assert client.state() == ("up", None)
            # The agent is stopped, so that it does nothing while it is the last.
            client.process.signal(signal.SIGSTOP)
            (pid,) = processes(network.ms, "tunnel-end")
            os.kill(pid, signal.SIGKILL)
            client.process.signal(signal.SIGKILL)
            client.process.wait(5)
            wait_untouched(network.ms, before)
            deadline = time.monotonic() + 20
            while alive(network.ms):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert [path.name for path in folder.iterdir()] == [NAME]
            with Backend(network.ms, {"client": {"folder": str(folder)}}, "other"):
                assert list(folder.iterdir()) == []
            target.destroy()


def test_a_certificate_of_another_tunnel_opens_none(
    authority: CaravanAuthority,
    ends: Mapping[str, Mapping[str, Any]],
    target_pem: tuple[Path, Path],
    output: Path,
) -> None:
    """The same authority, the same name: only the pinned certificate counts."""
    other = issued(authority, CLIENT_NAME)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        gateway(network.sg, target_pem) as (_, target),
        own_client(network.ms) as client,
    ):
        target.build(end("target", "ESP", ends["target"], **ENDS))
        stolen = certificates(other.certificate, other.key, target_pem[0])
        client.build(end("client", "ESP", stolen, **ENDS))
        for _ in range(20):
            assert client.state()[0] != "up" and target.state()[0] == "waiting"
            time.sleep(0.1)
        client.destroy()
        target.destroy()


PPK = 0xCD
DIGITS = f"{PPK:02x}" * 32


def test_a_ppk_is_in_files_of_root_and_in_the_status_and_nowhere_else(
    ends: Mapping[str, Mapping[str, Any]], target_pem: tuple[Path, Path], output: Path
) -> None:
    with RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network:
        before = traces(network.ms)
        with gateway(network.sg, target_pem) as (daemon, target), own_client(network.ms) as client:
            target.build(end("target", "ESP", ends["target"], **ENDS, ppk=PPK))
            client.build(end("client", "ESP", ends["client"], **ENDS, ppk=PPK))
            client.wait_for("up")
            target.wait_for("up")
            check_packets(network, set())
            status = order(network.sg, "status").check().stdout
            assert f"PPK {NAME}" in status
            file = network.sg.logs / f"gateway/tunnels/{NAME}.ppk"
            assert file.read_text() == DIGITS and file.stat().st_mode & 0o777 == 0o600
            assert DIGITS not in status + daemon.process.stderr() + client.process.stderr()
            assert not [path for path in runtime_of(network.ms).rglob("*") if has_ppk(path)]
            client.destroy()
            target.destroy()
            assert not file.exists()
            wait_untouched(network.ms, before)


def has_ppk(path: Path) -> bool:
    return path.is_file() and DIGITS in path.read_text(errors="replace")


@pytest.mark.parametrize("wrong", [0xCE, None])
@pytest.mark.parametrize("is_of_client", [True, False])
def test_a_wrong_ppk_and_none_open_no_tunnel(
    is_of_client: bool,
    wrong: int | None,
    ends: Mapping[str, Mapping[str, Any]],
    target_pem: tuple[Path, Path],
    output: Path,
) -> None:
    """Certificates are good at both ends."""
    keys = (wrong, PPK) if is_of_client else (PPK, wrong)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        gateway(network.sg, target_pem) as (_, target),
        own_client(network.ms) as client,
    ):
        target.build(end("target", "ESP", ends["target"], **ENDS, ppk=keys[1]))
        client.build(end("client", "ESP", ends["client"], **ENDS, ppk=keys[0]))
        for _ in range(20):
            assert client.state()[0] != "up" and target.state()[0] == "waiting"
            time.sleep(0.1)
        assert ping(network.ms, SERVER_ADDRESS, count=1).received == 0
        client.destroy()
        target.destroy()


def test_the_ppk_of_a_spent_key_opens_nothing(
    ends: Mapping[str, Mapping[str, Any]], target_pem: tuple[Path, Path], output: Path
) -> None:
    """The next tunnel of the same user has the same certificates here, and another key."""
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        gateway(network.sg, target_pem) as (_, target),
        own_client(network.ms) as client,
    ):
        spent = {**ENDS, "ppk": PPK}
        target.build(end("target", "ESP", ends["target"], **spent))
        client.build(end("client", "ESP", ends["client"], **spent))
        client.wait_for("up")
        client.destroy()
        target.destroy()
        following = {**ENDS, "ppk": 0xCE, "tunnel": "b2" * 16}
        target.build(end("target", "ESP", ends["target"], **following))
        client.build(end("client", "ESP", ends["client"], **spent))
        for _ in range(20):
            assert client.state()[0] != "up" and target.state("b2" * 16)[0] == "waiting"
            time.sleep(0.1)
        client.destroy()
        target.destroy("b2" * 16)


def test_two_tunnels_at_one_gateway_are_apart(
    authority: CaravanAuthority, target_pem: tuple[Path, Path], output: Path
) -> None:
    names = ("alice@host.example", "bob@host.example")
    tunnels = ("a1" * 16, "b2" * 16)
    made = [issued(authority, name) for name in names]
    with (
        RemoteAccess(RemoteAccessConfig(stations=2), output) as network,
        gateway(network.sg, target_pem) as (_, target),
        contextlib.ExitStack() as stack,
    ):
        clients = [stack.enter_context(own_client(host)) for host in network.stations]
        for tunnel, name, one, lent in zip(
            tunnels, names, made, ("10.99.0.1", "10.99.0.2"), strict=True
        ):
            options = {**ENDS, "names": (name, TARGET_NAME), "tunnel": tunnel, "lent": lent}
            credential = certificates(*target_pem, one.certificate)
            target.build(end("target", "ESP", credential, **options))
            credential = certificates(one.certificate, one.key, target_pem[0])
            client = clients[names.index(name)]
            client.build(end("client", "ESP", credential, **options))
            client.wait_for("up", tunnel)
            target.wait_for("up", tunnel)
        for host in network.stations:
            assert ping(host, SERVER_ADDRESS, count=2).received == 2
        target.destroy(tunnels[0])
        assert ping(network.stations[0], SERVER_ADDRESS, count=2).received == 0
        assert ping(network.stations[1], SERVER_ADDRESS, count=2).received == 2
        clients[0].destroy(tunnels[0])
        clients[1].destroy(tunnels[1])
        target.destroy(tunnels[1])


BY_IKE = [
    pytest.param((ike, is_signed), id=f"{name}-{is_signed}")
    for name, ike in {"ikev1": {"ike": 1}, "ikev2": {}, "ppk": {"ppk": 0xCD}}.items()
    for is_signed in (True, False)
]
"""What an end says of IKE, and whether it has certificates."""


@pytest.mark.parametrize("sides", ["charon-caravan", "caravan-charon", "charon-charon"])
@pytest.mark.parametrize("by", BY_IKE)
def test_caravan_and_strongswan_build_a_tunnel_and_take_it_down(
    by: tuple[Mapping[str, Any], bool],
    sides: str,
    ends: Mapping[str, Mapping[str, Any]],
    target_pem: tuple[Path, Path],
    output: Path,
) -> None:
    client_is, target_is = sides.split("-")
    ike, is_signed = by
    with RemoteAccess(RemoteAccessConfig(), output) as network, contextlib.ExitStack() as stack:
        if target_is == "charon":
            target = stack.enter_context(charon(network.sg))
            assert target.options == ["ESP"]
        else:
            _, target = stack.enter_context(gateway(network.sg, target_pem))
        client = stack.enter_context(
            charon(network.ms) if client_is == "charon" else own_client(network.ms)
        )
        before = traces(network.ms)
        credentials = ends if is_signed else {"client": None, "target": None}
        target.build(end("target", "ESP", credentials["target"], **ENDS, **ike))
        client.build(end("client", "ESP", credentials["client"], **ENDS, **ike))
        client.wait_for("up")
        target.wait_for("up")
        check_packets(network, set())
        client.destroy()
        assert client.state() == ("absent", None)
        target.wait_for("waiting")
        target.destroy()
        assert target.state() == ("absent", None)
        assert ping(network.ms, SERVER_ADDRESS, count=1).received == 0
        wait_untouched(network.ms, before)


def test_a_killed_agent_leaves_nothing_in_charon(
    ends: Mapping[str, Mapping[str, Any]], target_pem: tuple[Path, Path], output: Path
) -> None:
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        gateway(network.sg, target_pem) as (_, target),
        BareStrongSwan(network.ms) as running,
    ):
        before = traces(network.ms)
        target.build(end("target", "ESP", ends["target"], **ENDS))
        for credential in (ends["client"], None):
            with Backend(network.ms, {"strongswan": {"socket": str(running.socket)}}) as client:
                client.build(end("client", "ESP", credential, **ENDS))
                if credential is not None:
                    client.wait_for("up")
                    # Its helper alone: the agent notices, and unloads the tunnel.
                    (pid,) = processes(network.ms, "tunnel-end")
                    os.kill(pid, signal.SIGKILL)
                    client.wait_for("down")
                    client.destroy()
                    assert NAME not in running.swanctl("--list-conns").stdout
                    client.build(end("client", "ESP", credential, **ENDS))
                    client.wait_for("up")
                client.process.signal(signal.SIGKILL)
                client.process.wait(5)
            running.process.wait_for(
                lambda: NAME not in running.swanctl("--list-conns").stdout, "unloading", 20
            )
            assert running.sas() == []
        wait_untouched(network.ms, before)
        target.destroy()


def test_strongswan_refuses_what_its_data_plane_cannot_do(
    ends: Mapping[str, Mapping[str, Any]], output: Path
) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network, charon(network.sg) as target:
        for option in ("Native", "AH", "AH+ESP"):
            with pytest.raises(ValueError, match=r"strongSwan cannot do"):
                target.build(end("target", option, ends["target"], **ENDS))
        assert target.state(TUNNEL) == ("absent", None)


@pytest.mark.parametrize("ike", [{"ike": 1}, {"ppk": PPK}], ids=["ikev1", "ppk"])
@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("side", ["client", "target"])
def test_charon_reads_the_files_that_are_written_for_it(
    ike: Mapping[str, Any],
    side: str,
    is_signed: bool,
    ends: Mapping[str, Mapping[str, Any]],
    output: Path,
) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network, BareStrongSwan(network.sg) as it:
        folder = it.directory / "swanctl"
        (folder / "conf.d").mkdir()
        (folder / "swanctl.conf").write_text("include conf.d/*.conf\n")
        for option in ("Native", "AH", "ESP"):
            credential = ends[side] if is_signed else None
            made = texts("strongswan", end(side, option, credential, **ENDS, **ike), folder)
            for path, text in made.files.items():
                Path(path).write_text(text)
            assert list(made.construct[0]) == ["swanctl", "--load-all", "--noprompt"]
            it.swanctl("--load-all", "--noprompt")
            listed = it.swanctl("--list-conns").stdout
            assert NAME in listed and ("PASS" in listed) == (option == "Native"), listed
            for path in made.files:
                assert any(path in words for words in made.destroy)
                Path(path).unlink()
            it.swanctl("--load-all", "--clear", "--noprompt")
            assert NAME not in it.swanctl("--list-conns").stdout


@contextlib.contextmanager
def pluto(host: Host) -> Iterator[tuple[Pluto, Backend]]:
    """A running pluto, and its back-end, which leaves nothing in its folder and its database."""
    with Pluto(host) as running:
        which = {"libreswan": {"folder": str(running.folder)}}
        with Backend(host, which, more=running.environment) as backend:
            yield running, backend
        assert [path.name for path in running.folder.iterdir()] == ["nss"]
        database = f"sql:{running.folder}/nss"
        for list_all in ("-L", "-K"):
            listed = host.run(["certutil", list_all, "-d", database], check=False).stdout
            assert NAME not in listed


@pytest.mark.parametrize("ike", [{"ike": 1}, {"ppk": PPK}], ids=["ikev1", "ppk"])
@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("side", ["client", "target"])
def test_pluto_loads_each_option_and_unloads_it(
    ike: Mapping[str, Any],
    side: str,
    is_signed: bool,
    ends: Mapping[str, Mapping[str, Any]],
    output: Path,
) -> None:
    with RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network:
        host = network.ms if side == "client" else network.sg
        with pluto(host) as (running, backend):
            assert backend.options == ["Native", "AH", "ESP"]
            for option in ("AH", "ESP"):
                one = end(side, option, ends[side] if is_signed else None, **ENDS, **ike)
                backend.build(one)
                assert backend.state()[0] == "waiting"
                assert NAME in running.ipsec("auto", "--status").stdout
                backend.destroy()
                assert backend.state() == ("absent", None)
            backend.destroy()
            # What an agent that was killed has left, another one takes down.
            which = {"libreswan": {"folder": str(running.folder)}}
            with Backend(host, which, "former", running.environment) as former:
                one = end(side, "ESP", ends[side] if is_signed else None, **ENDS, **ike)
                former.build(one)
                former.process.signal(signal.SIGKILL)
                former.process.wait(5)
            assert backend.state()[0] == "waiting"
            backend.destroy()
            assert backend.state() == ("absent", None)
            with pytest.raises(ValueError, match="libreswan cannot do"):
                backend.build(end(side, "AH+ESP", None, **ENDS))


@pytest.mark.parametrize("inner", ["lent", "outer"])
@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("ike", [{"ike": 1}, {}, {"ppk": PPK}], ids=["ikev1", "ikev2", "ppk"])
def test_pluto_and_caravan_negotiate_as_far_as_the_kernel_goes(
    ike: Mapping[str, Any],
    is_signed: bool,
    inner: str,
    ends: Mapping[str, Mapping[str, Any]],
    output: Path,
) -> None:
    """Pluto lends an address, or Client has its own one inside. Both come to the SAs, which this
    kernel does not have."""
    more = {"inner": "outer"} if inner == "outer" else {}
    credentials = ends if is_signed else {"client": None, "target": None}
    with (
        RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network,
        pluto(network.sg) as (running, target),
        own_client(network.ms) as client,
    ):
        target.build(end("target", "ESP", credentials["target"], **ENDS, **ike) | more)
        client.build(end("client", "ESP", credentials["client"], **ENDS, **ike) | more)
        last = "netlink response for Add SA"
        running.process.wait_for(lambda: last in running.log(), last, 20)
        is_v1 = ike.get("ike") == 1
        assert ("IKE SA established" if is_v1 else "responder established IKE SA") in running.log()
        if is_v1:
            assert ("sent ModeCfg reply" in running.log()) == (inner == "lent")
        assert ("PPK" in running.log()) == ("ppk" in ike)
        if is_signed:
            assert f"using preloaded certificate '{CLIENT_NAME}'" in running.log()
        client.destroy()
        target.destroy()

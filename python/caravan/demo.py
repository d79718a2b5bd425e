"""The demonstration: a client reaches a private server through an operator's NAT.

`python -m caravan.demo` sets up MS, NAT, SG and server in namespaces, shows the handshakes of IKEv2
and IKEv1 as they happen, each with a file through its tunnel, and both in one table. Then a station
changes its network under a download, and every policy of the paper and of today is measured.
Everything that it prints comes from this run.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from caravan import guest, walk
from caravan.report.walk import write_picture
from caravan.study.commands import run_and_report
from caravan.study.runner import Choice
from caravan.testbed import NamespaceError, RemoteAccess, RemoteAccessConfig, enter
from caravan.testbed.caravan import READY_S, Caravan, HandshakeMessage
from caravan.testbed.connection import Connection
from caravan.testbed.relay import LinkConfig
from caravan.testbed.remote_access import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.roaming import CELL, ROUND_TRIP_S, WIFI, RoamNetwork
from caravan.testbed.traffic import Growth, download, endless_download, make_file, serve_files
from caravan.threeways.measurement import (
    PUBLISHED_HTTP_PORT,
    SIZES_BYTES,
    Cost,
    Keys,
    elapsed_ms,
    measure,
    transport_ends,
    tunnel_ends,
)
from caravan.threeways.sizes import POLICIES, wire_bytes

FILE_BYTES = 4_000_000
LEGACY = ("null-md5", "des", "3des", "des-md5", "3des-md5")
POLL_S = 0.02
SETTLE_S = 0.5
"""Before a move: the download is at its rate then."""
MARKER = ".caravan-demo"
"""The file that tells a folder of the demonstration."""
MARKER_TEXT = "The demonstration of Caravan has made this folder. Each run empties it.\n"

console = Console(highlight=False, soft_wrap=True)


def main(
    output: Annotated[Path, typer.Option(help="folder for captures and logs")] = Path("demo-out"),
    seconds: Annotated[int, typer.Option(help="seconds of TCP for each policy")] = 2,
    rate: Annotated[str, typer.Option(help="rate of the access link, such as 2mbit")] = "",
    delay: Annotated[str, typer.Option(help="its one-way delay, such as 50ms")] = "",
) -> None:
    """Run a tunnel through a NAT and print what each policy costs."""
    enter()
    began = time.monotonic()
    output = own_folder(output.resolve())
    console.print("[bold]Caravan[/]: ms - nat - sg - server\n")
    keys = Keys.make(output / "pki")
    expected = make_file(output / "www/file", FILE_BYTES)
    link = LinkConfig(rate=rate or None, delay=delay or None) if rate or delay else None
    capture = show_handshakes(output, keys, link, expected)
    show_roam(output, keys)
    with RemoteAccess(RemoteAccessConfig(link=link), output / "policies") as network:
        costs = measure_all(network, keys, seconds, output)
    console.print(cost_table(costs), "")
    picture = show_walk(output)
    show_guest(output, expected)
    console.print("[bold]The lab[/]: the paper's network by closed forms and by simulation")
    report = run_and_report("umts", Choice(is_quick=True), output / "lab", console)
    console.print(f"\n{time.monotonic() - began:.0f} s in total; all figures come from this run.\n")
    say_next(output, capture, report, picture)


def own_folder(path: Path) -> Path:
    """A folder of the demonstration, without what an earlier one has left there.

    `FileExistsError` if it holds anything and no demonstration has made it.
    """
    path.mkdir(parents=True, exist_ok=True)
    marker = path / MARKER
    left = [one for one in path.iterdir() if one != marker]
    is_own = not marker.is_symlink() and marker.is_file() and marker.read_text() == MARKER_TEXT
    if not is_own:
        if left or marker.is_symlink() or marker.exists():
            raise FileExistsError(
                f"{path} holds files that no demonstration has made, and each empties its folder: "
                "name another with --output"
            )
        marker.write_text(MARKER_TEXT)
    for one in left:
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink()
    return path


class Shown(NamedTuple):
    """A key exchange that was shown: what it is, and its messages."""

    what: str
    messages: Sequence[HandshakeMessage]


def show_handshakes(output: Path, keys: Keys, link: LinkConfig | None, expected: str) -> Path:
    """Show the key exchanges of today and of the paper, then both in one table; returns the first
    one's capture."""
    suite = "aes128gcm16-modp2048"
    inside = f"http://{SERVER_ADDRESS}/file"
    published = f"http://{GATEWAY_ADDRESS}:{PUBLISHED_HTTP_PORT}/file"
    kinds = (
        ("IKEv2 with ML-KEM, tunnel mode", "ikev2", tunnel_ends(keys), inside),
        (
            "IKEv1 of the paper, transport mode",
            "transport",
            transport_ends(keys, suite, version=1),
            published,
        ),
        ("IKEv1, tunnel mode", "tunnel", tunnel_ends(keys, suite, version=1), inside),
    )
    shown = []
    with RemoteAccess(RemoteAccessConfig(link=link), output / "logs") as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        for what, name, ends, url in kinds:
            console.print(what + (" (deprecated, RFC 9395)" if ends[0].version == 1 else ""))
            capture = output / f"{name}.pcapng"
            shown.append(Shown(what, show(network, ends, url, expected, capture)))
    console.print(handshake_table(shown), "")
    return output / f"{kinds[0][1]}.pcapng"


def show(
    network: RemoteAccess,
    ends: tuple[Connection, Connection],
    url: str,
    expected: str,
    capture: Path,
) -> Sequence[HandshakeMessage]:
    """Bring a connection up, show its handshake, and fetch a file over it."""
    on_gateway, on_station = ends
    with Caravan(network.sg, on_gateway) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, on_station, options=["--capture", str(capture)]) as station:
            messages = follow_handshake(station)
            fetched = download(network.ms, url)
    verdict = "[green]hash equal[/]" if fetched.sha256 == expected else "[red]hash DIFFERS[/]"
    console.print(
        f"  {url}: {fetched.received_bytes:,} bytes in {fetched.seconds * 1000:.0f} ms, "
        f"{fetched.mbit_s:.0f} Mbit/s, {verdict}\n"
    )
    if fetched.sha256 != expected:
        raise typer.Exit(1)
    return messages


def follow_handshake(station: Caravan) -> list[HandshakeMessage]:
    """Print each message of the key exchange when the client logs it, until the tunnel is up;
    returns them."""
    shown: list[HandshakeMessage] = []
    deadline = time.monotonic() + READY_S
    is_ready = False
    while not is_ready:
        if time.monotonic() > deadline:
            station.wait_ready(0)
        # Check for readiness before reading the log, so that all earlier messages are printed.
        is_ready = station.is_ready()
        for message in station.handshake()[len(shown) :]:
            shown.append(message)
            console.print(handshake_line(len(shown), message, shown[0].time_s))
        time.sleep(POLL_S)
    return shown


def handshake_line(number: int, message: HandshakeMessage, first_s: float) -> str:
    """One line: time, direction, exchange, size and payloads."""
    arrow = "ms -> sg" if message.direction == "sent" else "ms <- sg"
    plural = "" if message.datagrams == 1 else "s"
    elapsed_ms = (message.time_s - first_s) * 1000
    return (
        f"  {number} {arrow} {elapsed_ms:7.1f} ms  {message.exchange:<13}"
        f"{message.size_bytes:5} bytes in {message.datagrams} datagram{plural:<1}  "
        f"{message.payloads}"
    )


def handshake_table(shown: Sequence[Shown]) -> Table:
    """The totals of each key exchange, one row each."""
    table = Table(
        title="What each key exchange takes",
        caption="bytes of UDP payload; from the station's first message to the last one, as it saw "
        "them",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("key exchange", no_wrap=True)
    for heading in ("messages", "datagrams", "bytes", "ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for what, messages in shown:
        table.add_row(
            what,
            str(len(messages)),
            str(sum(message.datagrams for message in messages)),
            f"{sum(message.size_bytes for message in messages):,}",
            _number(elapsed_ms(messages), 1),
        )
    return table


def measure_all(network: RemoteAccess, keys: Keys, seconds: int, output: Path) -> list[Cost]:
    """Every policy in the table's order."""
    costs = []
    packets = output / "packets"
    packets.mkdir()
    with console.status("") as status:
        for policy in POLICIES:
            status.update(f"measuring {policy}")
            costs.append(measure(network, keys, policy, seconds, packets))
    return costs


def cost_table(costs: list[Cost]) -> Table:
    """The table, one row per policy."""
    table = Table(
        title="What each policy costs (transport mode, ESP in UDP; * legacy, RFC 8221)",
        caption="bytes of an IP packet on the NAT's outer link: captured/RFC/paper",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("policy", no_wrap=True)
    sizes = [f"{size} B\non the wire" for size in SIZES_BYTES]
    for heading in ("IKE\nms", *sizes, "TCP\nMbit/s", "RTT\nms", "CPU\ns/GB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cost in costs:
        table.add_row(
            cost.policy + (" *" if cost.policy in LEGACY else ""),
            _number(cost.handshake_ms, 1),
            *(wire_cell(cost.policy, size, cost.wire_bytes[size]) for size in SIZES_BYTES),
            _number(cost.mbit_s, 0),
            _number(cost.rtt_ms, 3),
            _number(cost.cpu_s_per_gb, 1),
        )
    return table


def wire_cell(policy: str, size: int, captured: int) -> str:
    """Captured, RFC's and paper's sizes; red if the first two differ."""
    by_rfc, by_paper = (
        sizes[0] if (sizes := wire_bytes(policy, (size,), accounting)) else None
        for accounting in ("rfc", "paper-u")
    )
    seen = str(captured) if captured == by_rfc else f"[red]{captured}[/]"
    return f"{seen}/{by_rfc}/{'-' if by_paper is None else by_paper}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def open_commands(capture: Path) -> tuple[str, str]:
    """Shell commands that show the content of a capture decrypted: of ESP, and of IKE."""
    path = shlex.quote(os.path.relpath(capture))
    tshark = f"WIRESHARK_CONFIG_DIR={path}.keys tshark -r {path}"
    return f"{tshark} -Y http", f"{tshark} -O isakmp -Y isakmp"


def show_roam(output: Path, keys: Keys) -> None:
    """Let a station of IKEv2 change its network under a download, and show the download's gap."""
    console.print("[bold]MOBIKE[/]: a station leaves one network for another under a download")
    with RoamNetwork(output / "roam") as network:
        gateway, station = tunnel_ends(keys)
        with (
            Caravan(network.sg, gateway).wait_ready(),
            Caravan(network.ms, station).wait_ready(),
            endless_download(network.ms, network.server, SERVER_ADDRESS) as fetching,
        ):
            for place in (CELL, WIFI):
                with Growth(fetching.path) as growth:
                    time.sleep(SETTLE_S)
                    network.move(place)
                    fetching.wait_for_more()
                console.print(roam_line(place.name, growth.longest_pause_s()))
    console.print("  the same tunnel, keys and TCP connection, and the same octets\n")


def roam_line(place: str, gap_s: float) -> str:
    """One line: where the station went, and the download's gap."""
    return (
        f"  to {place}: the download pauses for {gap_s * 1000:.0f} ms, in which TCP repeats what "
        f"was lost; a round trip is {ROUND_TRIP_S * 1000:.0f} ms"
    )


def show_walk(output: Path) -> Path:
    """Let a mobile node walk out of its company's network and home again; returns the picture."""
    console.print(
        "[bold]Mobile IPv4[/]: a node leaves its company's network under a download; SKIP"
    )
    console.print("goes from it through the firewall, which denies everything else")
    folder = output / "walk"
    folder.mkdir()
    with console.status("walking"):
        walked = walk.go(folder)
    for visit in walked.visits:
        gap = "" if visit.gap_s is None else f", nothing for {visit.gap_s * 1000:.0f} ms before"
        console.print(f"  {visit.place:<13} {visit.received_bytes / 1e6:4.1f} MB{gap}")
    console.print("  the same address and TCP connection all the way, and the same octets\n")
    return write_picture(walked, output)


def show_guest(output: Path, expected: str) -> None:
    """Let a user come in from a borrowed machine by a key that works once, and try it again."""
    console.print("[bold]Tunnel agents[/]: a user at a borrowed machine, with a key from his sheet")
    with console.status("asking"):
        visit = guest.go(output / "guest", output / "www")
    for step in visit.steps:
        console.print(f"  {step.role:<7} {step.name:<14}{step.time_s * 1000:7.1f} ms")
    fetched = visit.fetched
    same = fetched.sha256 == expected
    verdict = "[green]hash equal[/]" if same else "[red]hash DIFFERS[/]"
    console.print(f"  {guest.URL}: {fetched.received_bytes:,} bytes, {verdict}")
    console.print(f"  the same key again: {visit.refusal}\n", markup=False)
    if not same:
        raise typer.Exit(1)


def say_next(output: Path, capture: Path, report: Path, picture: Path) -> None:
    """What to look at and what to try."""
    logs = os.path.relpath(output / "logs")
    inside, ike = open_commands(capture)
    console.print(f"Open  {inside}")
    console.print("      shows the request inside ESP; the keys are beside the capture")
    console.print(f"      {ike}")
    console.print("      shows the IKE messages; wireshark works too")
    console.print(f"See   {os.path.relpath(report)}")
    console.print("      in a browser: the paper's figures and numbers beside ours")
    console.print(f"      {os.path.relpath(picture)}: what the mobile node received, and where")
    console.print(f"Read  {logs}/ms/caravan/caravan.toml and {logs}/sg/caravan/caravan.toml")
    console.print("      for the configuration of both ends")
    console.print("Try   target/release/caravan bench    to measure each suite on this machine")
    console.print("      .venv/bin/python -m caravan.demo --rate 2mbit --delay 50ms")
    console.print("      to use a link like the paper's radio")


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except (NamespaceError, FileNotFoundError, FileExistsError) as failure:
        console.print(f"demo: {failure}", style="red", markup=False)
        raise SystemExit(1) from None

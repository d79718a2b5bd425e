"""Answers as tables for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from caravan.lab.columns import show as _show
from caravan.lab.columns import standing as _standing
from caravan.lab.columns import table as _table
from caravan.lab.core import version
from caravan.lab.layers import why
from caravan.lab.policies import Policies
from caravan.numbers import missing, significant

if TYPE_CHECKING:
    from rich.console import Console


def price(console: Console, found: Mapping[str, Any]) -> None:
    """The cost of a packet, part by part."""
    header_bytes = found["packet_bytes"] - found["payload_ratio"] * found["protected_bytes"]
    console.print(
        f"{found['suite']} on {found['profile']}, {found['direction']}: "
        f"{found['packet_bytes']:g} bytes become {found['protected_bytes']:g} "
        f"({found['accounting']}), {found['payload_ratio']:.1%} of them user data, "
        f"which follows {header_bytes:g} bytes of headers",
        markup=False,
    )
    for unit in ("operations", "cycles"):
        if found[unit] is not None:
            console.print(f"{significant(found[unit], 7)} {unit}, {found['time_ms']:.6g} ms")
    if found["operations"] is None and found["cycles"] is None:
        console.print(f"{found['time_ms']:.6g} ms")
    if found["energy_j"] is not None:
        console.print(
            f"{significant(found['energy_j'] * 1e6)} uJ ({found['energy_source']})", markup=False
        )
    table = _table("part", "ms", "source", right=("ms",))
    for part in found["parts"]:
        table.add_row(part["what"], significant(part["time_s"] * 1e3), part["source"])
    if found["parts"]:
        _show(console, table)
    for line in (*found["notes"], *(f"legacy: {it}" for it in found["reasons"])):
        console.print(line, markup=False)


def summary(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `simulate --json`: delays in ms, rates in kbit/s."""
    delay_ci95_s = outcome["delay_ci95_s"]
    station = outcome["scenario"]["nodes"][0]["name"]
    stations = {one["name"]: one for one in outcome["stations"]}
    return {
        "mean_delay_ms": outcome["mean_delay_s"] * 1e3,
        "delay_ci95_ms": None if delay_ci95_s is None else delay_ci95_s * 1e3,
        "throughput_kbps": outcome["throughput_bps"] / 1e3,
        "cpu_queue_bytes": stations[station]["mean_queue_bytes"],
        "protected_kbps": outcome["protected_bps"] / 1e3,
        "stationary": outcome["state"] != "not-stationary",
        "packets": outcome["packets"],
        "wall_s": outcome["wall_s"],
        "state": outcome["state"],
        "percentiles_ms": {
            f"{one['percent']:g}": one["delay_s"] * 1e3 for one in outcome["percentiles"]
        },
        "percentiles_between_ms": {
            f"{one['percent']:g}": [end * 1e3 for end in one["between_s"]]
            for one in outcome["percentiles"]
        },
        "utilisation": {name: one["utilisation"] for name, one in stations.items()},
        "lower_bounds": list(outcome["bytes_alone"]),
        "policy": outcome["policy"],
        "replications": outcome["replications"],
        "seed": outcome["seed"],
        "scenario_hash": outcome["scenario_hash"],
        "version": version(),
        **({"capture": outcome["capture"]} if "capture" in outcome else {}),
    }


def outcome(console: Console, found: Mapping[str, Any], short: Mapping[str, Any]) -> None:
    """A simulation's outcome, station by station."""
    if held := found.get("capture"):
        console.print(_captured(held, found["scenario"]["traffic"]), markup=False)
    width = short["delay_ci95_ms"]
    interval = "" if width is None else f" ± {significant(width, 3)}"
    console.print(
        f"{found['scenario']['title']}: {found['policy']}, {found['state']}\n"
        f"delay {significant(short['mean_delay_ms'], 5)}{interval} ms, "
        f"throughput {significant(short['throughput_kbps'], 5)} kbit/s, "
        f"protected {significant(short['protected_kbps'], 5)} kbit/s\n"
        f"{found['packets']:,} packets in {found['wall_s']:.2f} s, "
        f"{found['replications']} replications, seed {found['seed']}",
        markup=False,
    )
    right = ("busy", "wait, ms", "waiting, bytes")
    table = _table("queue", *right, right=right)
    for one in found["stations"]:
        table.add_row(
            one["name"],
            f"{one['utilisation']:.1%}",
            significant(one["mean_wait_s"] * 1e3),
            significant(one["mean_queue_bytes"]),
        )
    _show(console, table)
    _bounds(console, found["bytes_alone"])


def _bounds(console: Console, nodes: Sequence[str]) -> None:
    """Note that the work of these nodes, and everything that depends on it, is a lower bound."""
    if nodes:
        names = ", ".join(nodes)
        console.print(
            f"lower bound: {names} has a cost per byte but no cost per packet; real delays and "
            "loads are higher",
            markup=False,
        )


def _captured(held: Mapping[str, int], traffic: Mapping[str, Any]) -> str:
    """How a capture was read."""
    said = (
        f"capture: {held['packets']:,} packets used, {held['strange']:,} are not IP, "
        f"{held['unwanted']:,} are of other hosts"
    )
    if held["returning"] and "station" not in traffic["model"]:
        said += (
            f"; both directions were sent {traffic['direction']}: traffic.station selects one host"
        )
    return said


def kernel(console: Console, found: Mapping[str, Any]) -> None:
    """Closed forms beside the results of the real machines on simulated links."""
    model, run = found["model"], found["simulate"]
    scenario = found["scenario"]
    console.print(f"{scenario['title']}: {scenario['policy']}", markup=False)
    exchange = run["exchange"]
    if exchange is not None and not exchange["is_up"]:
        # Simulated values alone have nothing to be compared with.
        console.print(f"{run['events']:,} events, {significant(run['simulated_s'])} s simulated")
        return
    table = _table("", "model", "simulate", "differ by", right=("model", "simulate", "differ by"))
    for name, computed, simulated in _both_levels(model, run):
        if simulated is None:
            continue
        apart = "-" if not computed else f"{simulated / computed - 1:+.1%}"
        table.add_row(name, significant(computed), significant(simulated), apart)
    _show(console, table)
    cut = (run["streamed"] or {}).get("cut")
    if cut and cut["packets"]:
        console.print(
            f"{cut['packets']:,} datagrams were cut at {cut['limit_bytes']:,} bytes: "
            f"their mean became {significant(cut['sent_mean_bytes'], 5)} "
            f"instead of {significant(cut['asked_mean_bytes'], 5)} bytes"
        )
    _unpriced(console, run["unpriced"])
    _bounds(console, found["bytes_alone"])
    console.print(
        f"{run['events']:,} events, {significant(run['simulated_s'])} s simulated "
        f"in {found['wall_s']:.2f} s\ntrace {run['fingerprint']}"
    )


def _unpriced(console: Console, what: str | None) -> None:
    """The first work without a cost; it makes the handshake a lower bound."""
    if what is not None:
        console.print(
            f"lower bound: the handshake leaves out what has no cost: {what}", markup=False
        )


def flows(console: Console, found: Mapping[str, Any]) -> None:
    """The event kernel's results for the flows and links of a graph."""
    run, policies = found["simulate"], Policies.of(found)
    console.print(f"{found['scenario']['title']}: {', '.join(policies.names)}", markup=False)
    right = ("sent", "came", "kbit/s", "delay, ms")
    # one policy for all is in the title
    own = ("policy",) if len(policies.names) > 1 else ()
    table = _table("flow", *own, *right, "missing", right=right)
    for flow in run["flows"]:
        policy = (policies.of_flows[flow["name"]],) if own else ()
        table.add_row(flow["name"], *policy, *_flow(flow))
    if run["flows"]:
        _show(console, table)
        right = ("packets up", "bytes up", "packets down", "bytes down")
        table = _table("link, delivered", *right, right=right)
        for link in run["links"]:
            what = ("delivered", "delivered_bytes")
            counts = (link[way][name] for way in ("up", "down") for name in what)
            table.add_row(link["name"], *(f"{count:,}" for count in counts))
        _show(console, table)
    _arrivals(console, found["model"], run)
    _moves(console, [*run.get("mobile", ()), *run["tunnels"]])
    for drop in run["drops"]:
        console.print(
            f"{drop['place']} dropped {drop['packets']:,}: {drop['reason']}", markup=False
        )
    _unpriced(console, run["unpriced"])
    _bounds(console, found["bytes_alone"])
    console.print(
        f"{run['events']:,} events, {significant(run['simulated_s'])} s simulated "
        f"in {found['wall_s']:.2f} s\ntrace {run['fingerprint']}"
    )


ARRIVAL = {
    "eap_start_s": "EAP asked for, ms",
    "eap_s": "EAP, ms",
    "discovery_s": "discovery, ms",
    "registration_s": "registration, ms",
    "tunnel_s": "tunnel, ms",
    "transport_s": "TLS, ms",
    "all_s": "all, ms",
}
"""The parts of a node's arrival under a policy of layers, by the native core's names."""


def _arrivals(console: Console, model: Mapping[str, Any] | None, run: Mapping[str, Any]) -> None:
    """The parts of each node's arrival that any has; closed forms beside them if the scenario has
    any."""
    held = (("model", model or {}), ("simulate", run))
    arrivals = [(level, one) for level, level_run in held for one in level_run.get("admitted", ())]
    shown = [part for part in ARRIVAL if any(one[part] is not None for _, one in arrivals)]
    names = tuple(ARRIVAL[part] for part in shown)
    table = _table("arrival", "level", *names, right=names)
    for level, one in arrivals:
        parts = (one[part] for part in shown)
        cells = ("-" if part is None else significant(part * 1e3) for part in parts)
        table.add_row(one["station"], level, *cells)
    if table.row_count:
        _show(console, table)


def _moves(console: Console, nodes: Sequence[Mapping[str, Any]]) -> None:
    """The gap of each move: until the node was reachable, and until data came to it there. Where
    nodes have gateways, the messages of their moves, too."""
    moves = [(node["station"], move) for node in nodes for move in node.get("moves", ())]
    told = ("rounds", "message_bytes") if any("rounds" in move for _, move in moves) else ()
    names = tuple(name.replace("_", " ") for name in told)
    right = ("at, s", "reachable after, ms", "data after, ms", *names)
    table = _table("node", "moved to", *right, right=right)
    for station, move in moves:
        gaps = (move["gap_s"], move["data_gap_s"])
        cells = ["-" if gap is None else significant(gap * 1e3) for gap in gaps]
        cells += [f"{move[name]:,}" if name in move else "" for name in told]
        table.add_row(station, move["to"], significant(move["at_s"]), *cells)
    if table.row_count:
        _show(console, table)


def _flow(flow: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """Sent, received, rate, mean delay, and the missing datagrams."""
    moved, streamed = flow["transferred"], flow["streamed"]
    if moved is not None:
        rate = significant(moved["throughput_bps"] / 1e3)
        return f"{moved['bytes']:,} B", f"{moved['received_bytes']:,} B", rate, "", ""
    gaps = missing(flow["numbers"], streamed["sent"])
    first = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in gaps[:4])
    more = f" and {len(gaps) - 4} more gaps" if len(gaps) > 4 else ""
    return (
        f"{streamed['sent']:,}",
        f"{streamed['received']:,}",
        significant(streamed["throughput_bps"] / 1e3),
        significant(streamed["mean_delay_s"] * 1e3) if streamed["received"] else "-",
        first + more,
    )


def _both_levels(
    model: Mapping[str, Any], run: Mapping[str, Any]
) -> Iterator[tuple[str, float | None, float | None]]:
    """Values of both levels: name, the model's and the simulation's."""
    exchange, trips, moved = run["exchange"], run["round_trips"], run["transferred"]
    if exchange is not None:
        handshake_s = exchange["handshake_s"]
        seconds = model["handshake_s"]
        yield (
            "handshake, ms",
            None if seconds is None else seconds * 1e3,
            None if handshake_s is None else handshake_s * 1e3,
        )
        yield "handshake, bytes", model["handshake_wire_bytes"], exchange["wire_bytes"]
    wire = dict(map(tuple, model["wire_bytes"]))
    for clear, simulated in run["wire_bytes"]:
        yield f"{clear} bytes on the wire", wire.get(clear), simulated
    if trips is not None:
        yield "round trip, ms", model["round_trip_s"] * 1e3, trips["mean_s"] * 1e3
    streamed = run["streamed"]
    if streamed is not None:
        yield "delay, ms", None, streamed["mean_delay_s"] * 1e3
        yield f"datagrams that came, of {streamed['sent']:,}", None, streamed["received"]
    if moved is not None:
        yield "TCP, kbit/s", model["throughput_bps"] / 1e3, moved["throughput_bps"] / 1e3


def listing(console: Console, kind: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """All devices, links or policies."""
    if kind == "device":
        table = _table("device", "counts", "MHz", "suites", "title", right=("MHz", "suites"))
        for row in rows:
            clock = significant(row["clock_mhz"])
            table.add_row(row["name"], row["unit"], clock, str(len(row["suites"])), row["title"])
    elif kind == "link":
        right = ("up, kbit/s", "down, kbit/s", "delay, ms")
        table = _table("link", *right, "title", right=right)
        for row in rows:
            rate = row["link"]["rate"]
            table.add_row(
                row["name"],
                f"{rate['up_bps'] / 1e3:,.10g}",
                f"{rate['down_bps'] / 1e3:,.10g}",
                f"{row['link']['delay_s'] * 1e3:g}",
                row["title"],
            )
    else:
        table = _table("policy", "suite", "key exchange", "title", "why")
        for row in rows:
            standing = _standing(row["standing"], is_forbidden=row["is_forbidden"])
            keys = row["key_exchange"]
            said = _standing(keys["standing"], is_forbidden=keys["is_forbidden"]) if keys else ""
            exchange = f"{keys['name']} {said}" if keys else ""
            table.add_row(row["name"], standing, exchange, row["title"], why(row))
    _show(console, table)


def names(console: Console, every: Mapping[str, Sequence[str]]) -> None:
    """The catalogue's names, a line for each kind."""
    for kind, found in every.items():
        console.print(f"{kind}: {', '.join(found)}", markup=False)


def thing(console: Console, kind: str, shown: Mapping[str, Any]) -> None:
    """One device, link, policy, scenario or study."""
    if kind == "study":
        _study(console, shown)
        return
    if kind == "scenario":
        _scenario(console, shown)
        return
    console.print(f"{shown['name']}: {shown['title']} ({shown['file']})", markup=False)
    if kind == "device":
        console.print(f"suites: {', '.join(shown['suites']) or 'none'}", markup=False)
        table = _table("cell", shown["unit"], "source", right=(shown["unit"],))
        for cell in shown["cells"]:
            table.add_row(cell["name"], significant(cell["value"], 6), cell["source"])
        _show(console, table)
    elif kind == "link":
        listing(console, kind, [shown])
        *_, besides = _link(shown["link"])
        console.print(besides or "nothing else", markup=False)
        for source in shown["sources"]:
            console.print(f"{source['key']}: {source['source']}", markup=False)
    else:
        listing(console, kind, [shown])


def layers(console: Console, shown: Mapping[str, Any]) -> None:
    """A policy of layers, and what standards say of each."""
    standing = _standing(shown["standing"], is_forbidden=shown["is_forbidden"])
    console.print(f"{shown['name']}: {shown['title']} ({shown['file']})", markup=False)
    console.print(f"standing: {standing}", markup=False)
    table = _table("layer", "uses", "standing", "why")
    for one in shown["layers"]:
        said = _standing(one["standing"], is_forbidden=one["is_forbidden"])
        table.add_row(one["kind"], one["what"], said, one["why"])
    if shown["layers"]:
        _show(console, table)


def _study(console: Console, shown: Mapping[str, Any]) -> None:
    console.print(f"{shown['name']}: {shown['title']} ({shown['file']})", markup=False)
    console.print(
        f"{shown['printed_values']} printed values, {len(shown['claims'])} sentences and "
        f"{len(shown['figures'])} figures; seed {shown['seed']}\n"
        f"caravan-lab run {shown['name']} -o DIR",
        markup=False,
    )
    table = _table(
        "sweep", "measure", "levels", "scenario or device", "points", "title", right=("points",)
    )
    for sweep in shown["sweeps"]:
        points = math.prod(len(values) for values in sweep["grid"].values())
        table.add_row(
            sweep["name"],
            sweep["measure"],
            ", ".join(sweep["levels"]),
            sweep["of"],
            f"{points * max(1, len(sweep['readings'])):,}",
            sweep["title"],
        )
    _show(console, table)


def _scenario(console: Console, shown: Mapping[str, Any]) -> None:
    found = shown["scenario"]
    console.print(f"{found['name']}: {found['title']}\nhash {shown['hash']}", markup=False)
    traffic = found.get("traffic")
    sent = f", {_traffic(traffic)}" if traffic else ""
    console.print(
        f"policy {found['policy']}, sizes counted as {found['accounting']}{sent}, "
        f"seed {found['seed']}",
        markup=False,
    )
    if traffic is None:
        _graph(console, found)
        return
    right = ("Mbit/s", "ms")
    table = _table("node", "role", "device", "link", *right, "other", right=right)
    for index, node in enumerate(found["nodes"]):
        link = found["links"][index] if index < len(found["links"]) else None
        carries = ("", "", "", "") if link is None else _link(link)
        table.add_row(node["name"], node["role"], _computer(node["computer"]), *carries)
    _show(console, table)


def _traffic(traffic: Mapping[str, Any], direction: str | None = None) -> str:
    rate_bps = traffic["model"].get("rate_bps")
    rate = "" if rate_bps is None else f" at {rate_bps / 1e3:,g} kbit/s"
    return f"{traffic['model']['kind']} {direction or traffic['direction']}{rate}"


def _graph(console: Console, found: Mapping[str, Any]) -> None:
    """Nodes, links, flows and moves of a scenario that branches."""
    names = [node["name"] for node in found["nodes"]]
    table = _table("node", "role", "device")
    for node in found["nodes"]:
        table.add_row(node["name"], node["role"], _computer(node["computer"]))
    _show(console, table)
    right = ("Mbit/s", "ms")
    table = _table("link", "from", "to", "file", *right, "other", right=right)
    for link in found["links"]:
        near = ", ".join(names[index] for index in link["near"]) or "nobody yet"
        table.add_row(link["name"], near, names[link["far"]], *_link(link))
    _show(console, table)
    for flow in found["flows"]:
        way = f"from {names[flow['from']]} to {names[flow['to']]}"
        console.print(f"flow {flow['name']}: {_traffic(flow, way)}", markup=False)
    for step in found["moves"]:
        console.print(f"after {step['at_s']:g} s {_change(step, found, names)}", markup=False)


def _change(step: Mapping[str, Any], found: Mapping[str, Any], names: Sequence[str]) -> str:
    links = [link["name"] for link in found["links"]]
    if "station" in step:
        station = step["station"]
        return f"{names[station['node']]} moves to {links[station['to']]}"
    ((key, value),) = ((key, value) for key, value in step["link"].items() if key != "link")
    name = links[step["link"]["link"]]
    if key == "up":
        return f"{name} {'carries again' if value else 'carries nothing'}"
    if key == "rate":
        up, down = (value[way] / 1e6 for way in ("up_bps", "down_bps"))
        return f"{name} carries {up:,g} Mbit/s up, {down:,g} down"
    if key == "delay_s":
        return f"{name} takes {value * 1e3:g} ms"
    return f"{name} loses {value:g} of the packets"


def _computer(computer: Mapping[str, Any] | None) -> str:
    """A device and its speed."""
    if computer is None:
        return ""
    speed = computer["speed"] or {}
    if "mips" in speed:
        return f"{computer['device']}, {speed['mips']:,g} MIPS"
    if "clock_hz" in speed:
        return f"{computer['device']}, {speed['clock_hz'] / 1e6:,g} MHz"
    return str(computer["device"])


def _link(link: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """A link's name, rate, delay, and what else it does to packets."""
    up, down = (link["rate"][way] / 1e6 for way in ("up_bps", "down_bps"))
    rate = f"{up:,g}" if up == down else f"{up:,g} up, {down:,g} down"
    besides = [f"{key} {link[key]:g}" for key in ("loss", "reorder") if link[key]]
    for key, name in (("queue_bytes", "queue"), ("mtu_bytes", "mtu")):
        if link[key] is not None:
            besides.append(f"{name} {link[key]:,.10g} B")
    if link["overhead_bytes"]:
        besides.append(f"overhead {link['overhead_bytes']:g} B")
    if link.get("access_s"):
        besides.append(f"access_time {link['access_s'] * 1e6:g} us a frame")
    if link.get("is_half_duplex"):
        besides.append("half_duplex: both ways share its time")
    if link["trace"] is not None:
        besides.append(f"trace {link['trace']}")
    return link["link"] or "its own", rate, f"{link['delay_s'] * 1e3:g}", ", ".join(besides)

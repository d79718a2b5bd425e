"""`python -m caravan.bench`: measure, say which targets are met, write BENCHMARKS.md."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from caravan.bench import benches, control, document, figures, planes, roaming, simulators
from caravan.bench.congestion import Congestion, choose
from caravan.bench.figures import Results
from caravan.bench.planes import Effort
from caravan.bench.probe import Probe
from caravan.bench.systems import CARAVAN, CARAVAN_RAW, PEERS, SUITES, Bench
from caravan.testbed import enter
from caravan.testbed.binary import caravan_binary
from caravan.threeways.measurement import Keys

TOP = Path(__file__).resolve().parents[3]
PEERS_DIRECTORY = TOP / ".build/peers"
PRIMITIVES_TIMEOUT_S = 300


class Part(StrEnum):
    """A part that can be measured alone."""

    ROADS = "roads"
    SUITES = "suites"
    HANDSHAKES = "handshakes"
    ROAM = "roam"
    MEMORY = "memory"
    TANDEM = "tandem"
    KERNEL = "kernel"
    PRIMITIVES = "primitives"


@dataclass(frozen=True)
class Scale:
    """How much a run measures; `clients`: in each of `control.RUNS`; `tandem` and `kernel`:
    simulated seconds."""

    planes: Effort
    suites: Effort
    handshakes: int
    alone: int
    clients: int
    moves: int
    rebindings: int
    tunnels: int
    tandem: float
    kernel: int


WHOLE = Scale(Effort(4, 2, 200, 300), Effort(3, 2, 100), 20, 300, 200, 10, 3, 100_000, 3600, 10)
QUICK = Scale(Effort(2, 1, 50, 100), Effort(1, 1, 50), 5, 50, 35, 2, 1, 5_000, 600, 2)


def main(
    output: Annotated[Path, typer.Option(help="where results and logs go")] = Path("bench-out"),
    quick: Annotated[bool, typer.Option("--quick", help="shorter; no document")] = False,
    part: Annotated[list[Part] | None, typer.Option(help="only this; no document")] = None,
    system: Annotated[list[str] | None, typer.Option(help="only this data plane")] = None,
) -> None:
    """Measure Caravan and its peers; write BENCHMARKS.md after a whole run."""
    began = time.monotonic()
    output = output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    # Figures of other parts stay; keys and logs belong to one run.
    for name in ("pki", "logs"):
        shutil.rmtree(output / name, ignore_errors=True)
    parts = part or list(Part)
    programs = build(parts)
    enter()
    congestion = choose()
    machine = document.this_machine(PEERS_DIRECTORY, congestion)
    scale = QUICK if quick else WHOLE
    names = system or [*PEERS, CARAVAN, CARAVAN_RAW]
    keys = Keys.make(output / "pki")
    results = Run(scale, keys, output, names, congestion, programs).results(parts)
    save(output, machine, results)
    text = document.provenance(machine) + "\n\n" + figures.report(results)
    print(text)
    if not quick and not part and not system:
        document.rewrite(TOP / "BENCHMARKS.md", text)
    say(f"{time.monotonic() - began:.0f} s in all; results are in {output}")


# The benches that a part runs, and the crate of each.
BENCHES = {
    Part.ROADS: ("forwarder", "probe"),
    Part.SUITES: ("probe",),
    Part.HANDSHAKES: ("load",),
    Part.MEMORY: ("load",),
    Part.TANDEM: ("tandem",),
    Part.KERNEL: ("kernel",),
}
CRATES = {
    "forwarder": "daemon",
    "probe": "daemon",
    "load": "daemon",
    "tandem": "lab",
    "kernel": "lab",
}


def build(parts: Sequence[Part]) -> dict[str, Path]:
    """The crates' own benches that the parts run, by name.

    Cargo may need the network, which the private namespace does not have.
    """
    wanted = dict.fromkeys(name for part in parts for name in BENCHES.get(part, ()))
    return {name: benches.build(TOP, CRATES[name], name) for name in wanted}


@dataclass(frozen=True)
class Run:
    """Measurements on one scale."""

    scale: Scale
    keys: Keys
    output: Path
    systems: Sequence[str]
    congestion: Congestion
    programs: Mapping[str, Path]

    def results(self, parts: Sequence[Part]) -> Results:
        """All requested parts, in the order of `Part`."""
        makers: dict[Part, Callable[[], Any]] = {
            Part.ROADS: lambda: self.data_planes(self.systems, self.scale.planes),
            Part.SUITES: lambda: self.data_planes(
                [f"caravan {suite}" for suite in SUITES], self.scale.suites
            ),
            Part.HANDSHAKES: self.handshakes,
            Part.ROAM: self.roam,
            Part.MEMORY: self.memory,
            Part.TANDEM: self.tandem,
            Part.KERNEL: self.kernel,
            Part.PRIMITIVES: primitives,
        }
        found = {}
        for part, make in makers.items():
            if part in parts:
                began = time.monotonic()
                found[part.value] = make()
                say(f"{part}: {time.monotonic() - began:.0f} s")
        return Results(self.congestion, **found)

    def data_planes(self, names: Sequence[str], effort: Effort) -> list[planes.PlaneResult]:
        """Data planes by their names, all up at the same time, measured in turns."""
        with self._bench(names[0].replace(" ", "-")) as bench:
            up = []
            for name in names:
                say(f"bringing up {name}")
                up.append(bench.bring_up(name))
            probe = Probe(self.programs["probe"])
            return planes.measure(up, effort, self.congestion, probe, say)

    def handshakes(self) -> list[control.Handshakes]:
        """The engine's part, then the programs'."""
        scale = self.scale
        load = control.Load.prepare(self.programs["load"], self.keys, self.output / "pki/of-load")
        found = []
        for exchange in control.EXCHANGES:
            say(f"handshakes: {exchange.name}")
            found.append(load.alone(scale.alone, exchange))
            with self._bench("handshakes") as bench:
                found += load.of_gateways(bench, exchange, scale.clients)
        say(f"handshakes: {control.IKEV1}")
        found.append(load.alone(scale.alone))
        with self._bench("handshakes") as bench:
            found.append(control.handshakes_of_caravan(bench, self.keys, scale.handshakes))
            found.append(control.handshakes_of_strongswan(bench, self.keys, scale.handshakes))
        return found

    def roam(self) -> list[roaming.Roam]:
        """Moves and a NAT that forgets."""
        say("moves between networks")
        output = self.output / "logs/roam"
        return roaming.measure(self.keys, output, self.scale.moves, self.scale.rebindings)

    def memory(self) -> control.Memory:
        """Idle tunnels, and a client at rest."""
        say(f"memory of {self.scale.tunnels:,} idle tunnels")
        with self._bench("memory") as bench:
            load = self.programs["load"]
            return control.memory(load, bench, self.keys, self.scale.tunnels)

    def tandem(self) -> simulators.Tandem:
        """Rates of the tandem simulator, and the study's grid."""
        say("the tandem simulator, and the whole grid")
        return simulators.tandem(self.programs["tandem"], self.scale.tandem)

    def kernel(self) -> simulators.Kernel:
        """Rates and memory of the event kernel."""
        say("the event kernel")
        return simulators.kernel(self.programs["kernel"], self.scale.kernel)

    def _bench(self, logs: str) -> Bench:
        forwarder = self.programs.get("forwarder")
        return Bench(self.keys, PEERS_DIRECTORY, self.output / "logs" / logs, forwarder)


def primitives() -> str:
    """The table of `caravan bench`."""
    say("caravan bench")
    argv = [str(caravan_binary()), "bench"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=PRIMITIVES_TIMEOUT_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"caravan bench: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def save(output: Path, machine: document.Machine, results: Results) -> None:
    """One JSON file per part, each with the machine; unmeasured parts keep their files."""
    parts: dict[str, Any] = {key: value for key, value in asdict(results).items() if value}
    # The file also describes the machine.
    del parts["congestion"]
    parts["targets"] = [
        asdict(target) | {"is_met": target.is_met} for target in figures.targets(results)
    ]
    for name, content in parts.items():
        text = json.dumps({"machine": asdict(machine), name: content}, indent=2)
        (output / f"{name}.json").write_text(text + "\n")


def say(text: str) -> None:
    """Progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except (
        RuntimeError,
        FileNotFoundError,
        TimeoutError,
        subprocess.SubprocessError,
    ) as failure:
        say(str(failure))
        raise SystemExit(1) from None

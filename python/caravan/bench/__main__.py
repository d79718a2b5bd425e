"""`python -m caravan.bench`: measure, say which targets are met, write BENCHMARKS.md."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from caravan.bench import control, document, figures, roads
from caravan.bench.figures import Results
from caravan.bench.roads import Effort
from caravan.bench.systems import CARAVAN, CARAVAN_RAW, PEERS, SUITES, Bench
from caravan.measurement import Keys
from caravan.testbed import CommandFailed, IsolationError, enter
from caravan.testbed.binary import caravan_binary

TOP = Path(__file__).resolve().parents[3]
PEERS_DIRECTORY = TOP / ".build/peers"
PRIMITIVES_TIMEOUT_S = 300


class Part(StrEnum):
    """What can be measured by itself."""

    ROADS = "roads"
    SUITES = "suites"
    HANDSHAKES = "handshakes"
    MEMORY = "memory"
    PRIMITIVES = "primitives"


@dataclass(frozen=True)
class Plan:
    """How much a run measures."""

    roads: Effort
    suites: Effort
    handshakes: int
    alone: int
    tunnels: int


WHOLE = Plan(Effort(5, 4, 200), Effort(3, 3, 200), 20, 300, 100_000)
QUICK = Plan(Effort(2, 1, 100), Effort(1, 1, 100), 5, 50, 5_000)


def main(
    output: Annotated[Path, typer.Option(help="where results and logs go")] = Path("bench-out"),
    quick: Annotated[bool, typer.Option("--quick", help="shorter; no document")] = False,
    part: Annotated[list[Part] | None, typer.Option(help="only this; no document")] = None,
    system: Annotated[list[str] | None, typer.Option(help="only this data plane")] = None,
) -> None:
    """Measure Caravan beside its peers; write BENCHMARKS.md after a whole run."""
    began = time.monotonic()
    output = output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    # Figures of parts that this run leaves out stay; keys and logs are of one run.
    for name in ("pki", "logs"):
        shutil.rmtree(output / name, ignore_errors=True)
    parts = part or list(Part)
    machine = document.this_machine(PEERS_DIRECTORY)
    # Cargo may need the network, which the private corner does not have.
    load = control.build_load(TOP) if {Part.HANDSHAKES, Part.MEMORY} & set(parts) else None
    enter()
    keys = Keys.make(output / "pki")
    plan = QUICK if quick else WHOLE
    run = Run(plan, keys, output, system or [*PEERS, CARAVAN, CARAVAN_RAW])
    results = Results(
        run.data_planes(run.systems, plan.roads) if Part.ROADS in parts else (),
        run.data_planes([f"caravan {suite}" for suite in SUITES], plan.suites)
        if Part.SUITES in parts
        else (),
        run.handshakes(load) if load and Part.HANDSHAKES in parts else (),
        run.memory(load) if load and Part.MEMORY in parts else None,
        primitives() if Part.PRIMITIVES in parts else "",
    )
    save(output, machine, results)
    text = document.provenance(machine) + "\n\n" + figures.report(results)
    print(text)
    if not quick and not part and not system:
        document.rewrite(TOP / "BENCHMARKS.md", text)
    say(f"{time.monotonic() - began:.0f} s in all; results are in {output}")


@dataclass(frozen=True)
class Run:
    """Measurements with one plan."""

    plan: Plan
    keys: Keys
    output: Path
    systems: Sequence[str]

    def data_planes(self, names: Sequence[str], effort: Effort) -> list[roads.Road]:
        """Data planes by their names, all up at once, measured in turns."""
        with self._bench(names[0].replace(" ", "-")) as bench:
            up = []
            for name in names:
                say(f"bringing up {name}")
                up.append(bench.bring_up(name))
            return roads.measure(up, effort, say)

    def handshakes(self, load: Path) -> list[control.Handshakes]:
        """The engine's share, then the programs'."""
        say("handshakes of the engine")
        found = [
            control.handshakes_alone(load, self.plan.alone, self.keys, self.output / "pki/of-load")
        ]
        with self._bench("handshakes") as bench:
            say("handshakes of caravan")
            found.append(control.handshakes_of_caravan(bench, self.keys, self.plan.handshakes))
            say("handshakes of strongSwan")
            found.append(control.handshakes_of_strongswan(bench, self.keys, self.plan.handshakes))
        return found

    def memory(self, load: Path) -> control.Memory:
        """Idle tunnels, and a client at rest."""
        say(f"memory of {self.plan.tunnels:,} idle tunnels")
        with self._bench("memory") as bench:
            return control.memory(load, bench, self.keys, self.plan.tunnels)

    def _bench(self, logs: str) -> Bench:
        return Bench(self.keys, PEERS_DIRECTORY, self.output / "logs" / logs)


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
    """One JSON file a part, each with the machine; what was not measured keeps its file."""
    parts: dict[str, Any] = {key: value for key, value in asdict(results).items() if value}
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
        CommandFailed,
        IsolationError,
        FileNotFoundError,
        RuntimeError,
        TimeoutError,
        subprocess.SubprocessError,
    ) as failure:
        say(str(failure))
        raise SystemExit(1) from None

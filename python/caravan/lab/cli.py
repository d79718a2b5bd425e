"""`caravan-lab`: what a security policy costs, asked from a terminal.

Answers go to standard output, errors and progress to standard error. Status 0: answered, 1: a
comparison found a difference or a tunnel does not come up, 2: the question is wrong, 3: no stack
fits what `advise` was asked, 130: stopped by Ctrl-C or SIGTERM. A reader that leaves ends it by
SIGPIPE.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from caravan.advice.commands import add_to as add_advice_to
from caravan.background import IS_TOLD_TO_END, leave
from caravan.lab import core, layers, ranking, tables
from caravan.lab.ask import DELAY, AskRequest, Verdict, answer
from caravan.lab.core import LabError, Question
from caravan.lab.edits import Choice, in_options, question
from caravan.lab.freshness import is_stale, remedy
from caravan.lab.kinds import every_name, kind_of, outline
from caravan.lab.simulation import simulate
from caravan.lab.wording import Commands, UsageError, in_words
from caravan.messages import Refused, Stopped
from caravan.study import files
from caravan.study.commands import add_to

if TYPE_CHECKING:
    from rich.console import Console

FLOWS = "flows"
"""A graph has these instead of the single traffic of a chain."""
NO_TUNNEL = 1
WRONG = 2
STOPPED = 130
PIPE_COLUMNS = 1000
PICTURES = (".html", ".png", ".svg")

RATE = (
    "traffic.rate, of IP packets before protection: the mean over the run; with packet-call the "
    "mean inside a call; with closed-loop the rate at which packets are made"
)

app = typer.Typer(
    name="caravan-lab",
    cls=Commands,
    help="What does a security policy cost, on this device, over that link, for my traffic?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
add_to(app)
add_advice_to(app)

Json = Annotated[bool, typer.Option("--json", help="one JSON object for programs")]
Mips = Annotated[
    float | None, typer.Option(help="speed of a device that counts operations, in MIPS")
]
Mhz = Annotated[float | None, typer.Option(help="clock of a device that counts cycles, in MHz")]
Jobs = Annotated[int | None, typer.Option(min=1, max=1024, help="threads; default: all cores")]
Station = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="use the packets of a capture that this host sends, or with --down receives",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", metavar="FILE", help="also rank your own policy; may be repeated"),
]
Seed = Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="default: the scenario's")]


def main() -> None:
    """The program."""
    if is_stale():
        _say(f"warning: {remedy()}")
    _end_at_sigterm()
    try:
        status = _answered()
    except OSError as fault:
        _unwritten(fault)
    except Stopped as stopped:
        _say(str(stopped))
        leave(STOPPED)
    except UsageError as fault:
        if type(fault).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(f"{fault.ctx.get_help()}\n")
            sys.exit(WRONG)
        _fail(in_words(fault))
    except Refused as fault:
        _fail(str(fault))
    except MemoryError:
        _fail("there is not enough memory for this question")
    except (KeyError, TypeError, AttributeError):
        # An answer in an unknown form: the most likely reason has a remedy.
        if not is_stale():
            raise
        _fail(remedy())
    if status == STOPPED:
        _say("stopped")
    leave(status if isinstance(status, int) else 0)


def _answered() -> Any:
    """The status of the command, after its whole answer."""
    try:
        status = app(prog_name="caravan-lab", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _unheard()
    except SystemExit as ended:
        # A console of rich ends the program with status 1 at a closed pipe.
        if isinstance(ended.__context__, BrokenPipeError):
            _unheard()
        raise
    return status


def _end_at_sigterm() -> None:
    """Let SIGTERM end the program as Ctrl-C does: it cleans up. Once is enough."""
    own = os.getpid()

    def end(*_: object) -> None:
        if os.getpid() == own:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            IS_TOLD_TO_END.set()
            raise KeyboardInterrupt
        # A process that a library has forked has nothing to clean up.
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)


def _unheard() -> NoReturn:
    """End as other programs do whose reader has left, as in `caravan-lab links | head -1`: by
    SIGPIPE, without a word."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    raise AssertionError("SIGPIPE ends this program")


def _unwritten(fault: OSError) -> NoReturn:
    """Report that the answer could not be written; other file errors name their files."""
    # The rest of the buffer would fail again at the interpreter's end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _fail(f"{fault.filename or 'standard output'}: {fault.strerror or fault}")


def _errors() -> Console:
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True, highlight=False, soft_wrap=True)


def _say(text: str) -> None:
    # If the output goes to a file, the user must still see this.
    sys.stderr.write(f"caravan-lab: {text}\n")


def _fail(text: str, status: int = WRONG) -> NoReturn:
    red, plain = ("\x1b[31m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
    sys.stderr.write(f"{red}caravan-lab: {text}{plain}\n")
    leave(status)


def _output() -> Console:
    from rich.console import Console  # noqa: PLC0415

    # A pipe has no width: a program that reads it wants each row on one line.
    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    return Console(highlight=False, soft_wrap=True, width=width)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")


def _version(is_asked: bool) -> None:
    if is_asked:
        sys.stdout.write(f"caravan-lab {core.version()}\n")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="print the version"),
    ] = False,
) -> None:
    """What does a security policy cost, on this device, over that link, for my traffic?"""


@app.command()
def cost(
    *,
    profile: Annotated[str, typer.Option(help="a device: its name or a file")],
    suite: Annotated[
        str, typer.Option(help="such as 3des-md5, aes128gcm16, ccmp-128, or a policy file")
    ],
    packet_bytes: Annotated[
        float, typer.Option("--bytes", help="size before protection, as the profile counts it")
    ],
    mips: Mips = None,
    mhz: Mhz = None,
    decrypt: Annotated[bool, typer.Option("--decrypt", help="cost of decryption")] = False,
    as_json: Json = False,
) -> None:
    """Compute the cost of one packet: operations, time and bytes on the wire."""
    price = core.price(profile, suite, packet_bytes, mips=mips, clock_mhz=mhz, decrypt=decrypt)
    if as_json:
        _print_json(price)
    else:
        tables.price(_output(), price)


@app.command("simulate")
def simulate_command(
    scenario: Annotated[str, typer.Argument(help="a scenario: its name or a file")],
    *,
    suite: Annotated[str | None, typer.Option(help="a policy or a suite")] = None,
    rate_kbps: Annotated[float | None, typer.Option(help=RATE)] = None,
    mips: Mips = None,
    mhz: Mhz = None,
    device: Annotated[str | None, typer.Option(help="client's device: name or file")] = None,
    hours: Annotated[float | None, typer.Option(help="simulated hours after the warm-up")] = None,
    replications: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="runs of the tandem; --events runs once")
    ] = None,
    seed: Seed = None,
    edits: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="change a key: link.ms.delay='20 ms'"),
    ] = None,
    jobs: Jobs = None,
    events: Annotated[
        bool,
        typer.Option("--events", help="use the event kernel: real protocol machines, TCP, loss"),
    ] = False,
    capture: Annotated[
        Path | None, typer.Option("--pcap", help="write the event kernel's packets as pcapng")
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate a scenario: delay, throughput, buffers, protected rate.

    Traffic of the model tcp runs on the event kernel, once, with the real protocol machines.
    """
    choice = Choice(suite, rate_kbps, mips, mhz, device, hours, replications, seed)
    chosen, options = question(scenario, choice, tuple(edits or ()))
    try:
        opened = core.opened(chosen)
        resolved = core.scenario(opened)
        found = resolved["scenario"]
        # A graph has flows instead of a chain's single traffic, and only the event kernel runs it.
        kind = found["traffic"]["model"]["kind"] if "traffic" in found else FLOWS
        if events or capture is not None or kind in ("tcp", FLOWS):
            _check_one_run(choice, jobs, kind)
            _by_events(opened, resolved, capture, as_json)
        else:
            if kind == "pcap":
                _check_replay(choice)
            _by_tandem(opened, jobs, as_json)
    except LabError as fault:
        raise in_options(fault, options) from None


def _check_one_run(choice: Choice, jobs: int | None, traffic: str) -> None:
    """Refuse options of the tandem: the event kernel runs a scenario once, on one core, and a TCP
    transfer until it is done."""
    if choice.hours is not None and traffic == "tcp":
        raise LabError(
            f"--hours: {choice.hours:g}, but a TCP transfer ends with its last byte: "
            "--set traffic.bytes='10 MB' sets its size"
        )
    if (choice.replications or 1) > 1:
        raise LabError(
            f"--replications: {choice.replications}, but the event kernel runs once: "
            "give another --seed for another run"
        )
    if (jobs or 1) > 1:
        raise LabError(f"--jobs: {jobs}, but the event kernel runs on one core")


def _check_replay(choice: Choice) -> None:
    """Refuse options that a capture would ignore: it is replayed once and unchanged."""
    given = {"--hours": choice.hours, "--replications": choice.replications, "--seed": choice.seed}
    for option, value in given.items():
        if value is not None:
            raise LabError(
                f"{option}: {value:.15g}, but a capture is replayed once, as it was taken"
            )


def _by_tandem(opened: core.ScenarioLike, jobs: int | None, as_json: bool) -> None:
    outcome = simulate(opened, jobs=jobs, console=_errors())
    summary = tables.summary(outcome)
    if as_json:
        _print_json(summary)
    else:
        tables.outcome(_output(), outcome, summary)


def _by_events(
    opened: core.ScenarioLike, resolved: Mapping[str, Any], capture: Path | None, as_json: bool
) -> None:
    began = time.perf_counter()
    answer = core.kernel(opened, capture)
    levels = {level: answer[level] for level in ("model", "simulate")}
    wall_s = time.perf_counter() - began
    if as_json:
        stamp = {"scenario_hash": resolved["hash"], "version": core.version(), "wall_s": wall_s}
        _print_json({**levels, "lower_bounds": resolved["bytes_alone"], **stamp})
    else:
        shown = {name: resolved[name] for name in ("scenario", "graph", "bytes_alone")}
        table = tables.flows if resolved["is_graph"] else tables.kernel
        table(_output(), {**levels, **shown, "wall_s": wall_s})
    run = levels["simulate"]
    tunnels = run["tunnels"] if resolved["is_graph"] else ({"exchange": run["exchange"]},)
    failed = [
        one["exchange"] for one in tunnels if one["exchange"] and not one["exchange"]["is_up"]
    ]
    if failed:
        said = "; ".join(failure for exchange in failed for failure in exchange["failures"])
        _fail(f"the tunnel does not come up: {said}", NO_TUNNEL)


@app.command("ask")
def ask_command(
    *,
    device: Annotated[str, typer.Option(help="name or file")],
    link: Annotated[str, typer.Option(help="name or file")],
    traffic: Annotated[
        Path | None, typer.Option(help="a capture of your traffic (pcap, pcapng)")
    ] = None,
    station: Station = None,
    rate_kbps: Annotated[
        float | None, typer.Option(help="mean rate before protection, instead of --traffic")
    ] = None,
    packet_bytes: Annotated[
        float | None, typer.Option("--bytes", help="packets of one size; default: web browsing")
    ] = None,
    mips: Mips = None,
    mhz: Mhz = None,
    down: Annotated[bool, typer.Option("--down", help="traffic towards the device")] = False,
    policies: Policies = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--picture",
            help="file of the picture, .html, .png or .svg; an existing file is replaced. Default: "
            "caravan-ask-DEVICE-LINK-TRAFFIC.html here, which never replaces another kind of file",
        ),
    ] = None,
    rank: Annotated[
        str,
        typer.Option(
            metavar="WORD",
            help="what decides among policies of equal standing: delay, or handshake for the key "
            "exchange that brings a tunnel up",
        ),
    ] = DELAY,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1)] = 1,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Rank all policies for a device, a link and your traffic, and their key exchanges."""
    direction = "down" if down else "up"
    asked = AskRequest(
        device,
        link,
        rate_kbps,
        traffic,
        packet_bytes,
        mips,
        mhz,
        direction,
        seed,
        station,
        tuple(policies or ()),
        rank,
    )
    if picture is not None:
        _check_picture(picture)
    found = answer(asked, jobs, _errors())
    drawn, why = _draw(picture, asked, found.verdicts)
    if as_json:
        _print_json(ranking.verdicts_json(asked, found, drawn))
    else:
        ranking.verdicts(_output(), asked, found)
        if drawn is not None:
            other = "" if picture is not None else " (-o FILE sets another file)"
            _output().print(f"Picture  {drawn.resolve()}{other}", markup=False)
    if drawn is None and picture is not None:
        raise LabError(f"--picture {why}")
    if drawn is None:
        _say(f"no picture: {why}; -o FILE sets another file")


def _draw(
    picture: Path | None, asked: AskRequest, verdicts: list[Verdict]
) -> tuple[Path | None, str]:
    """Write the picture and return its file, otherwise the reason: the answer works without it."""
    from caravan.lab import picture as drawing  # noqa: PLC0415

    try:
        path = picture or drawing.name_for(asked)
        drawing.write(path, asked, verdicts)
    except Refused as fault:
        return None, str(fault)
    return path, ""


def _check_picture(path: Path) -> None:
    """Refuse a picture that could not be written, before anything is computed."""
    if path.suffix not in PICTURES:
        raise LabError(f"--picture {path}: a picture ends in {', '.join(PICTURES)}")
    if path.is_dir():
        raise LabError(f"--picture {path}: this is a folder")
    if not path.parent.is_dir():
        raise LabError(f"--picture {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise LabError(f"--picture {path}: cannot write into {path.parent}")


@app.command()
def devices(as_json: Json = False) -> None:
    """List the devices, and the suites that each has costs for."""
    _list("device", as_json)


@app.command()
def links(as_json: Json = False) -> None:
    """List the links with their rates and delays."""
    _list("link", as_json)


@app.command()
def policies(as_json: Json = False) -> None:
    """List the policies and what standards say of their suites and key exchanges."""
    _list("policy", as_json)


def _list(kind: str, as_json: bool) -> None:
    rows = core.listing(kind)
    if kind == "policy":
        rows = [layers.told(row) for row in rows]
    if as_json:
        _print_json(rows)
    else:
        tables.listing(_output(), kind, rows)


@app.command()
def show(
    name: Annotated[
        str | None,
        typer.Argument(help="a device, link, policy, scenario or study; without it: their names"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show all of one entry: a scenario with all values filled in, a study with its sweeps."""
    if name is None:
        if as_json:
            _print_json(every_name())
        else:
            tables.names(_output(), every_name())
        return
    kind = kind_of(name, _say)
    shown: Any
    if kind == "study":
        shown = outline(files.load(name))
    elif kind == "scenario":
        shown = core.scenario(Question(name))
    else:
        entry = core.find(kind, name)
        if kind == "policy" and layers.has_layers(entry):
            shown = layers.outline(entry)
            _print_json(shown) if as_json else tables.layers(_output(), shown)
            return
        shown = next(row for row in core.listing(kind, [entry]) if row["name"] == entry.name)
        shown = layers.told(shown) if kind == "policy" else shown
    if as_json:
        _print_json(shown)
    else:
        tables.thing(_output(), kind, shown)

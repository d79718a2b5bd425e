"""The crates' own benches that `make bench` runs: built by cargo, they print one JSON object."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

TIMEOUT_S = 600


def build(top: Path, crate: str, bench: str, profile: str = "bench") -> Path:
    """Build a crate's bench and return its program.

    The profile `dev` is enough if nothing is measured. It is that of the whole workspace, so that
    what `make check` has built serves: alone, a crate's dependencies have fewer features.
    """
    packages = ["--workspace"] if profile == "dev" else ["-p", crate]
    argv = ["cargo", "bench", "-q", "--locked", *packages, "--bench", bench, "--no-run"]
    argv += ["--profile", profile]
    done = subprocess.run(
        [*argv, "--message-format", "json"], cwd=top, stdout=subprocess.PIPE, text=True, check=True
    )
    return parse_executable(done.stdout, bench)


def parse_executable(messages: str, bench: str) -> Path:
    """The program that cargo's messages name; `ValueError` if there is none."""
    for line in messages.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == bench:
            return Path(message["executable"])
    raise ValueError(f"cargo built no bench named {bench}")


def run(program: Path, *arguments: str) -> dict[str, Any]:
    """Run a bench and return its report."""
    done = subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        what = f"{program.name} {' '.join(arguments)}"
        raise RuntimeError(f"{what}: exit code {done.returncode}\n{tail}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report

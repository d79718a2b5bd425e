"""One fingerprint for every build and instruction set: the same that the Rust tests check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib

import pytest
from test_lab_cli import TOP

from caravan.lab.core import Question, kernel

PINNED = tomllib.loads((TOP / "crates/lab/src/kernel/fingerprints.toml").read_text())["run"]
EDITS = [run["edits"] for run in PINNED]
FINGERPRINTS = [run["fingerprint"] for run in PINNED]
WITHOUT_EXTENSIONS = "~0xffffffffffffffff:~0xffffffffffffffff"
"""For AWS-LC (`OPENSSL_ia32cap`): no AES, carry-less multiplication, AVX nor SHA instructions."""

ASKED = """
import json, sys
from caravan.lab.core import Question, kernel
runs = [kernel(Question("road", tuple(edits))) for edits in json.loads(sys.argv[1])]
print(json.dumps([run["simulate"]["fingerprint"] for run in runs]))
"""


@pytest.mark.parametrize("run", range(len(PINNED)))
def test_an_optimised_build_has_the_fingerprint_of_an_unoptimised_one(run: int) -> None:
    found = kernel(Question("road", tuple(EDITS[run])))["simulate"]
    assert found["fingerprint"] == FINGERPRINTS[run]


def test_instructions_of_the_processor_change_no_fingerprint() -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(TOP / "python"),
        "OPENSSL_ia32cap": WITHOUT_EXTENSIONS,
    }
    argv = [sys.executable, "-c", ASKED, json.dumps(EDITS)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == FINGERPRINTS

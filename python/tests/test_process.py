"""Programs of the testbed that are told what to do."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest

from caravan.testbed.errors import NamespaceError
from caravan.testbed.process import Process

FAILING = """
import sys
sys.stdin.readline()
sys.stderr.write("first\\nno such address\\n")
sys.exit(7)
"""


@pytest.mark.parametrize("is_seen", [False, True], ids=["unseen", "seen"])
def test_a_program_that_has_ended_cannot_be_told_anything(is_seen: bool, tmp_path: Path) -> None:
    """A broken pipe would pass for the reader of this program's own output, who has left."""
    with Process([sys.executable, "-c", FAILING], tmp_path / "log", is_told=True) as process:
        process.tell("fail")
        handle = os.pidfd_open(process.pid)
        assert select.select([handle], [], [], 10)[0] == [handle]
        os.close(handle)
        assert not is_seen or not process.is_running()
        with pytest.raises(NamespaceError, match=r"(?s)told 'more'.*no such address$"):
            process.tell("more")
    assert process.stop().code == 7

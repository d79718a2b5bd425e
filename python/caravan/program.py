"""The start of the program `caravan-lab`, before slow imports.

During them, Ctrl-C ends it silently with status 130; afterwards `caravan.lab.cli` handles it.
"""

from __future__ import annotations

import os
import signal
import sys

STOPPED = 130
WRONG = 2


def main() -> None:
    """The program."""
    is_heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if is_heard:
        signal.signal(signal.SIGINT, lambda *_: os._exit(STOPPED))
    try:
        from caravan.lab.cli import main as run  # noqa: PLC0415
    except ImportError as fault:
        if fault.name != "caravan":
            raise
        sys.stderr.write(f"caravan-lab: {fault.msg}: `make setup` builds the native core\n")
        sys.exit(WRONG)
    try:
        if is_heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        os._exit(STOPPED)

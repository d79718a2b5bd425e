"""Where the program `caravan-lab` begins: before anything that takes time to load.

Ctrl-C ends it without a word and with status 130 while it loads, and as `caravan.lab.cli` says
from then on.
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

"""The errors of namespaces, hosts and the programs on them.

Left out: files that are missing or cannot be written (`OSError`), and wrong arguments
(`ValueError`).
"""

from __future__ import annotations


class NamespaceError(RuntimeError):
    """What the kernel, a host or a program there could not do, and why."""


class TimedOut(NamespaceError):
    """Something did not happen in time; the text has the last output of the program."""

"""The control sockets of hostapd and wpa_supplicant: requests with answers, and events.

Both programs speak one protocol over Unix datagrams, described in `wpa_ctrl.h`. They answer to the
path of the socket that asked, so each of ours has a path too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from caravan.testbed.errors import NamespaceError, TimedOut
from caravan.testbed.process import Process

ANSWER_S = 10.0
MESSAGE_BYTES = 1 << 16
END_S = 5.0

_numbers = itertools.count()


@dataclass(frozen=True)
class Event:
    """A line that the program said by itself: `AP-STA-CONNECTED`, and what follows the name.

    `time_s` since the epoch, when this process read it.
    """

    time_s: float
    name: str
    words: str


class Control:
    """A connected control socket."""

    def __init__(self, path: Path) -> None:
        # The path of a Unix socket has at most 107 bytes.
        self._own = Path("/run") / f"ctrl-{os.getpid()}-{next(_numbers)}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.socket.bind(str(self._own))
            self.socket.connect(str(path))
            self.socket.settimeout(ANSWER_S)
        except BaseException:
            self.close()
            raise

    def request(self, words: str) -> str:
        """The answer to a request; `NamespaceError` if the program has ended or is silent."""
        try:
            self.socket.send(words.encode())
            return self.socket.recv(MESSAGE_BYTES).decode(errors="replace")
        except OSError as fault:
            raise NamespaceError(f"no answer to {words!r}: {fault}") from None

    def order(self, words: str) -> None:
        """A request that must succeed."""
        answer = self.request(words).strip()
        if answer != "OK":
            raise NamespaceError(f"{words!r} was answered by {answer!r}")

    def fields(self, words: str) -> dict[str, str]:
        """The answer to a request as `key=value` lines; empty if the program refuses."""
        return fields(self.request(words))

    def close(self) -> None:
        """Close it and remove its path."""
        self.socket.close()
        self._own.unlink(missing_ok=True)


def fields(answer: str) -> dict[str, str]:
    """The `key=value` lines of an answer. The first of a key counts: hostapd writes the name that a
    station has given as it is, behind what it knows itself."""
    found: dict[str, str] = {}
    for line in answer.split("\n"):
        key, is_field, value = line.partition("=")
        if is_field:
            found.setdefault(key, value)
    return found


class Listener:
    """A thread that reads a program's events and hands each to `hear` at once.

    `ended` is called there when nobody reads any more, whatever the reason: the program has ended,
    the listener was closed, or something went wrong in the thread. What is open then must be shut.
    """

    def __init__(
        self,
        process: Process,
        path: Path,
        hear: Callable[[Event], None],
        ended: Callable[[], None],
    ) -> None:
        self._program_name = process.argv[0]
        self._hear = hear
        self._ended = ended
        self._control = Control(path)
        self._control.order("ATTACH")
        self._program = os.pidfd_open(process.pid)
        self._stop, self._stopped = os.pipe()
        self._changed = threading.Condition(threading.RLock())
        self._events: list[Event] = []
        self._fault: BaseException | None = None
        self.is_ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def events(self) -> list[Event]:
        """All events so far; `NamespaceError` with the cause if something went wrong in the
        thread."""
        with self._changed:
            if self._fault is not None:
                words = f"{self._program_name}: its events are read no more: {self._fault}"
                raise NamespaceError(words) from self._fault
            return list(self._events)

    def wait_until(self, holds: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until this holds; it is looked at after each event, and at the end."""
        deadline = time.monotonic() + timeout_s
        while True:
            with self._changed:
                known = len(self.events())
                if holds():
                    return
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self.is_ended:
                    said = [f"{event.name} {event.words}" for event in self._events[-20:]]
                    raise TimedOut(f"no {what} in {timeout_s} s; heard: {said}")
                if len(self._events) == known:
                    self._changed.wait(left_s)

    def close(self) -> None:
        """End the thread; may be called twice."""
        if self._stopped < 0:
            return
        os.close(self._stopped)
        self._stopped = -1
        self._thread.join(END_S)
        for handle in (self._stop, self._program):
            os.close(handle)
        self._control.close()

    def _run(self) -> None:
        for step in (self._listen, self._ended):
            try:
                step()
            except BaseException as fault:
                with self._changed:
                    self._fault = self._fault or fault
        with self._changed:
            self.is_ended = True
            self._changed.notify_all()

    def _listen(self) -> None:
        poll = select.poll()
        heard = self._control.socket.fileno()
        for handle in (heard, self._program, self._stop):
            poll.register(handle, select.POLLIN)
        while True:
            ready = {handle for handle, _ in poll.poll()}
            if heard in ready:
                self._read()
            elif self._program in ready or self._stop in ready:
                return

    def _read(self) -> None:
        with contextlib.suppress(ConnectionError):
            text = self._control.socket.recv(MESSAGE_BYTES).decode(errors="replace")
            moment = time.time()
            # `<3>NAME words`, with the level in front.
            name, _, words = text.partition(">")[2].partition(" ")
            event = Event(moment, name, words)
            self._hear(event)
            with self._changed:
                self._events.append(event)
                self._changed.notify_all()

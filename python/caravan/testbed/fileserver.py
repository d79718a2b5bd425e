"""A small HTTP server of files: one thread per client, bodies by `sendfile(2)`.

Run by path: `python fileserver.py ADDRESS PORT DIRECTORY [BYTES_S]`. HTTP/1.1 with GET and HEAD
only. With a rate, no body goes out faster: a client's own limit lets a whole window through first.
"""

from __future__ import annotations

import functools
import http.server
import socket
import sys
import time
from typing import IO, Any

TURN_S = 0.02
"""Between two pieces of a body with a rate."""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files below one directory."""

    protocol_version = "HTTP/1.1"

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a body; the kernel copies it where the source is a file."""
        self.wfile.flush()
        file: IO[bytes] = source
        server = self.server
        assert isinstance(server, Server)
        if server.rate_bytes_s is None:
            self.connection.sendfile(file)
            return
        while piece := file.read(int(server.rate_bytes_s * TURN_S)):
            self.connection.sendall(piece)
            time.sleep(TURN_S)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests go to stderr, which is the testbed's log."""
        sys.stderr.write(f"{self.client_address[0]}:{self.client_address[1]} {format % args}\n")
        sys.stderr.flush()


class Server(http.server.ThreadingHTTPServer):
    """IPv4 or IPv6 by the form of its address."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, port: int, directory: str, rate_bytes_s: int | None) -> None:
        self.rate_bytes_s = rate_bytes_s
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), functools.partial(Handler, directory=directory))

    def server_bind(self) -> None:
        """Bind without asking a resolver for the address's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]


def main() -> None:
    """Serve until the end."""
    address, port, directory, *rate = sys.argv[1:]
    rate_bytes_s = int(rate[0]) if rate else None
    with Server(address, int(port), directory, rate_bytes_s) as server:
        print("serving", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()

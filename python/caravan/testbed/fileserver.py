"""A small HTTP server of files: one thread per client, bodies by `sendfile(2)`.

Run by path: `python fileserver.py ADDRESS PORT DIRECTORY`. HTTP/1.1 with GET and HEAD only.
"""

from __future__ import annotations

import functools
import http.server
import socket
import sys
from typing import IO, Any


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files below one directory."""

    protocol_version = "HTTP/1.1"

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a body; the kernel copies it where the source is a file."""
        self.wfile.flush()
        file: IO[bytes] = source
        self.connection.sendfile(file)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests go to stderr, which is the testbed's log."""
        sys.stderr.write(f"{self.client_address[0]}:{self.client_address[1]} {format % args}\n")
        sys.stderr.flush()


class Server(http.server.ThreadingHTTPServer):
    """IPv4 or IPv6 by the form of its address."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, port: int, directory: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), functools.partial(Handler, directory=directory))

    def server_bind(self) -> None:
        """Bind without asking a resolver for the address's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]


def main() -> None:
    """Serve until the end."""
    address, port, directory = sys.argv[1:]
    with Server(address, int(port), directory) as server:
        print("serving", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()

"""`make bench`: Caravan and its peers, in one run on one machine.

`python -m caravan.bench` measures data planes between two namespaces, handshakes and memory, says
which of the project's targets are met, and writes the tables of BENCHMARKS.md. It asserts no
figures, because they change with the machine. It asserts that every peer takes part.
"""

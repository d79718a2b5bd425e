"""`make bench`: Caravan beside its peers, in one run on one machine.

`python -m caravan.bench` measures data planes between two namespaces, handshakes and memory, says
which of the project's targets are met, and writes the tables of BENCHMARKS.md. Figures are never
asserted: they move with the machine. What is asserted is that every peer takes part.
"""

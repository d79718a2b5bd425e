"""The lab around Caravan: network namespaces, real peers, the demo and the measurements.

The program under test is the Rust binary `caravan`. This package only starts it, gives it links and
traffic, and reads its output.
"""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["__version__"]

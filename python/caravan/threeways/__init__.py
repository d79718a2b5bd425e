"""One setting computed, simulated and measured, its numbers beside each other.

- `sizes`: bytes on the wire by closed form, which need no machine at all
- `levels`: what the native core computes and simulates, under the names of the testbed
- `measurement`: what the real program takes in namespaces, and how its ends are configured
- `compare`: the three of one scenario side by side; `python -m caravan.threeways` prints them

Left out: sweeps over many settings, which are studies (`caravan.study`).
"""

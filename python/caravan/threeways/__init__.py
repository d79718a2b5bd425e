"""One setting computed, simulated and measured, with the numbers side by side.

- `sizes`: the policies of the demonstration, and their bytes on the wire by closed form
- `levels`: results of the native core, under the testbed's names
- `measurement`: costs of the real program in namespaces, and the configuration of its ends
- `compare`: all three of one scenario side by side; `python -m caravan.threeways` prints them

Left out: sweeps over many settings, which are studies (`caravan.study`).
"""

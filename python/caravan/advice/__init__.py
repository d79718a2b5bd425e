"""Which security stack should a scenario use, as of a day?

`standings` says what standards say of each building block, `stacks` what people put on top of each
other, `setting` what a scenario has, `costs` what a stack costs there, `choice` which one to take.
Left out: formulas, which are in the native core.
"""

"""The native core of the lab: texts and JSON in, JSON out. Built from crates/python."""

def version() -> str:
    """The version of this build."""

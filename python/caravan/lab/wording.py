"""Rewrites the command line parser's errors in the lab's form: one sentence, the place first.

Only attributes of the parser's exceptions are read. A sentence of its own is passed on whole.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from caravan import _lab
from caravan.messages import Refused, unknown

UsageError: Any = typer.BadParameter.__base__
"""The parser's own exception for every invalid question."""

WANTED = {
    "float_parsing": "must be a number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "greater_than_equal": "must be at least {ge:.15g}",
    "less_than_equal": "must be at most {le:.15g}",
}
"""What is valid, by the code of a wrong value, with the limit that comes with the code. With 15
digits, a large whole number stays one."""


class Commands(TyperGroup):
    """The commands of a program, whose names are looked up in our words."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names; refuses a word that names none."""
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            raise Refused(f"{_unknown('command', word, sorted(self.commands))}; {_more(ctx)}")
        return super().resolve_command(ctx, args)


def in_words(fault: Any) -> str:
    """The parser's refusal as `OPTION: what is wrong; what to do`."""
    kind, more = type(fault).__name__, _more(fault.ctx)
    if kind == "NoSuchOption":
        known = [name for one in fault.ctx.command.params for name in one.opts]
        return f"{_unknown('option', fault.option_name, known)}; {more}"
    if kind == "MissingParameter" and fault.param is not None:
        hint = f" ({fault.param.help})" if fault.param.help else ""
        return f"{_name(fault.param)} is missing{hint}; {more}"
    if kind == "BadParameter" and fault.param is not None:
        return f"{_name(fault.param)}: {_wrong_value(fault)}"
    return f"{_lowered(fault.format_message())}; {more}"


def _more(context: Any) -> str:
    return f"see {'caravan-lab' if context is None else context.command_path} --help"


def _lowered(said: str) -> str:
    said = said.rstrip(".")
    return f"{said[:1].lower()}{said[1:]}"


def _unknown(what: str, word: str, valid: list[str]) -> str:
    """The nearest valid word, without a list of all: the help has them."""
    is_slip = _lab.nearest(word, valid) is not None
    return unknown(what, word, valid) if is_slip else f"unknown {what} '{word}'"


def _name(param: Any) -> str:
    """`--option`, or `ARGUMENT`."""
    if param.param_type_name == "argument":
        return str(param.name).upper()
    return str(max(param.opts, key=len))


def _wrong_value(fault: Any) -> str:
    """The given value, and what is valid."""
    # The inner parser has the given value, and a code for what is wrong with it.
    errors: list[dict[str, Any]] = getattr(fault.__cause__, "errors", list)()
    if not errors:
        return _lowered(fault.message)
    (first, *_) = errors
    wanted = WANTED.get(first["type"])
    said = wanted.format(**first.get("ctx", {})) if wanted else _lowered(fault.message)
    return f"{first['input']}, {said}"

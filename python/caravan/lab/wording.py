"""Rewrites the command line parser's errors in the lab's form: one sentence, the place first."""

from __future__ import annotations

import re
from typing import Any

import typer

from caravan import _lab
from caravan.messages import unknown

UsageError: Any = typer.BadParameter.__base__
"""The parser's own exception for every invalid question."""

EXTRA = re.compile(r"Got unexpected extra argument.* \((.*)\)$")


def in_words(fault: Any) -> str:
    """The parser's refusal as `OPTION: what is wrong; what to do`."""
    kind, context = type(fault).__name__, fault.ctx
    more = f"see {'caravan-lab' if context is None else context.command_path} --help"
    if kind == "NoSuchOption":
        known = [name for one in context.command.params for name in one.opts]
        return f"{_unknown('option', fault.option_name, known)}; {more}"
    if kind == "MissingParameter" and fault.param is not None:
        hint = f" ({fault.param.help})" if fault.param.help else ""
        return f"{_name(fault.param)} is missing{hint}; {more}"
    if kind == "BadParameter" and fault.param is not None:
        return f"{_name(fault.param)}: {_wrong_value(fault)}"
    if kind == "BadOptionUsage":
        return f"{fault.option_name}: its value is missing; {more}"
    if (word := _unknown_command(fault)) is not None:
        return f"{_unknown('command', word, sorted(context.command.commands))}; {more}"
    said = fault.format_message().rstrip(".")
    if match := EXTRA.match(said):
        return f"'{match[1]}' is one argument too many; {more}"
    return f"{said[:1].lower()}{said[1:]}; {more}"


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
    wanted = str(fault.message).rstrip(".").partition(",")[0]
    wanted = wanted.replace("Input should be ", "must be ").replace(" valid", "")
    # The inner parser has the given value.
    errors: list[dict[str, Any]] = getattr(fault.__cause__, "errors", list)()
    given = errors[0].get("input") if errors else None
    return wanted if given is None else f"{given}, {wanted}"


def _unknown_command(fault: Any) -> str | None:
    """The word that is not a command."""
    head, _, rest = str(fault.message).partition("No such command ")
    return rest.partition("'")[2].partition("'")[0] if rest and not head else None

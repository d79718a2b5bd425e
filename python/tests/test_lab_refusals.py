"""Every refusal of the native core has a code and attributes, so that no code compares its
sentences."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from test_lab_cli import refusal

from caravan import _lab
from caravan.lab import LabError
from caravan.lab.core import Question, find, opened
from caravan.messages import Place


def test_a_device_without_a_cost_is_refused_with_all_that_code_asks() -> None:
    request = Question("umts", ("node.ms.device=cortex-m4", "node.ms.mips=", "policy=des-md5"))
    with pytest.raises(_lab.Unpriced) as raised:
        _lab.Scenario(json.dumps(request.request())).model()
    fault = raised.value
    assert (fault.code, fault.profile, fault.subject) == (
        "unpriced",
        "cortex-m4",
        "des-md5-modp1024",
    )
    assert fault.place == (None, None, None, "policy")
    assert fault.brief == f"cortex-m4 has no cost of des-md5-modp1024: {fault.cell} is empty"
    assert fault.what.startswith(f"{fault.brief}; suites inside are ")
    assert str(fault) == f"--set policy: {fault.what}"
    ours = LabError.of(fault)
    assert ours.is_unpriced
    assert ours.place == Place.edit("policy")
    again = pickle.loads(pickle.dumps(ours))
    assert (again.code, again.brief, again.place) == (ours.code, ours.brief, ours.place)


def test_an_accounting_without_a_formula_has_its_own_exception() -> None:
    with pytest.raises(_lab.NoFormula) as raised:
        _lab.Scenario(json.dumps(Question("umts", ("policy=aes128gcm16",)).request())).model()
    fault = raised.value
    assert (fault.code, fault.accounting, fault.policy) == (
        "no-formula",
        "paper-u",
        "aes128gcm16",
    )
    assert fault.place is not None
    assert fault.place[3] in ("accounting", "policy")


@pytest.mark.parametrize(
    ("call", "code", "place", "argument"),
    [
        (lambda: _lab.Scenario("{}"), "request", None, None),
        (lambda: _lab.outcome([]), "no-packets", None, None),
        (lambda: _lab.outcome([b"{}"]), "request", None, None),
        (lambda: _lab.document("a.toml", "x = "), "text", ("a.toml", 1, 5, ""), None),
        (lambda: _price(bytes=10), "argument", None, "bytes"),
        (lambda: _price(mips=-1), "argument", None, "mips"),
        (lambda: _price(mips=None), "clock", None, None),
        (lambda: _price(suite="rot13"), "unknown-suite", None, None),
        (
            lambda: opened(Question("road")).kernel("/none/such.pcapng"),
            "file",
            None,
            None,
        ),
    ],
)
def test_every_refusal_of_the_core_has_a_code(
    call: Callable[[], object],
    code: str,
    place: tuple[str | None, int | None, int | None, str] | None,
    argument: str | None,
) -> None:
    with pytest.raises(_lab.Refusal) as raised:
        call()
    fault = raised.value
    assert (fault.code, fault.place, fault.argument) == (code, place, argument)
    assert "os error" not in str(fault)


def _price(**asked: object) -> str:
    device = find("device", "paper-u")
    request = {"file": device.file, "text": device.text, "suite": "3des-md5", "bytes": 480}
    return _lab.price(json.dumps({**request, "mips": 100, **asked}))


def test_a_sentence_that_speaks_of_costs_is_not_taken_for_one_without(tmp_path: Path) -> None:
    """The scenario's own words are part of its error messages, and may be anything."""
    device = tmp_path / " has no cost of .toml"
    device.write_text("name = 3")
    said = refusal(
        "ask", "--device", str(device), "--link", "lte", "--rate-kbps", "8", "--bytes", "99"
    )
    assert f"{device}:1:1: " in said

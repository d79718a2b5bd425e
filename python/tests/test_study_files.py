"""Study files: their contents, and the messages about errors in them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from caravan.document import Item, Step, plain
from caravan.files import CATALOGUE
from caravan.study.files import load, names
from caravan.study.metrics import AXES, is_known
from caravan.study.parse import parse
from caravan.study.parsed import PART, Published, Reason
from caravan.study.published import reason_for
from caravan.study.text import StudyError

SMALL = """\
name = "small"
title = "Two packets"

[[sweep]]
name = "packet"
title = "One packet"
measure = "price"
profile = "paper-u"
grid = { policy = ["des", "3des"], packet_bytes = [64, 128] }

[[published]]
printed = "Fig. 7"
sweep = "packet"
metric = "protected_bytes"
at = { policy = "des", packet_bytes = 64 }
value = 84

[[figure]]
name = "sizes"
title = "Sizes"
sweep = "packet"
x = "packet_bytes"
y = ["protected_bytes"]
series = "policy"
"""


NOWHERE = "{{ packet: protected_bytes, policy = des, packet_bytes = 77 }}"


def test_a_study_says_what_its_file_says() -> None:
    study = parse("small.toml", SMALL)
    (sweep,) = study.sweeps
    assert sweep.levels == ("model",)
    assert sweep.grid == {"policy": ("des", "3des"), "packet_bytes": (64.0, 128.0)}
    assert study.all_published()[0].value == 84
    assert study.figures[0].draw == "line"


@pytest.mark.parametrize("name", names())
def test_every_study_of_the_catalogue_is_read(name: str) -> None:
    study = load(name)
    assert study.name == name
    for figure in study.figures:
        assert all(is_known(metric) for metric in figure.metrics)
        assert figure.x in (*AXES, PART)


@pytest.mark.parametrize(
    ("good", "bad", "line", "says"),
    [
        ('metric = "protected_bytes"', 'metric = "protected_byte"', 14, "'protected_bytes'"),
        ("packet_bytes = [64, 128]", "packet_bytes = [64, -1]", 9, "above 0"),
        ("packet_bytes = [64, 128]", "packet_bytes = [64, 64]", 9, "twice"),
        ("packet_bytes = [64, 128]", "packet_bytes = []", 9, "at least one"),
        ("packet_bytes = [64, 128]", "paket_bytes = [64]", 9, "'packet_bytes'"),
        ("packet_bytes = 64 }", "packet_bytes = 65 }", 15, "has no packet_bytes = 65"),
        ("value = 84", "value = nan", 16, "finite"),
        ("value = 84", 'value = "84"', 16, "must be a number"),
        ("value = 84", "value = 0", 16, "there is no relative difference from 0"),
        ('series = "policy"', f'series = "policy"\nnote = "{NOWHERE}"', 25, "packet_bytes = 77"),
        ('series = "policy"', 'series = "policy"\nnote = "{{ packet }}"', 25, "is not {{"),
        ('series = "policy"', 'series = "policy"\nnote = "{{ pack: cycles }}"', 25, "'packet'"),
        ('series = "policy"', 'series = "policy"\nat = { policy = "dex" }', 25, "'des'"),
        ('series = "policy"', 'serie = "policy"', 24, "the nearest valid one is 'series'"),
        ('sweep = "packet"\nx', 'sweep = "packets"\nx', 21, "the nearest valid one is 'packet'"),
        ('profile = "paper-u"\n', "", 4, "needs a profile"),
        ('measure = "price"', 'measure = "prices"', 7, "'price'"),
        ('name = "small"', 'name = "small', 1, "1:14: "),
        ('title = "Sizes"', 'title = "Sizes"\nthis = 1', 21, "unknown key"),
        ('name = "sizes"', 'name = "../sizes"', 19, "figure.0.name: must be a word"),
        ('x = "packet_bytes"', 'x = "mips"', 22, 'figure.0.x: the sweep "packet" has no axis mips'),
        ('series = "policy"', 'series = "link"', 24, "figure.0.series: the sweep"),
        ("[[figure]]", "[[figur]]", 18, "figur: unknown key 'figur', the nearest"),
    ],
)
def test_faults_name_file_line_key_and_what_is_valid(
    good: str, bad: str, line: int, says: str
) -> None:
    assert good in SMALL
    with pytest.raises(StudyError) as fault:
        parse("small.toml", SMALL.replace(good, bad, 1))
    assert str(fault.value).startswith(f"small.toml:{line}:")
    assert says in str(fault.value)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('[[text]]\ntitle = "t"\nbody = "{}"', "text.0.body"),
        ('[[reason]]\nprinted = "Fig. 7"\ntext = "{}"', "reason.0.text"),
    ],
)
def test_a_text_that_no_run_could_fill_is_refused_where_it_stands(table: str, key: str) -> None:
    lines = len(SMALL.splitlines())
    with pytest.raises(
        StudyError, match=rf"small.toml:{lines + 3}:1: {key}: .*the sweep .* has no "
    ):
        parse("small.toml", SMALL + table.replace("{}", NOWHERE))
    parse("small.toml", SMALL + table.replace("{}", NOWHERE.replace("77", "64.0")))


def test_a_reason_applies_only_to_the_values_that_are_printed_there() -> None:
    study = parse("small.toml", SMALL)
    item = Published("Table 10", study.sweeps[0].name, "work_ms", {}, 1.0)
    reason = Reason("Table 1", {}, "a misprint", is_explained=True)
    study = replace(study, reasons=(reason,))
    assert reason_for(study, item) is None
    assert reason_for(study, replace(item, printed="Table 1")) is reason


PARTS = """
[[figure]]
name = "parts"
title = "Parts"
x = "part"
series = "policy"

[[figure.part]]
name = "small"
sweep = "packet"
y = ["time_ms"]
"""


def test_a_part_of_a_figure_has_a_name_a_sweep_and_metrics() -> None:
    assert parse("small.toml", SMALL + PARTS).figures[1].parts[0].name == "small"
    for good, bad, says in (
        ('name = "small"\n', "", "figure.1.part.0: the key 'name' is missing"),
        ('sweep = "packet"', 'sweep = "packe"', "figure.1.part.0.sweep: "),
        ('y = ["time_ms"]', "y = []", "figure.1.part.0.y: must name at least one metric"),
        ('series = "policy"', 'series = "link"', 'figure.1.series: the sweep "packet" has no axis'),
        ('title = "Parts"', 'title = "Parts"\nsweep = "packet"', "figure.1.sweep: unknown key"),
    ):
        assert good in PARTS
        with pytest.raises(StudyError, match=re.escape(says)):
            parse("small.toml", SMALL + PARTS.replace(good, bad, 1))
    with pytest.raises(StudyError, match=r"figure\.0\.x: unknown value 'part'"):
        parse("small.toml", SMALL.replace('x = "packet_bytes"', 'x = "part"', 1))


CLAIM = """
[[claim]]
printed = "text"
says = "DES adds what 3DES adds."
[[claim.test]]
over = { packet_bytes = "all" }
left = { sweep = "packet", metric = "protected_bytes", at = { policy = "des" } }
is = "="
right = { sweep = "packet", metric = "protected_bytes", at = { policy = "3des" } }
"""


READINGS = """
[[sweep.reading]]
name = "one"
says = "One way."
[[sweep.reading]]
name = "two"
says = "Another."
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('over = { packet_bytes = "all" }\n', "", 30, "several values of packet_bytes: say which"),
        ('"protected_bytes", at = { policy = "des" }', '"cycles"', 31, "values of policy: say"),
        (', at = { policy = "3des" }', "", 33, 'the sweep "packet" has several values of policy: '),
        ("\n[[published]]", READINGS + "\n[[published]]", 38, "several values of reading: say"),
    ],
)
def test_a_claim_that_may_mean_several_values_is_refused_at_its_side(
    old: str, new: str, line: int, said: str
) -> None:
    with pytest.raises(StudyError) as fault:
        parse("small.toml", (SMALL + CLAIM).replace(old, new))
    assert str(fault.value).startswith(f"small.toml:{line}:1: "), fault.value
    assert said in str(fault.value)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("{{ packet: protected_bytes }}", "several values of policy and packet_bytes: say which"),
        ("{{ packet: protected_bytes, policy = des }}", "several values of packet_bytes: say"),
        ("{{ packet: capacity_kbps, policy = des, packet_bytes = 64 }}", ""),
    ],
)
def test_a_text_that_may_mean_several_values_is_refused(place: str, said: str) -> None:
    text = SMALL.replace('series = "policy"', f'series = "policy"\nnote = "{place}"')
    if not said:
        assert parse("small.toml", text).figures[0].note == place
        return
    with pytest.raises(StudyError, match=r"^small.toml:25:1: figure.0.note: ") as fault:
        parse("small.toml", text)
    assert said in str(fault.value)


def test_what_has_no_rate_is_named_without_one() -> None:
    rates = SMALL.replace("packet_bytes = [64, 128]", "rate_kbps = [8, 16]")
    rates = rates[: rates.index("[[published]]")]
    rates = rates.replace('profile = "paper-u"', 'scenario = "umts"')
    rates = rates.replace('"price"', '"road"')
    for metric, is_named in (("capacity_kbps", True), ("carried_kbps", True), ("packets", False)):
        text = f'[[text]]\ntitle = "a"\nbody = "{{{{ packet: {metric}, policy = des }}}}"\n'
        if is_named:
            parse("small.toml", rates + text)
            continue
        with pytest.raises(StudyError, match="several values of rate_kbps"):
            parse("small.toml", rates + text)


def test_a_tunnel_cannot_leave_out_what_has_no_cost() -> None:
    head = SMALL[: SMALL.index("[[published]]")]
    tunnel = head.replace('measure = "price"', 'measure = "tunnel"\nskip_missing = true')
    tunnel = tunnel.replace('profile = "paper-u"', 'scenario = "road"')
    with pytest.raises(StudyError, match=r"^small.toml:8:1: sweep.0.skip_missing: "):
        parse("small.toml", tunnel)


RATES = SMALL[: SMALL.index("[[published]]")].replace(
    'measure = "price"\nprofile = "paper-u"', 'scenario = "umts"'
)
CAPACITY = "{ sweep = 'packet', metric = 'capacity_kbps', at = { policy = 'des'%s } }"


@pytest.mark.parametrize(
    ("key", "part"),
    [
        (
            "text.0.body",
            'text = [{ title = "a", body = """{{ packet: capacity_kbps, policy = des, '
            'rate_kbps = 8 }}""" }]',
        ),
        (
            "published.0.at.rate_kbps",
            'published = [{ printed = "a", sweep = "packet", metric = "carried_kbps", value = 1, '
            'at = { policy = "des", rate_kbps = 8 } }]',
        ),
        (
            "claim.0.test.0.left.at.rate_kbps",
            'claim = [{ printed = "a", says = "b", test = [{ is = ">", value = 1, '
            f"left = {CAPACITY % ', rate_kbps = 8'} }}] }}]",
        ),
        (
            "claim.0.test.0.over.rate_kbps",
            'claim = [{ printed = "a", says = "b", test = [{ is = ">", value = 1, '
            f"left = {CAPACITY % ''}, over = {{ rate_kbps = 'all' }} }}] }}]",
        ),
        (
            "figure.0.at.rate_kbps",
            'figure = [{ name = "a", title = "b", sweep = "packet", x = "policy", '
            'y = ["capacity_kbps"], series = "level", at = { rate_kbps = 8 } }]',
        ),
        (
            "figure.0.x",
            'figure = [{ name = "a", title = "b", sweep = "packet", x = "rate_kbps", '
            'y = ["capacity_kbps"], series = "policy" }]',
        ),
    ],
)
def test_a_rate_is_refused_where_the_metric_has_none(key: str, part: str) -> None:
    head, sweep = RATES.split("\n\n", 1)
    text = f"{head}\n{part}\n\n" + sweep.replace("packet_bytes = [64, 128]", "rate_kbps = [8, 16]")
    with pytest.raises(StudyError, match="one value for all rates: leave out rate_kbps") as fault:
        parse("small.toml", text)
    assert f": {key}: " in str(fault.value)


def test_a_test_runs_over_the_range_that_it_names() -> None:
    (claim,) = parse("small.toml", SMALL + CLAIM).claims
    assert claim.tests[0].over == {"packet_bytes": (64.0, 128.0)}
    with pytest.raises(StudyError, match=r"packet_bytes: .*has no packet_bytes = 65"):
        parse("small.toml", SMALL + CLAIM.replace('"all"', "[65]"))
    with pytest.raises(StudyError, match="at least one"):
        parse("small.toml", SMALL + CLAIM.replace('"all"', "[]"))
    with pytest.raises(StudyError, match=r"at least one \[\[claim.test\]\]"):
        parse("small.toml", SMALL + CLAIM[: CLAIM.index("[[claim.test]]")])


def test_a_value_cannot_be_published_twice() -> None:
    block = SMALL[SMALL.index("[[published]]") : SMALL.index("[[figure]]")]
    with pytest.raises(StudyError, match="published twice"):
        parse("small.toml", SMALL + block)


def test_an_absurd_grid_is_refused_before_it_is_made() -> None:
    text = SMALL.replace("[64, 128]", "{ from = 1, to = 1e12, step = 1 }")
    with pytest.raises(StudyError, match="steps"):
        parse("small.toml", text)


def test_an_unknown_study_is_answered_with_the_nearest() -> None:
    with pytest.raises(StudyError, match="the nearest valid one is 'umts'"):
        load("umtz")


def test_places_are_found_through_inline_tables_and_long_texts() -> None:
    text = (
        'a = """\nb = 1\n"""\n[t]\nlist = [\n  { c = 1 },\n  { d = 2 },\n]\n[[u]]\n[[u]]\ne = 3\n'
    )
    whole = Item.parse("x.toml", text)

    def at(*path: Step) -> tuple[int, int]:
        found = whole.find(path)
        return found.line, found.column

    assert at("a") == (1, 1)
    assert at("b") == (1, 1)
    assert at("t", "list", 1, "d") == (7, 5)
    assert at("u", 1, "e") == (11, 1)
    assert at("u", 1, "f", 2) == at("u", 1)


def test_a_table_keeps_the_order_and_the_kinds_of_its_file() -> None:
    text = "z = 1\na = 1.0\n[t]\ny = true\nb = [1, 'x']\n"
    values = plain("x.toml", text)
    assert json.dumps(values) == '{"z": 1, "a": 1.0, "t": {"y": true, "b": [1, "x"]}}'
    with pytest.raises(ValueError, match=r"^x.toml:1:1: a: NaN is not a finite number$"):
        plain("x.toml", "a = nan")


def test_the_catalogue_is_inside_the_package() -> None:
    assert (CATALOGUE / "studies").is_dir()


@pytest.mark.parametrize(
    ("span", "values"),
    [
        ("{ from = 100, to = 900, step = 300 }", (100, 400, 700)),
        ("{ from = 0.1, to = 0.7, step = 0.1 }", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)),
        ("{ from = 8, to = 9, step = 5 }", (8,)),
    ],
)
def test_a_span_ends_where_it_says(span: str, values: tuple[float, ...]) -> None:
    text = SMALL.replace("packet_bytes = [64, 128]", f"packet_bytes = {span}")
    text = text.partition("[[published]]")[0]
    (sweep,) = parse("small.toml", text).sweeps
    assert sweep.grid["packet_bytes"] == pytest.approx(values)

"""From a request to a demand, and from a demand's file to the form and back."""

from __future__ import annotations

import re
import tomllib
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice.errors import DemandError, UsageError
from suffice.loaders.demand import parse_demand
from suffice.report.page.model import Language
from suffice.web.fields import DEFAULTS, FIELDS, LONGEST_VALUE, MOST_FIELDS
from suffice.web.form import SOURCE, Form, default_form, demand_toml, form_of, opened, read_pairs
from suffice.web.saving import Outcome, save_demand
from suffice.web.toml_text import table_text, value_of
from suffice.web.words import language_of, texts_of

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
[demand]
kind = "scheduled"
model = "llama-3.1-8b:q4_k_m"
prompt_tokens = { p50 = 400, p95 = 1500 }
output_tokens = 120
requests_per_hour = 90.5
window_h = 8
ttft_s = { p90 = 2.5 }
tpot_s = 0.2
tpot_percentile = 50
context = 4096
margin = 1.25
memory_gb = 12
quality_floor = 0.7
budget_per_month = 300
currency = "EUR"
"""


def changed(**values: str) -> Form:
    """The form of the start with some fields typed anew."""
    return Form(values=MappingProxyType(dict(default_form().values) | values))


def test_a_file_survives_the_way_through_the_form() -> None:
    """What the form writes is the demand that the file held, whatever forms and other names it used."""
    found = opened(FILE, source="demand.toml")

    assert parse_demand(demand_toml(found.form, found.kept, found.model)) == parse_demand(FILE)
    assert found.model == "llama-3.1-8b:q4_k_m"
    assert found.kept == {}


def test_the_volume_of_a_day_survives_beside_the_rate_of_the_busiest_hour() -> None:
    """A field of its own, beside the rate and its period."""
    text = '[demand]\nkind = "interactive"\nprompt_tokens = 9\noutput_tokens = 9\nrequests_per_hour = 90\nvolume_per_day = 700\ntpot_s = 1\n'
    found = opened(text, source="demand.toml")

    assert (found.form["rate"], found.form["rate_per"], found.form["volume_per_day"]) == (
        "90",
        "requests_per_hour",
        "700",
    )
    assert parse_demand(demand_toml(found.form, found.kept, found.model)).requests_per_day == 700


def test_keys_without_a_field_are_kept() -> None:
    """A demand of images keeps them, although no field shows them."""
    text = FILE + "images_per_request = 1\nimage_tokens = 256\nimage_encoder_gflop = 10\n"
    found = opened(text, source="demand.toml")

    assert found.kept == {"images_per_request": 1, "image_tokens": 256, "image_encoder_gflop": 10}
    assert parse_demand(demand_toml(found.form, found.kept, found.model)) == parse_demand(text)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"margin": "abc"}, "field 'margin'"),
        ({"margin": "1,5"}, "field 'margin'"),
        ({"margin": "0.5"}, "field 'margin'"),
        ({"kind": "chatty"}, "chatty"),
        ({"prompt_p95": "10"}, "p50"),
        ({"concurrent_users": "2.5"}, "field 'concurrent_users'"),
        ({"concurrent_users": "4", "rate": "5"}, "'concurrent_users'"),
        ({"budget_per_month": "100"}, "'currency'"),
        ({"currency": "euros"}, "field 'currency'"),
        ({"ttft_s": "", "ttft_percentile": "90"}, "'ttft_percentile'"),
        ({"interactive_share": "0.5"}, "'interactive_share'"),
    ],
)
def test_what_is_wrong_is_said_as_on_the_command_line(changes: dict[str, str], says: str) -> None:
    """The message is that of a file with the same fault, under the form's name."""
    text = demand_toml(changed(**changes), {}, None)

    with pytest.raises(DemandError, match=says) as told:
        parse_demand(text, source=SOURCE)

    assert str(told.value).startswith("the form: ")


@given(st.dictionaries(st.sampled_from([field.name for field in FIELDS]), st.text(max_size=20), max_size=6))
def test_whatever_is_typed_stays_one_line_of_one_table(values: dict[str, str]) -> None:
    """No text of a field can write a key, a table or another line into the demand."""
    text = demand_toml(changed(**values), {}, None)
    document = tomllib.loads(text)

    assert list(document) == ["demand"]
    assert text.count("\n") == len(document["demand"]) + 1


@given(st.text())
def test_texts_come_back_from_toml(text: str) -> None:
    """Quotes, backslashes, control characters and line breaks are escaped."""
    assert tomllib.loads(table_text("t", {"a": text, "b.c": [text, {"d": text}]})) == {
        "t": {"a": text, "b.c": [text, {"d": text}]}
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("2.50", 2.5),
        ("1e3", 1000.0),
        ("-1", -1),
        ("05", "05"),
        ("٣", "٣"),
        ("1_0", "1_0"),
        ("inf", "inf"),
        ("", ""),
    ],
)
def test_numbers_are_told_from_texts(text: str, expected: float | str) -> None:
    """What TOML would take for a number is one; anything else stays a text, of which the reader says what is wrong."""
    assert value_of(text) == expected
    assert type(value_of(text)) is type(expected)


@pytest.mark.parametrize(
    "query",
    [
        "margin=1&margin=2",
        "markup=1",
        "csrf=1&unknown",
        f"margin={'1' * (LONGEST_VALUE + 1)}",
        "margin=1&" * (MOST_FIELDS + 1),
    ],
)
def test_requests_are_bounded(query: str) -> None:
    """A field twice, an unknown one, a long one or too many are refused, and nothing of them is repeated."""
    encoded = query.replace("unknown", "unknown=<b>")

    with pytest.raises(UsageError) as told:
        read_pairs(encoded)

    assert "<b>" not in str(told.value)
    assert "1111" not in str(told.value)


def test_an_empty_request_is_the_form_of_the_start() -> None:
    """The address without fields shows what the page was started with; one with fields nothing of it."""
    start = changed(margin="3")

    assert form_of({"lang": "zh"}, start) is start
    assert form_of(read_pairs("margin=2"), start).key != start.key
    assert form_of(read_pairs(start.query), default_form()).key == start.key


def test_the_form_without_a_file_is_a_demand() -> None:
    """The example of the docs can be judged as it is."""
    assert parse_demand(demand_toml(default_form(), {}, None)).margin == float(DEFAULTS["margin"])


def _placeholders(text: str) -> set[str]:
    return set(re.findall(r"{(\w+)}", text))


def test_both_languages_have_the_same_words() -> None:
    """No key and no placeholder is in one language only, and every field has a label."""
    english, chinese = (texts_of(language) for language in (Language.EN, Language.ZH))

    assert english.keys() == chinese.keys()
    assert {f"field.{field.name}" for field in FIELDS} <= english.keys()
    assert all(_placeholders(text) == _placeholders(chinese[key]) for key, text in english.items())
    assert language_of("zh") is Language.ZH
    assert language_of("<b>") is Language.EN


def test_a_file_is_replaced_only_when_somebody_saw_it(tmp_path: Path) -> None:
    """New: written. The same: left. Another one: asked for, and asked for again where it changed meanwhile."""
    path = tmp_path / "demand.toml"
    assert save_demand(path, "a", "").outcome is Outcome.SAVED
    assert save_demand(path, "a", "").outcome is Outcome.SAME

    asked = save_demand(path, "b", "")
    assert (asked.outcome, path.read_text(encoding="utf-8")) == (Outcome.EXISTS, "a")

    path.write_text("c", encoding="utf-8")
    assert save_demand(path, "b", asked.seen).outcome is Outcome.CHANGED
    assert path.read_text(encoding="utf-8") == "c"

    again = save_demand(path, "b", "")
    assert save_demand(path, "b", again.seen).outcome is Outcome.SAVED
    assert path.read_text(encoding="utf-8") == "b"

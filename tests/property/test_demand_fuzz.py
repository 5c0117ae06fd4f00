"""The reader of demand.toml against anything: a demand that can be judged, or DemandError, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.records import evidence
from suffice.decide.compare import decide
from suffice.errors import DemandError
from suffice.loaders.demand import load_demand, parse_demand
from suffice.model.vision import rule_names
from suffice.report.decision import decision_document, decision_text
from suffice.report.json_values import json_text

if TYPE_CHECKING:
    from pathlib import Path

QUICK = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FIELDS = (
    "kind", "model", "prompt_tokens", "output_tokens", "requests_per_second", "requests_per_hour", "requests_per_day",
    "concurrent_users", "tokens_per_second_per_user", "ttft_s", "tpot_s", "ttft_percentile", "tpot_percentile", "window_hours",
    "context_tokens", "margin", "memory_gib", "memory_gb", "quality_floor", "budget_per_month", "currency", "context", "unknown",
    "interactive_share", "images_per_request", "image_width_px", "image_height_px", "image_tokens", "image_encoder_gflop", "vision_model",
)  # fmt: skip
NUMBERS = (
    st.floats().map(lambda value: repr(value).replace("e+", "e"))
    | st.integers(-(10**25), 10**25).map(str)
    | st.sampled_from(["0", "1", "-0.0", "1e308", "1e-308", "5e-324", "1e400", "0xff", "9" * 5000, "0x" + "f" * 5000])
)
VALUES = (
    NUMBERS
    | st.sampled_from(
        ["true", '"batch"', "[]", "[1, [2]]", "{}", "1979-05-27", "07:32:00", '"\\u001b[31m"', "'''\nx'''", '"CNY"']
    )
    | st.tuples(NUMBERS, NUMBERS).map(lambda pair: f"{{ p50 = {pair[0]}, p95 = {pair[1]} }}")
    | NUMBERS.map(lambda number: f"{{ p99 = {number} }}")
)
SMALL = st.floats(1e-3, 1e3).map(repr)
TAME = st.fixed_dictionaries(
    {"kind": st.sampled_from(['"interactive"', '"batch"', '"scheduled"'])},
    optional={
        "prompt_tokens": st.integers(1, 3000).map(str),
        "output_tokens": st.integers(1, 3000).map(str),
        "requests_per_day": SMALL,
        "tokens_per_second_per_user": SMALL,
        "ttft_s": SMALL,
        "tpot_s": SMALL,
        "window_hours": st.floats(0.1, 24).map(repr),
        "margin": st.floats(1, 3).map(repr),
        "memory_gb": SMALL,
        "images_per_request": st.integers(1, 3).map(str),
        "image_width_px": st.integers(1, 2000).map(str),
        "image_height_px": st.integers(1, 2000).map(str),
        "vision_model": st.sampled_from([f'"{name}"' for name in rule_names()]),
    },
)


def _use(text: str) -> bool:
    """Read it and, when it is a demand, judge and print it; True when it is one."""
    try:
        demand = parse_demand(text, source="demand.toml")
    except DemandError as error:
        assert str(error).startswith("demand.toml")  # noqa: PT017  # either is right; what is raised has a sentence
        return False
    try:
        decision = decide(demand, [evidence(), evidence(decode=5)])
    except DemandError:
        return True  # more context than the model has
    json.loads(json_text(decision_document(decision)))
    decision_text(decision)
    return True


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    """A file of anything is a demand or DemandError."""
    path = tmp_path / "demand.toml"
    path.write_bytes(content)
    try:
        load_demand(path)
    except DemandError as error:
        assert str(error)  # noqa: PT017  # either is right; what is raised has a sentence


@QUICK
@given(st.text(max_size=100))
def test_any_text(text: str) -> None:
    """Any text, alone and inside of the table."""
    _use(text)
    _use(f'[demand]\nkind = "interactive"\n{text}')


@QUICK
@given(
    st.sampled_from(["interactive", "batch", "scheduled"]), st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6)
)
def test_any_values_in_known_fields(kind: str, fields: dict[str, str]) -> None:
    """Known fields with numbers beyond all measure, wrong types, dates, tables and control characters."""
    body = "\n".join(f"{name} = {value}" for name, value in fields.items() if name != "kind")
    _use(f'[demand]\nkind = "{kind}"\n{body}\n')


@QUICK
@given(TAME, st.sampled_from(FIELDS), VALUES)
def test_one_wild_value_among_sane_ones(fields: dict[str, str], name: str, value: str) -> None:
    """A plausible demand with one value replaced: refused, or it can be judged and printed."""
    _use("[demand]\n" + "\n".join(f"{key} = {text}" for key, text in {**fields, name: value}.items()))


def test_the_sane_ones_are_often_accepted() -> None:
    """The fuzzing above reaches the judging: a demand of its kind is read and judged."""
    assert _use('[demand]\nkind = "interactive"\ntokens_per_second_per_user = 8\nprompt_tokens = 5\nttft_s = 1\n')

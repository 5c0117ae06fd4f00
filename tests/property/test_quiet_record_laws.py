"""Whatever stands where readings of repetitions belong, a record is read or refused; and the marks do what they say to the stopping rule."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.records import document_of
from helpers.watched import watched_record
from suffice.errors import RecordError
from suffice.records.store import record_from
from suffice.stats import StoppingRule, StopReason, should_stop

WHOLE = document_of(watched_record([True, False] * 4))
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)
REPETITION = st.fixed_dictionaries(
    {},
    optional={
        "part": ODD,
        "start_s": ODD,
        "reading": st.dictionaries(
            st.sampled_from(["wall_s", "usable_cpus", "watched_cpus", "own_cpu_s", "made_up"]), ODD
        ),
        "windows": st.lists(st.fixed_dictionaries({"begin_s": ODD, "end_s": ODD, "disturbed": ODD}), max_size=2),
        "references_before": ODD,
        "disturbed": ODD,
    },
)


def _with(place: str, value: object) -> dict[str, Any]:
    """The document with another first repetition, or another first reading of the reference kernel."""
    document = dict(WHOLE)
    if place == "reference":
        first, *others = WHOLE["contention"]["references"][0]
        document["contention"] = {**WHOLE["contention"], "references": [[{**first, **_mapping(value)}, *others]]}
        return document
    measurement = WHOLE["measurement"]
    (series,) = measurement["decode"]
    first, *others = series["repetitions"]
    series = {**series, "repetitions": [{**first, **_mapping(value)}, *others]}
    document["measurement"] = {**measurement, "decode": [series]}
    return document


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@given(REPETITION)
@settings(max_examples=60, deadline=None)
def test_any_repetition_is_read_or_refused(repetition: dict[str, Any]) -> None:
    """Never another error than RecordError."""
    try:
        record_from(_with("repetition", repetition), source="odd")
    except RecordError:
        return


@given(st.dictionaries(st.sampled_from(["time_s", "cost_s", "memory_s", "compute_s", "memory_bytes", "waited_s"]), ODD))
@settings(max_examples=60, deadline=None)
def test_any_reference_reading_is_read_or_refused(reading: dict[str, Any]) -> None:
    """Never another error than RecordError."""
    try:
        record_from(_with("reference", reading), source="odd")
    except RecordError:
        return


@given(st.lists(st.tuples(st.floats(1.0, 2.0), st.sampled_from([True, False, None])), min_size=3, max_size=60))
@settings(max_examples=60, deadline=None)
def test_disturbed_repetitions_never_make_a_series_narrow(made: list[tuple[float, bool | None]]) -> None:
    """A series is as narrow as it is without its disturbed repetitions; no mark makes it longer than its maximum or its budget."""
    rule = StoppingRule(minimum=6)
    samples, marks = [rate for rate, _ in made], [mark for _, mark in made]
    calm = [rate for rate, mark in made if mark is not True]
    found = should_stop(rule, samples, elapsed_s=0.0, next_s=1.0, budget_s=1e6, disturbed=marks)
    plain = should_stop(rule, calm, elapsed_s=0.0, next_s=1.0, budget_s=1e6)

    assert (found is StopReason.NARROW) == (plain is StopReason.NARROW)
    assert should_stop(rule, samples, elapsed_s=2e6, next_s=1.0, budget_s=1e6, disturbed=marks) is not None

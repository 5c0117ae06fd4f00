"""Laws of evidence from loads: failures never help, lighter loads never are enough, more of the same never knows less; and hostile files."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.served import load, rate_demand, server
from suffice.decide import words
from suffice.decide.compare import decide
from suffice.decide.served import decide_served, servers_of
from suffice.decide.verdict import Grade
from suffice.errors import SufficeError
from suffice.loaders.any_record import loads_in
from suffice.model.served import ServedTimes
from suffice.model.served_range import served_range
from suffice.report.decision import decision_document, decision_text
from suffice.report.json_values import json_text
from suffice.report.served import served_documents, served_text

QUICK = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
DATA = Path(__file__).parents[1] / "data" / "load_results"
SECONDS = st.floats(0.001, 100.0)
SAMPLES = st.lists(SECONDS, min_size=1, max_size=120)
FRACTIONS = st.sampled_from([0.5, 0.9, 0.95, 0.99])
GOODNESS = (Grade.NOT_ENOUGH, Grade.OPEN, Grade.THIN, Grade.ENOUGH)
STRANGE = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1e-320,
        1e308,
        2**63,
        10**15,
        "",
        "inf",
        "NaN",
        "\x1b[31m",
        [],
        {},
        [None],
        {"mean": -1},
        [[1]],
        "x" * 999,
    ]
)


def raw(values: list[float]) -> ServedTimes:
    """Times of which the file holds every one."""
    return ServedTimes(values_s=tuple(sorted(values)), count=len(values))


@QUICK
@given(SAMPLES, FRACTIONS, st.integers(0, 30), st.integers(1, 5))
def test_a_failed_request_never_helps(values: list[float], fraction: float, failed: int, more: int) -> None:
    """With more failures the upper end is never lower, and the lower end, which is of the successes, never moves."""
    few = served_range(raw(values), fraction, failed)
    many = served_range(raw(values), fraction, failed + more)

    assert few is not None
    assert many is not None
    assert few.low == many.low
    assert few.point <= many.point
    if few.high is not None:
        assert many.high is not None
        assert few.high <= many.high


@QUICK
@given(SAMPLES, FRACTIONS, st.integers(0, 10), st.integers(2, 6))
def test_more_attempts_with_the_same_shares_never_loosen_the_interval(
    values: list[float], fraction: float, failed: int, times: int
) -> None:
    """Every sample several times over: both ends stay or move inwards."""
    once = served_range(raw(values), fraction, failed)
    often = served_range(raw(values * times), fraction, failed * times)

    assert once is not None
    assert often is not None
    if once.low is not None:
        assert often.low is not None
        assert often.low >= once.low
    if once.high is not None:
        assert often.high is not None
        assert often.high <= once.high


@QUICK
@given(SAMPLES, FRACTIONS, st.integers(0, 10))
def test_percentiles_alone_never_know_more_than_the_samples(values: list[float], fraction: float, failed: int) -> None:
    """The ends from a file's percentiles enclose those from its raw times, whichever rule made the percentiles."""
    ordered = sorted(values)
    shares = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
    for nearest in (False, True):
        coarse = ServedTimes(
            percentiles=tuple((share, _quantile(ordered, share, nearest=nearest)) for share in shares),
            count=len(values),
        )
        exact, bounds = served_range(raw(values), fraction, failed), served_range(coarse, fraction, failed)
        assert exact is not None
        assert bounds is not None
        if bounds.low is not None:
            assert exact.low is not None
            assert bounds.low <= exact.low * (1 + 1e-12)
        if bounds.high is not None:
            assert exact.high is not None
            assert bounds.high >= exact.high * (1 - 1e-12)


def _quantile(ordered: list[float], share: float, *, nearest: bool) -> float:
    """By numpy's default rule, or the least value that a share of them does not exceed."""
    place = (len(ordered) - 1) * share
    if nearest:
        return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@QUICK
@given(st.floats(0.1, 3.99), st.floats(0.0001, 10.0), st.integers(0, 50))
def test_a_lighter_load_is_never_enough(level: float, ttft_s: float, failed: int) -> None:
    """Whatever was seen below the demanded load, it is no "enough" for it."""
    found = decide_served(rate_demand(), server(load(level, ttft_s, failed=failed))).verdict

    assert found.grade in {Grade.OPEN, Grade.NOT_ENOUGH}


@QUICK
@given(st.floats(0.5, 20.0), st.floats(0.01, 2.0), st.floats(1.0, 3.0), st.integers(0, 20))
def test_a_slower_server_is_never_judged_better(level: float, ttft_s: float, slower: float, failed: int) -> None:
    """All times longer, or more failures: the grade is the same or worse."""
    fine = decide_served(rate_demand(), server(load(level, ttft_s))).verdict.grade
    slow = decide_served(rate_demand(), server(load(level, ttft_s * slower))).verdict.grade
    failing = decide_served(rate_demand(), server(load(level, ttft_s, failed=failed))).verdict.grade

    assert GOODNESS.index(slow) <= GOODNESS.index(fine)
    assert GOODNESS.index(failing) <= GOODNESS.index(fine)


@QUICK
@given(st.floats(0.5, 20.0), st.floats(0.01, 2.0), st.floats(1.0, 3.0))
def test_a_greater_demand_is_never_judged_better(level: float, ttft_s: float, more: float) -> None:
    """More requests a second, or a tighter limit."""
    one = server(load(level, ttft_s))
    grade = decide_served(rate_demand(), one).verdict.grade
    greater = decide_served(rate_demand(requests_per_second=4.0 * more), one).verdict.grade

    assert GOODNESS.index(greater) <= GOODNESS.index(grade)


@cache
def samples() -> list[tuple[str, Any]]:
    """The real files, the long one cut."""
    found = []
    for path in sorted(DATA.glob("*.json")):
        content = json.loads(path.read_text())
        for benchmark in content.get("benchmarks", []):
            benchmark["requests"]["successful"] = benchmark["requests"]["successful"][:3]
        found.append((path.name, content))
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401  # JSON
    """Every place in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in ((*path, key), *places(inner, (*path, key)))]


@settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_hostile_files_are_loads_or_errors_of_ours(data: st.DataObject) -> None:
    """Anything in any place: a file is judged and printed, is none of a load tool, or is refused with one of our errors."""
    _, original = data.draw(st.sampled_from(samples()))
    document = copy.deepcopy(original)
    for place in data.draw(st.lists(st.sampled_from(places(original)), min_size=1, max_size=3)):
        _put(document, place, data.draw(STRANGE))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        path.write_text(json.dumps(document))
        try:
            loads = loads_in(path)
            if loads is None:
                return
            decision = decide(rate_demand(), [], servers_of(loads, [False]))
        except SufficeError:
            return
    assert decision.verdict.verdict in {words.CPU, words.CPU_THIN, words.GPU, words.UNDECIDED}
    assert decision_text(decision) + served_text(decision.served)
    json_text(decision_document(decision) | {"served": served_documents(decision.served)})


def _put(document: Any, place: tuple[Any, ...], value: object) -> None:  # noqa: ANN401  # JSON
    """A value at a place, where an earlier change has left that place standing."""
    for key in place[:-1]:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return
    if (isinstance(document, list) and isinstance(place[-1], int) and place[-1] < len(document)) or isinstance(
        document, dict
    ):
        document[place[-1]] = value

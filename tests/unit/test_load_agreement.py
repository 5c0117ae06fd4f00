"""Files of load tools whose numbers contradict each other: what is not believed, and what still is."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from suffice.loaders.load_results import load_results
from suffice.loaders.load_results.agreement import Said, believed
from suffice.model.served_range import served_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.model.served import ServedLoad

DATA = Path(__file__).parents[1] / "data" / "load_results"
FILES = sorted(path.name for path in DATA.glob("*.json"))


def changed(folder: Path, name: str, change: Callable[[Any], object]) -> ServedLoad:
    """The first load of a real file after a change."""
    content = copy.deepcopy(json.loads((DATA / name).read_text()))
    change(content)
    path = folder / "result.json"
    path.write_text(json.dumps(content))
    return load_results(path)[0]


def set_metric(content: Any, metric: str, **values: object) -> None:  # noqa: ANN401  # JSON
    """Change fields of one of AIPerf's metrics."""
    content[metric].update(values)


@pytest.mark.parametrize("name", FILES)
def test_what_the_tools_wrote_agrees_with_itself(name: str) -> None:
    """None of the real files is doubted: duration and throughput are used as they stand."""
    for load in load_results(DATA / name):
        assert not [text for text in load.differences if "not used" in text]
        assert load.duration_s is not None
        assert load.requests_per_s is not None


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("vllm-0.33.0-detailed.json", lambda c: c.update(duration=0.25), "its requests span 2.52 s"),
        ("vllm-0.33.0-detailed.json", lambda c: c.update(duration=0.1, request_throughput=760.0), "slowest request"),
        ("vllm-0.33.0-rate.json", lambda c: c.update(duration=0.5), "are not the"),
        ("vllm-0.33.0-rate.json", lambda c: c.update(duration=0.5, request_throughput=152.0), "only 6 asked for"),
        ("aiperf-0.13.0-rate.json", lambda c: set_metric(c, "benchmark_duration", avg=1.0), "are not the 6.1"),
        ("aiperf-0.13.0-rate.json", lambda c: set_metric(c, "benchmark_duration", avg=0.1), "slowest request takes"),
        ("aiperf-0.13.0-concurrency.json", lambda c: set_metric(c, "request_throughput", avg=2.5), "its 2 users"),
        ("inference-perf-0.7.0-stage.json", lambda c: c.update(benchmark_time_seconds=1.0), "are not the 6.5"),
        ("guidellm-0.8.1-poisson.json", lambda c: c["benchmarks"][0].update(duration=1.0), "its requests span 15.88"),
    ],
)
def test_a_duration_that_the_rest_contradicts_is_not_used(
    tmp_path: Path, name: str, change: Callable[[Any], object], words: str
) -> None:
    """Throughput and the sent rate fall away, one sentence names the file and both numbers, latencies of users stay."""
    load = changed(tmp_path, name, change)

    assert (load.duration_s, load.requests_per_s, load.output_tokens_per_s) == (None, None, None)
    (note,) = [text for text in load.differences if words in text]
    assert note.startswith("result.json")
    assert note.endswith("duration and throughput are not used")
    assert load.e2e is not None


@pytest.mark.parametrize("unit", ["furlongs", "tokens/sec", None, "requests/fortnight"])
def test_a_throughput_of_an_unknown_unit_is_not_used(tmp_path: Path, unit: str | None) -> None:
    """AIPerf names the unit of its rate: one that is not read gives no rate, and a sentence."""
    load = changed(tmp_path, "aiperf-0.13.0-rate.json", lambda c: set_metric(c, "request_throughput", unit=unit))

    assert load.requests_per_s is None
    assert any("'request_throughput' is in" in text for text in load.differences)
    assert load.duration_s is not None


def test_a_throughput_is_read_in_its_own_unit(tmp_path: Path) -> None:
    """368 requests a minute are 6.1 a second."""
    load = changed(
        tmp_path,
        "aiperf-0.13.0-rate.json",
        lambda c: set_metric(c, "request_throughput", unit="requests/min", avg=6.137117 * 60),
    )

    assert load.requests_per_s == pytest.approx(6.137117)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: set_metric(c, "request_count", avg=1e6),
        lambda c: set_metric(c, "time_to_first_token", count=10**6),
        lambda c: (c["request_count"].update(avg=1e6), c["time_to_first_token"].update(count=10**6)),
    ],
)
def test_a_count_that_the_rest_contradicts_supports_no_percentile(
    tmp_path: Path, change: Callable[[Any], object]
) -> None:
    """A million requests beside the sum, the tokens and the rate of 76: P99 is of nothing."""
    load = changed(tmp_path, "aiperf-0.13.0-rate.json", change)

    assert load.ttft is not None
    assert served_range(load.ttft, 0.99, load.failed) is None
    assert not load.ttft.usable
    assert any("percentiles are not used" in text for text in load.differences)


def test_a_count_without_witnesses_is_doubted_with_the_rate(tmp_path: Path) -> None:
    """Nothing but the rate and the duration contradicts it: any of the three may be wrong, so none is used."""

    def million(content: Any) -> None:  # noqa: ANN401  # JSON
        content.update(num_prompts=10**6, completed=10**6, failed=0)
        content.pop("total_output_tokens")

    load = changed(tmp_path, "vllm-0.33.0-rate.json", million)

    assert load.requests_per_s is None
    assert load.ttft is not None
    assert not load.ttft.usable


def test_raw_times_are_counted_and_need_no_word_of_the_file(tmp_path: Path) -> None:
    """A wrong duration beside a time for every request leaves their percentiles usable."""
    load = changed(tmp_path, "vllm-0.33.0-detailed.json", lambda c: c.update(duration=0.25))

    assert load.ttft is not None
    assert load.ttft.usable
    assert load.ttft.values_s is not None


def test_a_late_end_without_a_loss_is_doubted() -> None:
    """Ten minutes around requests of ten seconds: a hung request explains it only where one was lost."""
    said = Said(succeeded=100, duration_s=600.0, requests_per_s=100 / 600, span_s=10.0)

    assert believed(said, "f").duration_s is None
    assert (
        believed(Said(succeeded=100, duration_s=600.0, requests_per_s=100 / 600, span_s=10.0, lost=1), "f").notes == ()
    )

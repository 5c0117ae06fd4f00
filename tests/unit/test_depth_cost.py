"""What physics and a record's own single stream say of its service curve."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.records import run_record
from suffice.decide.evidence import evidence_from
from suffice.decide.service_curves import Extent, curve_ends
from suffice.records.schema import BandwidthRecord, KvLayers, RunRecord, ServicePass, ServiceRecord
from suffice.report.run import run_text
from suffice.serving.depth_cost import DepthBound, bounded_steps
from suffice.serving.recorded import curve_notes, curve_of_record
from suffice.serving.surface import Point

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.serving.curve import ServiceCurve

# A token of depth is 100 kB, the memory gives 10 GB/s: 10 us a token and sequence, 10 ms at depth 1000.
BANDWIDTH = BandwidthRecord(read_bytes_per_s=1e10)
CHUNKS = (ServicePass(size=512, depth=0, seconds=(1.0, 1.0, 1.0)),)


def _record(steps: dict[tuple[int, int], float], **changes: Any) -> RunRecord:  # noqa: ANN401  # any field of a record
    """A record whose curve has these steps: (size, depth) to seconds."""
    passes = tuple(
        ServicePass(size=size, depth=depth, seconds=(seconds * 0.99, seconds, seconds * 1.01))
        for (size, depth), seconds in steps.items()
    )
    base = run_record(bandwidth_before=BANDWIDTH, bandwidth_after=None)
    service = ServiceRecord(slots=4, decode=passes, prefill=CHUNKS)
    return replace(base, measurement=replace(base.measurement, service=service), **changes)


def _curve(record: RunRecord) -> ServiceCurve:
    curve = curve_of_record(record)
    assert curve is not None
    return curve


def _with_bent(record: RunRecord, is_off: Callable[[ServicePass], bool]) -> RunRecord:
    """The record as one of slices, of which some passes lie off the line."""
    service = record.measurement.service
    assert service is not None
    decode, prefill = (
        tuple(replace(one, largest_residual=0.06 if is_off(one) else 0.05) for one in passes)
        for passes in (service.decode, service.prefill)
    )
    return replace(
        record, measurement=replace(record.measurement, service=replace(service, decode=decode, prefill=prefill))
    )


def test_passes_of_slices_off_the_line_are_left_out() -> None:
    """A pass of two that took twice its time on bent slices is what lies between one and four, and that is said."""
    record = _record({(1, 0): 0.05, (2, 0): 0.2, (4, 0): 0.08})
    doubtful = _with_bent(record, lambda one: one.size == 2)

    assert _curve(record).decode_s(2, 0) == pytest.approx(0.2)
    assert _curve(doubtful).decode_s(2, 0) == pytest.approx(0.06)
    assert [note for note in _curve(doubtful).notes if note.startswith("1 of 4 passes")]
    assert "1 of 4 passes of the service curve are left out" in run_text(doubtful)


@pytest.mark.parametrize("kind", ["decode", "prefill"])
def test_without_passes_of_a_kind_there_is_no_curve_and_that_is_said(kind: str) -> None:
    """Neither in the notes nor as the uncertainty of something is a curve spoken of that does not exist."""
    record = _record({(1, 0): 0.05, (2, 0): 0.06})
    service = record.measurement.service
    assert service is not None
    off = service.decode if kind == "decode" else service.prefill
    doubtful = _with_bent(record, lambda one: one.size in {other.size for other in off})

    assert curve_of_record(doubtful) is None
    assert any(note.endswith("there is no curve without them") for note in curve_notes(doubtful))
    assert "goes through the others" not in run_text(doubtful)


def test_a_pass_that_is_left_out_does_not_say_how_far_repetitions_scatter() -> None:
    """One of two that scatters by a factor of nine counts, until it lies off the line."""
    record = _record({(1, 0): 0.05})
    service = ServiceRecord(slots=2, decode=(ServicePass(size=2, depth=0, seconds=(0.01, 0.05, 0.09)),), prefill=CHUNKS)
    noisy = replace(record, measurement=replace(record.measurement, service=service))

    assert evidence_from(noisy).service_uncertainty not in {None, 0.0}
    assert evidence_from(_with_bent(noisy, lambda one: one.size == 2)).service_uncertainty == 0.0


def test_steps_that_keep_the_bound_are_as_measured() -> None:
    """Two and a half times what reading the cache takes: nothing is changed, nothing is said."""
    curve = _curve(_record({(1, 0): 0.05, (1, 1000): 0.075, (4, 0): 0.06, (4, 1000): 0.16}))

    assert curve.decode_s(1, 1000) == pytest.approx(0.075)
    assert curve.decode_s(4, 1000) == pytest.approx(0.16)
    assert curve.notes == ()
    assert curve.fast_end is curve


@pytest.mark.parametrize("deep_s", [0.05, 0.052, 0.03])
def test_a_slope_below_the_bound_or_negative_is_lifted_to_it(deep_s: float) -> None:
    """A thousand tokens cost 10 ms at least, whatever the noise made of them, and the record's reader is told."""
    record = _record({(1, 0): 0.05, (1, 1000): deep_s, (4, 0): 0.06, (4, 1000): 0.16})
    curve = _curve(record)

    assert curve.decode_s(1, 1000) - curve.decode_s(1, 0) == pytest.approx(0.01)
    assert deep_s - 0.01 <= curve.decode_s(1, 0) <= 0.05
    (note,) = curve.notes
    assert note.startswith("steps of 1 sequence grew less with depth than reading the cache takes")
    assert note in run_text(record)


def test_a_slope_of_many_times_the_bound_has_the_bound_as_its_fast_end() -> None:
    """Two seconds for a thousand tokens are no attention: the curve keeps them, its fast end takes 10 ms."""
    curve = _curve(_record({(1, 0): 0.05, (1, 1000): 2.05}))

    assert curve.decode_s(1, 1000) == pytest.approx(2.05)
    assert curve.fast_end.decode_s(1, 1000) == pytest.approx(0.06)
    assert curve.fast_end.prefill_s(512) == curve.prefill_s(512)
    assert "by more than 100 times" in curve.notes[0]


def test_a_verdict_takes_the_bound_as_its_fast_end() -> None:
    """Of steps that are too steep to be true, the slow end keeps the growth and the fast end has that of the reading, each with the error."""
    record = _record({(size, depth): 0.05 + 0.002 * depth for size in (1, 4) for depth in (0, 1000)})

    ends = curve_ends(evidence_from(record), Extent(sequences=4, prompt_tokens=100, depth=500))

    assert ends.slow is not None
    assert ends.fast is not None
    assert ends.slow.decode_s(1, 1000) > 2.05
    assert ends.fast.decode_s(1, 1000) < 0.06


@pytest.mark.parametrize(
    "changes",
    [
        {"bandwidth_before": None},
        {"device_kind": "gpu"},
        {"bandwidth_before": replace(BANDWIDTH, llc_bytes=10**9)},  # the whole cache fits into it
    ],
)
def test_without_a_bound_steps_only_never_fall(changes: dict[str, Any]) -> None:
    """No bandwidth, that of another device, or a last-level cache that may hold all: a slope of nothing stays."""
    curve = _curve(_record({(1, 0): 0.05, (1, 1000): 0.05}, **changes))

    assert curve.decode_s(1, 1000) == pytest.approx(0.05)
    assert curve.notes == ()


def test_a_window_ends_what_is_read() -> None:
    """Layers that look back 100 tokens read no more at 1000."""
    record = _record({(1, 0): 0.05, (1, 1000): 0.0505})
    model = replace(record.model, kv_bytes_per_token=None)
    windowed = replace(model, kv_layers=(KvLayers(count=10, bytes_per_token=1e4, window=100),))
    whole = replace(model, kv_layers=(KvLayers(count=10, bytes_per_token=1e4),))

    assert _curve(replace(record, model=windowed)).decode_s(1, 1000) == pytest.approx(0.051, abs=3e-4)
    assert _curve(replace(record, model=whole)).decode_s(1, 1000) == pytest.approx(0.0553, abs=5e-4)


def test_curve_and_single_stream_that_disagree_say_so() -> None:
    """The single stream decodes 20 tokens/s at depth 512; a curve with 100 ms there cannot be of the same machine at rest."""
    alike = _record({(1, 512): 0.0505, (2, 512): 0.07})
    apart = _record({(1, 512): 0.1, (2, 512): 0.12})

    assert curve_notes(alike) == ()
    (note,) = curve_notes(apart)
    assert note.startswith(
        "single stream and service curve disagree about a step of one sequence at depth 512: 49.0 ms to 51.0 ms"
    )
    assert note in run_text(apart)
    assert curve_notes(run_record()) == ()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.001, 1), min_size=2, max_size=6), st.floats(1, 1e6), st.integers(1, 16))
def test_whatever_was_measured_growth_keeps_the_bound(seconds: list[float], kv_bytes: float, size: int) -> None:
    """Between any two depths steps grow by the reading at least; steps that did already stay as they are."""
    bound = DepthBound(kv_bytes=lambda depth: kv_bytes * depth, bandwidth_bytes_per_s=1e10)
    points = [Point(size=size, depth=100.0 * place, seconds=value) for place, value in enumerate(seconds)]

    found = bounded_steps(points, bound).points

    assert all(point.seconds > 0 for point in found)
    if found == tuple(points):
        return
    for one, two in itertools.pairwise(found):
        least = bound.seconds(size, two.depth) - bound.seconds(size, one.depth)
        assert two.seconds - one.seconds >= least - 1e-9
    again = bounded_steps(found, bound)
    assert [point.seconds for point in again.points] == pytest.approx([point.seconds for point in found])


def test_a_bandwidth_that_cannot_be_changes_nothing() -> None:
    """1 MB/s beside steps of 50 ms over 100 MB of cache: the bandwidth is doubted, the steps are not clamped."""
    record = _record({(1, 0): 0.05, (1, 1000): 0.06}, bandwidth_before=BandwidthRecord(read_bytes_per_s=1e6))
    curve = _curve(record)

    assert (curve.decode_s(1, 0), curve.decode_s(1, 1000)) == pytest.approx((0.05, 0.06))
    assert "far faster than reading the cache" in curve.notes[0]

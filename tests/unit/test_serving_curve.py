"""Service curves: points, physics, what lies beyond, and their documents."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from suffice.errors import RecordError
from suffice.model.basis import Basis
from suffice.serving.curve import Reached, curve_of_physics, curve_of_points, farthest
from suffice.serving.curve_document import curve_of_document, document_of_curve
from suffice.serving.surface import PassPhysics, Point, surface_of_points

DECODE = [
    Point(size=1, depth=0, seconds=1.0),
    Point(size=1, depth=100, seconds=2.0),
    Point(size=4, depth=0, seconds=2.5),
    Point(size=4, depth=100, seconds=6.5),
]
PREFILL = [Point(size=10, depth=0, seconds=5.0), Point(size=20, depth=0, seconds=9.0)]


def test_a_curve_is_bilinear_between_points() -> None:
    """Half way in depth and a third of the way in batch: 1.5 and 4.5 at the rows, so 2.5."""
    curve = curve_of_points(DECODE, PREFILL)

    assert curve.decode_s(1, 50) == pytest.approx(1.5)
    assert curve.decode_s(2, 50) == pytest.approx(2.5)
    assert curve.prefill_s(15) == pytest.approx(7.0)


def test_a_chunk_of_one_token_is_a_decode_step() -> None:
    """Where no smaller chunk was measured, chunks lead down to the decode step of one sequence."""
    curve = curve_of_points(DECODE, PREFILL)

    assert curve.prefill_s(1) == 1.0
    assert curve.prefill_s(4) == pytest.approx(1 + 3 * 4 / 9)  # from (1, 1 s) to (10, 5 s)


def test_beyond_the_points_the_last_slopes_go_on_and_it_is_said() -> None:
    """Batch 7 and depth 200 lie on the prolonged plane; the reach of the measurements is exceeded, and named."""
    curve = curve_of_points(DECODE, PREFILL)

    assert curve.decode_s(1, 200) == pytest.approx(3.0)
    assert curve.decode_s(7, 0) == pytest.approx(4.0)
    assert curve.beyond(Reached(batch=5, depth=125, chunk=25)) == ()
    assert len(curve.beyond(Reached(batch=6, depth=126, chunk=26))) == 3
    assert "batch 6" in curve.beyond(Reached(batch=6))[0]


def test_a_curve_of_one_depth_says_that_depth_is_free() -> None:
    """Decode steps measured at 0 tokens only: a deeper simulation is told so, in place of an extrapolation that there is not."""
    curve = curve_of_points([Point(size=size, depth=0, seconds=size) for size in (1, 4)], PREFILL)

    assert curve.decode_s(1, 500) == curve.decode_s(1, 0)
    assert curve.beyond(Reached(batch=4, depth=500)) == (
        "the curve was measured at one depth (0 tokens), 500 were reached: depth is taken to cost nothing",
    )
    assert curve.beyond(Reached(batch=4)) == ()


def test_of_several_runs_the_farthest_counts() -> None:
    """One note a kind, whatever the number of runs."""
    runs = [Reached(batch=6, depth=200, chunk=1), Reached(batch=2, depth=300, chunk=90)]

    assert farthest(runs) == Reached(batch=6, depth=300, chunk=90)
    assert farthest([]) == Reached()


def test_a_larger_batch_may_be_faster_but_not_beyond_the_points() -> None:
    """3 sequences at 3 s and 4 at 2 s stay as they were measured; 7 follow the line from 1 to 4, not the fall from 3 to 4."""
    surface = surface_of_points(
        [Point(size=1, depth=0, seconds=1), Point(size=3, depth=0, seconds=3), Point(size=4, depth=0, seconds=2)]
    )

    assert (surface.at(3, 0), surface.at(4, 0)) == (3.0, 2.0)
    assert surface.at(7, 0) == pytest.approx(3.0)


def test_noise_is_pooled_and_missing_depths_are_borrowed() -> None:
    """3 s and 2 s at growing depths are 2.5 s each; a batch of 4 at one depth grows four times as fast as a batch of 1."""
    noisy = surface_of_points(
        [Point(size=1, depth=0, seconds=3), Point(size=1, depth=10, seconds=2), Point(size=1, depth=20, seconds=4)]
    )
    borrowed = surface_of_points(
        [Point(size=1, depth=0, seconds=1), Point(size=1, depth=10, seconds=2), Point(size=4, depth=0, seconds=3)]
    )

    assert [noisy.at(1, depth) for depth in (0, 10, 20)] == [2.5, 2.5, 4]
    assert borrowed.at(4, 10) == pytest.approx(3 + 4 * 1)


def test_physics_is_the_roofline_with_a_fixed_cost() -> None:
    """Worked by hand: bytes over bandwidth or operations over rate, whichever is more, and the fixed time."""
    work = PassPhysics(
        weight_bytes=1000.0,
        bandwidth_bytes_per_s=100.0,
        kv_bytes_per_token=1.0,
        flop_per_token=50.0,
        attention_flop=1.0,
        flop_per_s=10.0,
        fixed_s=0.5,
    )
    curve = curve_of_physics(work)

    assert curve.decode_s(1, 0) == pytest.approx(10.5)  # 1000 / 100, against 50 / 10
    assert curve.decode_s(1, 100) == pytest.approx(15.5)  # (1000 + 100) / 100 = 11, against (50 + 100) / 10 = 15
    assert curve.decode_s(4, 0) == pytest.approx(20.5)  # 4 * 50 / 10
    assert curve.prefill_s(4, 10) == pytest.approx(4 * (50 + 12) / 10 + 0.5)
    assert curve.decode.row(4, np.array([0.0, 100.0])) == pytest.approx([curve.decode_s(4, 0), curve.decode_s(4, 100)])
    assert curve.beyond(Reached(batch=1e6, depth=1e6, chunk=1e6)) == ()


def test_experts_are_read_as_they_are_touched() -> None:
    """Of 8 experts a token chooses 2: two tokens touch 1 - 0.75^2 of them when routing is even."""
    work = PassPhysics(weight_bytes=1.0, expert_bytes=80.0, expert_share=0.25, bandwidth_bytes_per_s=1.0)

    assert work.touched_bytes(1) == pytest.approx(21)
    assert work.touched_bytes(2) == pytest.approx(1 + 80 * (1 - 0.75**2))


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_a_slower_machine_takes_longer_for_everything(factor: float) -> None:
    """Measured and computed curves alike scale in all their times."""
    computed = curve_of_physics(
        PassPhysics(weight_bytes=1e3, bandwidth_bytes_per_s=10, flop_per_token=7, flop_per_s=2, fixed_s=1)
    )
    for curve in (curve_of_points(DECODE, PREFILL), computed):
        other = curve.slower(factor)

        assert other.decode_s(3, 30) == pytest.approx(factor * curve.decode_s(3, 30))
        assert other.prefill_s(12, 30) == pytest.approx(factor * curve.prefill_s(12, 30))


def test_documents_come_back_as_they_went() -> None:
    """A curve written as JSON and read again has the same seconds, basis and name."""
    computed = curve_of_physics(
        PassPhysics(weight_bytes=1e3, bandwidth_bytes_per_s=10), basis=Basis.PREDICTED, name="elsewhere"
    )
    for curve in (curve_of_points(DECODE, PREFILL, name="here", reach=2), computed):
        again = curve_of_document(json.loads(json.dumps(document_of_curve(curve))), "curve.json")

        assert again == curve


def _document(**changes: object) -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema_version": 1,
        "decode": [{"batch": 1, "depth_tokens": 0, "seconds": 0.1}],
        "prefill": [{"tokens": 8, "seconds": 0.5}],
    }
    return document | changes


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "JSON object"),
        ({}, "schema_version"),
        (_document(schema_version=2), "version 1"),
        (_document(schema_version=True), "schema_version"),
        (_document(decode=[]), "decode is a list"),
        (_document(prefill=None), "prefill is a list"),
        (_document(decode=[{"batch": 1.5, "seconds": 1}]), "whole number"),
        (_document(decode=[{"batch": 1, "seconds": 0}]), "a pass takes from 1e-09 to 1e"),
        (_document(decode=[{"batch": 1, "seconds": 1e308}]), "a pass takes"),
        (_document(decode=[{"batch": 1, "seconds": 5e-324}]), "a pass takes"),
        (_document(decode=[{"batch": 1, "seconds": -1}]), "a pass takes"),
        (_document(prefill=[{"tokens": 1, "seconds": 1e308}]), "a pass takes"),
        (_document(decode=[{"batch": 10**15, "seconds": 1}]), "whole number up to"),
        (_document(decode=[{"batch": 1, "depth_tokens": 1e300, "seconds": 1}]), "depth_tokens"),
        (_document(decode=[{"batch": 1, "depth_tokens": 5e-324, "seconds": 1}]), "depth_tokens"),
        ({"schema_version": 1, "physics": {"weight_bytes": 1e300, "bandwidth_bytes_per_s": 1e9}}, "beyond"),
        ({"schema_version": 1, "physics": {"weight_bytes": 1e9, "bandwidth_bytes_per_s": 1e-300}}, "beyond"),
        (
            {"schema_version": 1, "physics": {"weight_bytes": 1e9, "bandwidth_bytes_per_s": 1e9, "fixed_s": 1e300}},
            "fixed_s is 1e.300",
        ),
        (_document(decode=[{"batch": 1}]), "seconds is missing"),
        (_document(decode=[{"batch": 1, "seconds": 1, "depth": 3}]), "'depth'"),
        (_document(decode=[7]), "decode\\[0\\]"),
        (_document(decode=[{"batch": 1, "seconds": float("nan")}]), "finite"),
        (_document(decode=[{"batch": 1, "seconds": 10**400}]), "finite"),
        (_document(speed=3), "'speed'"),
        (_document(basis="guessed"), "basis"),
        (_document(reach=0.5), "reach"),
        (_document(name=3), "name"),
        ({"schema_version": 1, "physics": {"weight_bytes": 1}}, "bandwidth_bytes_per_s"),
        ({"schema_version": 1, "physics": {"weight_bytes": -1, "bandwidth_bytes_per_s": 1}}, "positive"),
        ({"schema_version": 1, "physics": 3}, "physics is an object"),
    ],
)
def test_a_wrong_document_is_refused_in_one_sentence(document: object, message: str) -> None:
    """Each mistake is named with the file and the field."""
    with pytest.raises(RecordError, match=message) as caught:
        curve_of_document(document, "my.json")

    assert str(caught.value).startswith("my.json")


def test_curves_need_points_of_both_kinds() -> None:
    """Half a curve is none."""
    with pytest.raises(ValueError, match="decode points and prefill points"):
        curve_of_points(DECODE, [])

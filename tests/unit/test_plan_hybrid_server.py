"""When what was simulated of one machine of a hybrid says something of another."""

from __future__ import annotations

import pytest

from suffice.decide.plan_hybrid_server import passes_of
from suffice.serving.curve import ServiceCurve, curve_of_physics, curve_of_points
from suffice.serving.surface import PassPhysics, Point


def without_gain(step_s: float, most: int, chunk_s: float = 1.0) -> ServiceCurve:
    """Steps of several sequences one after the other, and a little more; told for two of them and for the most that have room."""
    steps = [Point(size=1, depth=0, seconds=step_s)]
    steps += [Point(size=size, depth=0, seconds=1.25 * size * step_s) for size in (2, most)]
    return curve_of_points(steps, [Point(size=512, depth=0, seconds=chunk_s)])


def test_how_many_have_room_tells_nothing_of_speed() -> None:
    """The rows behind two sequences are in proportion."""
    small, large = passes_of(without_gain(0.1, 8)), passes_of(without_gain(0.1, 32))

    assert small.as_fast_as(large)
    assert large.as_fast_as(small)


@pytest.mark.parametrize(("step_s", "chunk_s"), [(0.1, 1.1), (0.11, 1.0)])
def test_faster_is_faster_in_steps_and_in_prompts(step_s: float, chunk_s: float) -> None:
    """In one of both is not enough."""
    fast, slow = passes_of(without_gain(0.1, 8)), passes_of(without_gain(step_s, 8, chunk_s))

    assert fast.as_fast_as(slow)
    assert not slow.as_fast_as(fast)


def test_a_curve_with_a_gain_by_batches_is_of_another_form() -> None:
    """Equal for one and two sequences, it says nothing of one without, nor that of it."""
    points = [Point(size=size, depth=0, seconds=seconds) for size, seconds in ((1, 0.1), (2, 0.25), (8, 0.4))]
    batching = passes_of(curve_of_points(points, [Point(size=512, depth=0, seconds=1.0)]))
    plain = passes_of(without_gain(0.1, 8))

    assert not batching.as_fast_as(plain)
    assert not plain.as_fast_as(batching)


def test_a_computed_curve_is_compared_by_its_seconds() -> None:
    """Twice the bytes at twice the bandwidth take as long; more experts of each token never less."""

    def passes(scale: float, share: float) -> PassPhysics:
        return PassPhysics(
            weight_bytes=scale,
            expert_bytes=8e9 * scale,
            expert_share=share,
            bandwidth_bytes_per_s=1e11 * scale,
            flop_per_token=1.0,
            flop_per_s=1000.0,
        )

    one, same, dense = (passes_of(curve_of_physics(passes(*given))) for given in ((1.0, 0.5), (1.0, 0.5), (2.0, 1.0)))

    assert one.as_fast_as(same)
    assert one.as_fast_as(dense)
    assert not dense.as_fast_as(one)

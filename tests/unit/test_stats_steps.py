"""Steps in a series: planted ones are found, noise and single outliers are none."""

from __future__ import annotations

import random

import pytest

from suffice.stats.steps import Step, find_steps, last_segment


def noisy(levels: list[tuple[float, int]], deviation: float, seed: int) -> list[float]:
    """So many values around each level in turn."""
    chance = random.Random(seed)  # noqa: S311  # a seed, so that a failure can be repeated
    return [level * chance.lognormvariate(0, deviation) for level, count in levels for _ in range(count)]


def test_a_planted_step_is_found_where_it_is() -> None:
    """Fifteen runs at 10 and fifteen at 9 with 1 % of noise: one step, at the sixteenth, of 10 % down."""
    steps = find_steps(noisy([(10, 15), (9, 15)], 0.01, 1))

    assert [step.index for step in steps] == [15]
    assert steps[0].ratio == pytest.approx(0.9, rel=0.01)
    assert steps[0].p_value == 0.001


def test_several_steps_are_found_in_order() -> None:
    """Down, up and down again, each ratio that of the two levels beside it."""
    steps = find_steps(noisy([(10, 12), (8, 12), (11, 12)], 0.01, 2))

    assert [step.index for step in steps] == [12, 24]
    assert [step.ratio for step in steps] == pytest.approx([0.8, 11 / 8], rel=0.02)
    assert last_segment(noisy([(10, 12), (8, 12), (11, 12)], 0.01, 2)) == 24


def test_noise_has_a_step_as_rarely_as_promised() -> None:
    """Of 300 series without a step at most 2 % show one at the level of 1 %."""
    wrong = sum(bool(find_steps(noisy([(10, 20)], 0.03, seed))) for seed in range(300))

    assert wrong <= 6


def test_large_noise_hides_a_small_step() -> None:
    """3 % down in 20 % of noise is not seen: no evidence, no step."""
    assert find_steps(noisy([(10, 10), (9.7, 10)], 0.2, 3)) == ()


@pytest.mark.parametrize("place", [0, 5, 10, 18, 19])
def test_one_wild_run_is_no_step(place: int) -> None:
    """A run at a tenth of the speed, wherever it stands."""
    values = noisy([(10, 20)], 0.01, 4)
    values[place] = 1.0

    assert find_steps(values) == ()


def test_few_figures_show_nothing() -> None:
    """Three and three cannot be told from chance at 1 %; fewer are not even split."""
    assert find_steps([10, 10.1, 10.2, 5, 5.1, 5.2]) == ()
    assert find_steps([10, 5]) == ()
    assert find_steps([]) == ()


@pytest.mark.parametrize("place", [3, 4, 8, 11, 12])
def test_fifteen_figures_show_a_step_wherever_it_lies(place: int) -> None:
    """A level of three runs at either end is as visible as halves."""
    steps = find_steps(noisy([(10, place), (5, 15 - place)], 0.01, 6))

    assert [step.index for step in steps] == [place]


@pytest.mark.parametrize("place", [3, 4, 5, 6])
def test_nine_figures_show_none(place: int) -> None:
    """Half the speed from one run on, and chance makes as much of nine too often: no evidence yet."""
    assert find_steps(noisy([(10, place), (5, 9 - place)], 0.01, 6)) == ()


def test_equal_figures_have_no_step() -> None:
    """No variance is no step, and no division by zero."""
    assert find_steps([7.0] * 12) == ()


def test_the_same_series_has_the_same_steps() -> None:
    """Permutations come from a generator of our own: nothing depends on when, or where."""
    values = noisy([(10, 8), (9.7, 8)], 0.01, 5)

    assert find_steps(values) == find_steps(values)
    assert all(isinstance(step, Step) for step in find_steps(values))


def test_figures_are_positive() -> None:
    """A level of nothing has no logarithm."""
    with pytest.raises(ValueError, match="positive"):
        find_steps([1.0, 0.0, 1.0])

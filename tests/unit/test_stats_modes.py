"""Lower mode, dip and drift."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from suffice.stats.modes import (
    DIP_LIMIT,
    LARGEST_TOLERANCE,
    LEAST_TOLERANCE,
    dip,
    is_bimodal,
    local_scatter,
    lower_mode,
)
from suffice.stats.trend import trend


def seeded() -> random.Random:
    """The same numbers in every run."""
    return random.Random(7)  # noqa: S311  # noise, no secret


def noisy(rng: random.Random, level: float, count: int, scatter: float = 0.02) -> list[float]:
    """Log-normal times around a level."""
    return [level * math.exp(rng.gauss(0, scatter)) for _ in range(count)]


def test_dip_of_known_samples() -> None:
    """Even spacing is as unimodal as a sample can be, 1/(2n); two points with half each are the least, 1/4."""
    assert dip(range(10)) == pytest.approx(1 / 20)
    assert dip([0.0] * 5 + [1.0] * 5) == pytest.approx(0.25)
    assert dip([3.0] * 4) == pytest.approx(1 / 8)
    # By hand: two runs of 4 with gaps of 0.01, one apart. Nearest is the distribution that leads straight through the first run to its end,
    # up to the middle of the second; the largest distance is 4/8 - 0.03/1.03 * (4 + ...)/8, which the literal AS 217 puts at 0.2425.
    assert dip([0, 0.01, 0.02, 0.03, 1, 1.01, 1.02, 1.03]) == pytest.approx(0.2425)
    with pytest.raises(ValueError, match="no dip"):
        dip([])


def unimodal_distance(x: list[float], mode: int) -> float:
    """A slow oracle for few distinct points: the least largest distance to a distribution whose density rises up to x[mode] and falls after.

    A linear programme: the heights of the distribution just before and at each point, in [0, 1]; convex up to the mode, concave after it, a
    jump only at the mode.
    """
    from scipy.optimize import linprog  # noqa: PLC0415  # heavy, and of this test alone

    n = len(x)
    # Variables: F at each point (left limit equals it but at the mode), the left limit at the mode, and the distance.
    left_at_mode, distance = n, n + 1
    rows: list[list[float]] = []
    limits: list[float] = []

    def at_most(terms: dict[int, float], limit: float) -> None:
        rows.append([terms.get(i, 0.0) for i in range(n + 2)])
        limits.append(limit)

    def left(i: int) -> int:
        return left_at_mode if i == mode else i

    for i in range(n):
        at_most({i: 1, distance: -1}, (i + 1) / n)
        at_most({i: -1, distance: -1}, -(i + 1) / n)
        at_most({left(i): 1, distance: -1}, i / n)
        at_most({left(i): -1, distance: -1}, -i / n)
    rising = [(x[i], i) for i in range(mode)] + [(x[mode], left_at_mode)]
    falling = [(x[mode], mode)] + [(x[i], i) for i in range(mode + 1, n)]
    for sign, side in ((1, rising), (-1, falling)):
        for (xa, a), (xb, b), (xc, c) in zip(side, side[1:], side[2:], strict=False):
            before, after = 1 / (xb - xa), 1 / (xc - xb)
            at_most({a: -sign * before, b: sign * (before + after), c: -sign * after}, 0.0)
    for a, b in itertools.pairwise([*range(mode), left_at_mode, *range(mode, n)]):
        at_most({a: 1, b: -1}, 0.0)
    cost = [0.0] * (n + 1) + [1.0]
    found = linprog(cost, A_ub=rows, b_ub=limits, bounds=[(0, 1)] * (n + 1) + [(0, None)], method="highs")
    return float(found.fun)


def test_dip_agrees_with_a_linear_programme() -> None:
    """The algorithm finds the distance to the nearest unimodal distribution, as solving for that distribution does."""
    rng = seeded()
    for _ in range(12):
        x = sorted(rng.choice([rng.gauss(0, 1), rng.gauss(4, 1)]) for _ in range(rng.randint(3, 9)))
        assert dip(x) == pytest.approx(min(unimodal_distance(x, mode) for mode in range(len(x))), abs=1e-7)


def test_uniform_numbers_stay_below_the_limit() -> None:
    """The limit is exceeded by at most 1 % of uniform samples, but for chance: 4 of 200 would be p = 0.14."""
    rng = seeded()
    for n in (20, 80):
        exceeded = sum(dip([rng.random() for _ in range(n)]) * math.sqrt(n) > DIP_LIMIT for _ in range(200))
        assert exceeded <= 5


def test_two_places_are_bimodal_and_one_tail_is_not() -> None:
    """Two levels 30 % apart are seen; one level, and one with a long tail, are not; nine values say nothing."""
    rng = seeded()
    assert is_bimodal(noisy(rng, 1.0, 40) + noisy(rng, 1.3, 40)) is True
    assert is_bimodal(noisy(rng, 1.0, 80)) is False
    assert is_bimodal([1 + rng.expovariate(5) for _ in range(80)]) is False
    assert is_bimodal([1.0] * 5 + [2.0] * 4) is None


def test_local_scatter_is_not_moved_by_levels() -> None:
    """Blocks at two levels have the scatter of one of them: 2 %."""
    rng = seeded()
    row = [value for level in (1.0, 1.5) * 4 for value in noisy(rng, level, 25)]
    assert local_scatter([row]) == pytest.approx(0.02, rel=0.25)
    assert local_scatter([[1.0], [2.0]]) is None


@pytest.mark.parametrize("slow", [1.15, 1.5, 4.0])
@pytest.mark.parametrize("quiet_share", [0.35, 0.6, 1.0])
def test_lower_mode_of_a_mixture(slow: float, quiet_share: float) -> None:
    """The fast level is found within 2 %, however much of the time the slow one has up to 65 %."""
    rng = seeded()
    quiet = round(300 * quiet_share)
    # The same share of time: each slow step takes `slow` times as long.
    values = noisy(rng, 1.0, quiet) + noisy(rng, slow, round((300 - quiet) / slow))
    rng.shuffle(values)
    mode = lower_mode([values], 0.3)
    assert mode is not None
    assert mode.centre == pytest.approx(1.0, rel=0.02)
    assert mode.share == pytest.approx(quiet_share, abs=0.05)


def test_lower_mode_needs_its_share_and_five_values() -> None:
    """A tenth of the time is no mode, and four values have none; what is spread over a decade has none either."""
    rng = seeded()
    few = noisy(rng, 1.0, 10) + [2.0 * 1.1**i for i in range(30)]
    assert lower_mode([few], 0.3) is None
    assert lower_mode([[1.0] * 4], 0.3) is None
    assert lower_mode([[1.25**i for i in range(20)]], 0.3) is None
    with pytest.raises(ValueError, match="positive"):
        lower_mode([[1.0, 0.0]], 0.3)


def test_lower_mode_is_as_wide_as_its_noise() -> None:
    """A steady level is given 2 % on each side, a noisy one three deviations, and none more than 10 %."""
    rng = seeded()
    widths = []
    for scatter in (0.0, 0.02, 0.045):
        mode = lower_mode([noisy(rng, 1.0, 200, scatter)], 0.1)
        assert mode is not None
        widths.append(mode.tolerance)
    assert widths[0] == LEAST_TOLERANCE
    assert widths[1] == pytest.approx(0.06, rel=0.3)
    assert widths[2] == pytest.approx(LARGEST_TOLERANCE)


def test_a_mode_with_faster_values_beside_it_is_not_the_fastest() -> None:
    """A slow level that holds most of the time is refused when a tenth of the values is faster, and taken when one value is."""
    rng = seeded()
    slow = noisy(rng, 2.0, 90)
    assert lower_mode([slow + noisy(rng, 1.0, 10)], 0.3) is None
    found = lower_mode([[*slow, 1.0]], 0.3)
    assert found is not None
    assert found.centre == pytest.approx(2.0, rel=0.01)
    assert lower_mode([noisy(rng, 1.0, 200, 0.3)], 0.1) is None


def test_trend_of_a_rising_series() -> None:
    """Six rising values have p = 2/6! (two orders of 720 are so one-sided), and the slope of the line."""
    found = trend([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    assert found is not None
    assert found.p_value == pytest.approx(2 / 720)
    assert found.slope_share == pytest.approx(0.1 / 1.25)
    assert found.total_share == pytest.approx(0.5 / 1.25)
    assert found.is_drift


def test_trend_p_values_by_counting_orders() -> None:
    """For five values the p-value is the share of the 120 orders with a score as far from zero."""
    rng = seeded()
    orders = list(itertools.permutations(range(1, 6)))

    def score(values: tuple[int, ...]) -> int:
        return sum((b > a) - (b < a) for a, b in itertools.combinations(values, 2))

    for order in rng.sample(orders, 12):
        share = sum(abs(score(other)) >= abs(score(order)) for other in orders) / len(orders)
        found = trend([float(value) for value in order])
        assert found is not None
        assert found.p_value == pytest.approx(share)


def test_trend_of_long_and_tied_series_agrees_with_scipy() -> None:
    """Beyond twelve values, and with ties, the p-value is close to that of Kendall's tau against time."""
    from scipy.stats import kendalltau  # noqa: PLC0415  # heavy, and of this test alone

    rng = seeded()
    for values in (
        [1 + 0.01 * i + rng.gauss(0, 0.1) for i in range(30)],
        [round(2 + 0.02 * i + rng.gauss(0, 0.3), 1) for i in range(40)],
    ):
        found = trend(values)
        assert found is not None
        other = kendalltau(range(len(values)), values, method="asymptotic")
        assert found.p_value == pytest.approx(float(other.pvalue), abs=0.01)


def test_trend_without_change_or_values() -> None:
    """Equal values have no drift; four values cannot show one; a zero is refused."""
    level = trend([2.0] * 8)
    assert level is not None
    assert (level.slope_share, level.p_value, level.is_drift) == (0.0, 1.0, False)
    assert trend([1.0, 2.0, 3.0, 4.0]) is None
    with pytest.raises(ValueError, match="positive"):
        trend([1.0, 0.0])

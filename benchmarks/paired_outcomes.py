"""What `benchmarks.interval_coverage` sums over and compares with: all outcomes of paired items, and Newcombe's interval of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, xlogy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

Z = 1.959963984540054


def outcomes(items: int, gain: float, loss: float) -> tuple[Ints, Ints, Floats]:
    """All numbers of items gained and lost that are not all but impossible, with their probabilities."""
    reach = min(items, int(items * (gain + loss) + 9 * math.sqrt(items * (gain + loss)) + 9))
    gained, lost = (part.ravel() for part in np.meshgrid(np.arange(reach + 1), np.arange(reach + 1)))
    possible = gained + lost <= items
    gained, lost = gained[possible], lost[possible]
    rest = items - gained - lost
    logs = gammaln(items + 1) - gammaln(gained + 1) - gammaln(lost + 1) - gammaln(rest + 1)
    chance = np.exp(logs + xlogy(gained, gain) + xlogy(lost, loss) + rest * np.log(1 - gain - loss))
    likely = chance > 1e-8
    return gained[likely], lost[likely], chance[likely]


def newcombe_covers(cells: Ints, truth: float) -> NDArray[np.bool_]:
    """Newcombe's square-and-add interval of paired shares (Statistics in Medicine 17, 1998, 2635, method 10), for many tables at once."""
    both, only_reference, only_candidate, neither = (cells[:, i].astype(float) for i in range(4))
    items = both + only_reference + only_candidate + neither

    def wilson(successes: Floats) -> tuple[Floats, Floats, Floats]:
        share, square = successes / items, Z * Z / items
        half = Z * np.sqrt(share * (1 - share) / items + square / (4 * items)) / (1 + square)
        centre = (share + square / 2) / (1 + square)
        return share, centre - half, centre + half

    first, first_low, first_high = wilson(both + only_candidate)
    second, second_low, second_high = wilson(both + only_reference)
    margins = (
        (both + only_reference) * (only_candidate + neither) * (both + only_candidate) * (only_reference + neither)
    )
    product = both * neither - only_reference * only_candidate
    product = np.where(product > items / 2, product - items / 2, np.where(product < 0, product, 0.0))
    phi = np.where(margins > 0, product / np.sqrt(np.maximum(margins, 1)), 0.0)
    down, up = first - first_low, second_high - second
    low = first - second - np.sqrt(np.maximum(0, down**2 - 2 * phi * down * up + up**2))
    down, up = second - second_low, first_high - first
    high = first - second + np.sqrt(np.maximum(0, down**2 - 2 * phi * down * up + up**2))
    return (low <= truth) & (truth <= high)

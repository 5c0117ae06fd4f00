"""How often intervals hold the truth when blocks of one long text count as its documents.

    python benchmarks/block_coverage.py

Divergences of tokens are log-normal with a shape of 1.6; a tenth of the logarithm's variance drifts along the text, with a correlation length in
tokens. Blocks are taken as `suffice quants` does it, 16,384 tokens at most, evenly over the text. The interval of the mean is asked for two
things: the mean of this very text, and that of all such texts. Seeded; some minutes on one core.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.signal import lfilter

from suffice.quality.tails import token_tail
from suffice.stats.documents import DocumentTotal, Scale, document_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHAPE: Final = 1.6
DRIFT_SHARE: Final = 0.1
MEAN: Final = 0.01
P99: Final = MEAN * math.exp(SHAPE * 2.326348 - SHAPE**2 / 2)
MAX_TOKENS: Final = 16_384
SPREAD: Final = (math.sqrt(5) - 1) / 2
REPETITIONS: Final = 300
REPETITIONS_LONG: Final = 150  # of the longest texts
LONG: Final = 100_000


def text_of(tokens: int, correlation: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Divergences along a text."""
    keep = math.exp(-1 / correlation)
    lead = 5 * correlation
    noise = random.standard_normal(tokens + lead)
    drift = lfilter([math.sqrt(1 - keep * keep)], [1, -keep], noise)[lead:]
    own = random.standard_normal(tokens)
    logarithm = SHAPE * (math.sqrt(DRIFT_SHARE) * drift + math.sqrt(1 - DRIFT_SHARE) * own) - SHAPE**2 / 2
    found: NDArray[np.float64] = MEAN * np.exp(logarithm)
    return found


def blocks_of(values: NDArray[np.float64], block: int) -> list[NDArray[np.float64]]:
    """Those that are taken."""
    number = len(values) // block
    order = sorted(range(number), key=lambda place: place * SPREAD % 1)
    return [values[place * block : (place + 1) * block] for place in sorted(order[: MAX_TOKENS // block])]


def row(tokens: int, correlation: int, block: int, random: np.random.Generator) -> str:
    """Coverages in percent."""
    this = such = tail = refused = 0
    repetitions = REPETITIONS_LONG if tokens > LONG else REPETITIONS
    for _ in range(repetitions):
        values = text_of(tokens, correlation, random)
        blocks = blocks_of(values, block)
        totals = [DocumentTotal(total=float(one.sum()), tokens=len(one)) for one in blocks]
        interval = document_mean(totals, Scale.LOGARITHMIC).interval
        if interval is not None:
            this += interval.low <= values.mean() <= interval.high
            such += interval.low <= MEAN <= interval.high
        quantile = token_tail(blocks).interval
        refused += quantile is None
        tail += quantile is not None and quantile.low <= P99 <= quantile.high
    judged = repetitions - refused
    shown = f"{100 * tail / judged:.1f}" if judged else "–"
    share = 100 / repetitions
    return (
        f"| {correlation} | {tokens} | {block} | {len(blocks)} | {share * this:.1f} | {share * such:.1f} | {shown} "
        f"| {share * refused:.0f} |"
    )


def main() -> None:
    """Print the table."""
    random = np.random.default_rng(5)
    print(
        "| drift, tokens | text, tokens | block | blocks | mean of this text | of such texts | P99 of such texts | no P99, % |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for correlation in (20, 200, 1_000):
        for tokens in (4_096, 16_384, 163_840):
            for block in (256, 512, 1_024):
                if tokens // block >= 5:
                    print(row(tokens, correlation, block, random), flush=True)


if __name__ == "__main__":
    main()

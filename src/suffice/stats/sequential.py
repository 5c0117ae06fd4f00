"""Is a share at least so large? Asked again and again while trials come in, without the chance of a wrong answer growing by the asking.

The evidence is a likelihood ratio, averaged over the shares on one side, against the share in question. Where that side is wrong it is a
non-negative supermartingale that starts at 1, so that the chance that it **ever** reaches ``1 / risk`` is at most ``risk`` (Ville's
inequality; Robbins, Ann. Math. Statist. 41, 1970; Howard, Ramdas, McAuliffe and Sekhon, Ann. Statist. 49, 2021). One may therefore look
after each trial and stop at any time, for any reason.

Requests that wait in one queue are not independent: neighbours are late together, and a busy queue taken for independent trials "holds"
its limits nearly always. ``correlation_time`` says how many of them are worth one, and the evidence is of so many fewer trials. That
step is an approximation; the error rates that are left are measured on simulated queues in ``tests/unit/test_capacity_sequential.py``.
"""

from __future__ import annotations

import math
from enum import StrEnum
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from scipy.special import betainc, betaln

if TYPE_CHECKING:
    from collections.abc import Sequence

_PRIOR: Final = 0.5  # Jeffreys' Beta(1/2, 1/2), cut off at the share in question
_LEAST_SERIES: Final = 8  # values below which nothing is said of their correlation
_UPPER_PART: Final = 0.85  # the rank from which on neighbours are compared: limits are about the slow ones
_ERRORS: Final = 2.0  # standard errors by which a correlation time is raised: too short a one makes wrong answers
_NOTHING: Final = 1e-8  # a correlation that is rounding
_FIRST_LOOK: Final = 8  # arrivals; further looks at a backlog are at each doubling
_BLOCKS: Final = 8  # of waits whose means are compared: what varies from request to request is no growth
_LEAST_WAITS: Final = 32  # below which nothing is said of a queue's growth
_LEAST_VARIATION: Final = 0.25  # of gaps and services together, where gaps are constant
# The growth of a queue at exactly the rate that its server can do, which nothing but chance makes grow: (probability, value that it stays
# below). Reflected random walks from 0 with Poisson arrivals, 60 000 of 64 requests; of 200 and 1200 the values are up to 4 % larger.
_CRITICAL_GROWTH: Final = (
    (0.0005, 0.0349),
    (0.0025, 0.048),
    (0.005, 0.0562),
    (0.01, 0.0655),
    (0.025, 0.0813),
    (0.05, 0.0989),
    (0.1, 0.1248),
    (0.2, 0.1673),
    (0.5, 0.3035),
)


class ShareVerdict(StrEnum):
    """Whether a share is at least what is asked for."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


def share_verdict(kept: float, trials: float, share: float, *, risk: float) -> ShareVerdict:
    """Whether trials succeed with a probability above ``share``, below it, or neither can be said yet.

    Args:
        kept: trials that succeeded; fractions where trials are worth less than one.
        trials: of so many.
        share: the share in question, inside (0, 1).
        risk: the chance that is allowed to each of the two wrong answers, however often this is asked.
    """
    enough = -math.log(risk)
    if log_evidence(kept, trials, share, above=True) >= enough:
        return ShareVerdict.HOLDS
    if log_evidence(kept, trials, share, above=False) >= enough:
        return ShareVerdict.FAILS
    return ShareVerdict.UNDECIDED


def log_evidence(kept: float, trials: float, share: float, *, above: bool) -> float:
    """The logarithm of the evidence that the probability of success is above ``share`` (or below it).

    With k of n: ``integral of p^k (1-p)^(n-k) dF(p) / (share^k (1-share)^(n-k))``, F Jeffreys' distribution on one side of ``share``.

    Raises:
        ValueError: more successes than trials, a negative number, or a share outside (0, 1).
    """
    if not 0 <= kept <= trials or not 0 < share < 1:
        raise ValueError(f"{kept:g} of {trials:g} trials against a share of {share:g} cannot be")
    missed = trials - kept
    weighed = _log_part(kept + _PRIOR, missed + _PRIOR, share, above=above)
    whole = _log_part(_PRIOR, _PRIOR, share, above=above)
    return weighed - whole - kept * math.log(share) - missed * math.log1p(-share)


def _log_part(a: float, b: float, share: float, *, above: bool) -> float:
    """The logarithm of the beta function's integral from ``share`` to 1, or from 0 to ``share``."""
    part = float(betainc(b, a, 1 - share) if above else betainc(a, b, share))
    return float(betaln(a, b)) + math.log(part) if part > 0 else -math.inf


def correlation_time(values: Sequence[float]) -> float:
    """How many successive values are worth one independent value, at least 1, with what the estimate itself may be wrong by.

    The integrated autocorrelation time ``1 + 2 * sum of autocorrelations``, summed in pairs while these are positive and made to fall
    (Geyer, Statist. Sci. 7, 1992, section 3.3), of ranks of which the lower 85 % are made equal: failures (infinite) and long tails
    have their place and no more, and what is compared is whether the slow ones come together. Raised by two standard errors, each
    ``sqrt(2 (2 M + 1) / n)`` of itself with M lags (Madras and Sokal, J. Stat. Phys. 50, 1988). Equal values show no correlation: 1.
    """
    n = len(values)
    if n < _LEAST_SERIES:
        return 1.0
    centred = _centred_upper_ranks(values)
    variance = sum(value * value for value in centred)
    if variance <= 0:
        return 1.0
    total, last, lag = -1.0, math.inf, 0
    while lag + 1 < n // 2:
        pair = (_lagged(centred, lag) + _lagged(centred, lag + 1)) / variance
        if pair <= _NOTHING:
            break
        last = min(last, pair)
        total += 2 * last
        lag += 2
    return max(1.0, total) * (1 + _ERRORS * math.sqrt(2 * (2 * lag + 1) / n))


def _lagged(values: Sequence[float], lag: int) -> float:
    return sum(a * b for a, b in zip(values[lag:], values, strict=False))


def _centred_upper_ranks(values: Sequence[float]) -> list[float]:
    """Ranks less their mean; equal values share the mean of their ranks, and the lower part of all ranks is one."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            ranks[place] = (first + last) / 2
        first = last + 1
    least = _UPPER_PART * (len(values) - 1)
    raised = [max(rank, least) for rank in ranks]
    if min(raised) == max(raised):  # many equal values at the top: then all ranks count
        raised = ranks
    middle = sum(raised) / len(raised)
    return [rank - middle for rank in raised]


def falls_behind(
    arrivals_s: Sequence[float], answered_s: Sequence[float], rate_per_s: float, *, variation: float, risk: float
) -> bool:
    """Whether a server answers fewer requests than arrive, so that its queue grows and every limit is missed in the end.

    A server that could keep up answers all that arrives while it has nothing to wait for, and more than ``rate_per_s`` while it has a
    queue. Its answers are therefore few only when arrivals were, and those vary by ``variation * sqrt(number)``: answers that stay behind
    the fewer of arrivals and of what was asked for, by more than that can explain, say that the queue grows. Asked at 8, 16, 32, ...
    arrivals, the k-th time with ``risk / (k (k + 1))``, which adds up to ``risk``.

    Args:
        arrivals_s: when requests came, rising; the first begins the count.
        answered_s: when first tokens (or failures) came, of any request, in any order.
        rate_per_s: the rate of arrivals that was asked for.
        variation: the gaps' coefficient of variation, at least 1 is taken.
        risk: the chance that is allowed to a wrong yes.
    """
    look, count = 1, _FIRST_LOOK
    while count < len(arrivals_s):
        length_s = arrivals_s[count] - arrivals_s[0]
        answered = sum(arrivals_s[0] < at_s <= arrivals_s[count] for at_s in answered_s)
        expected = rate_per_s * length_s
        deviation = max(1.0, variation) * math.sqrt(max(expected, 1.0))
        if answered < min(count, expected) + NormalDist().inv_cdf(risk / (look * (look + 1))) * deviation:
            return True
        look, count = look + 1, 2 * count
    return False


def queue_growth(waits: Sequence[float], variation: float) -> float | None:
    """How much longer requests wait as time goes on, in what chance alone does to a queue at the rate that its server can just do.

    The waits are cut into eight stretches; the mean of their means less the least of them, over ``variation * sqrt(number)``: such a
    queue's waits are a random walk that is reflected at 0 (heavy traffic; Kingman, Proc. Camb. Phil. Soc. 57, 1961), and spread like the
    square root. A queue that its server keeps up with does not spread, and one that grows does so like the number itself. How long an
    idle server takes, and how that differs from request to request, cancels or is averaged out.

    Args:
        waits: from arrival to first token in the order of arrival, in mean gaps between arrivals.
        variation: the gaps' coefficient of variation.

    Returns:
        The growth, 0 or more; None of fewer than 32 waits.
    """
    size = len(waits) // _BLOCKS
    if len(waits) < _LEAST_WAITS:
        return None
    means = [sum(waits[first : first + size]) / size for first in range(0, size * _BLOCKS, size)]
    spread = max(variation, _LEAST_VARIATION) * math.sqrt(len(waits))
    return (sum(means) / _BLOCKS - min(means)) / spread


def looks_growing(waits: Sequence[float], variation: float) -> bool:
    """Whether a queue looks as if its server could not keep up: it grew by more than half of those that it can just not keep up with."""
    growth = queue_growth(waits, variation)
    return growth is not None and growth > _CRITICAL_GROWTH[-1][1]


def keeps_up(waits: Sequence[float], variation: float, *, risk: float) -> bool:
    """Whether it is proven that a server can do more than arrives: its queue grew less than one that it cannot keep up with would have.

    Asked at 32, 64, 128, ... waits, the k-th time with ``risk / (k (k + 1))``, which adds up to ``risk``: the chance of a wrong yes for
    a server that cannot keep up, however often this is asked. Arguments as those of :func:`queue_growth`.
    """
    look, count = 1, _LEAST_WAITS
    while count <= len(waits):
        growth = queue_growth(waits[:count], variation)
        if growth is not None and growth < _critical_growth(risk / (look * (look + 1))):
            return True
        look, count = look + 1, 2 * count
    return False


def _critical_growth(probability: float) -> float:
    """What the growth of a critical queue stays below with so small a probability, between the simulated ones on logarithmic axes.

    Below the least of them the line goes on, where the true values fall more slowly: eight means are equal by chance like the seventh power.
    """
    place = next(
        (i for i, (chance, _) in enumerate(_CRITICAL_GROWTH) if chance >= probability), len(_CRITICAL_GROWTH) - 1
    )
    (x0, y0), (x1, y1) = _CRITICAL_GROWTH[max(0, place - 1)], _CRITICAL_GROWTH[max(1, place)]
    slope = math.log(y1 / y0) / math.log(x1 / x0)
    return y0 * math.exp(slope * math.log(probability / x0))

"""What a level of load says about its limits while it runs: attempts in the order in which they were sent, and a verdict.

Attempts are judged as a stretch without holes: up to the first one of which nothing can be said yet. Whoever counts answers as they come
counts the quick ones first. A request that is under way and already later than its limit has missed it; nobody waits for its answer.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from suffice.model.load_metrics import Limits, keeps_to
from suffice.model.load_request import Outcome, RequestRow, Untimed
from suffice.stats.proportions import wilson_interval
from suffice.stats.sequential import (
    ShareVerdict,
    correlation_time,
    falls_behind,
    keeps_up,
    log_evidence,
    looks_growing,
    share_verdict,
)
from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.stats.estimate import Interval

_HOPELESS: Final = 0.5  # of the evidence that a verdict needs
_NEAR: Final = (
    0.5  # of a limit: with exponential waits whose P95 is at the limit, the slowest 15 % are above 0.63 of it
)
_GROWING: Final = "first texts wait longer and longer: the queue seems to grow"
_GONE: Final = 20  # requests in a row that found no server: it is not slow, it is not there


class LevelVerdict(StrEnum):
    """Whether the limits hold at a level of load."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """At least ``share`` of the attempts keep all of ``limits``."""

    limits: Limits
    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1 or not self.limits.given:
            raise ValueError("a criterion needs a limit, and a share of attempts between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionCount:
    """How a criterion stands: of ``counted`` attempts in a row, ``kept`` kept its limits; they are worth ``independent`` ones.

    ``undetermined`` attempts lack a time that a limit is about and are in no count. ``unknown`` is how many of them may have missed it:
    not answers of one token, which have no time per token. "Holds" is said only where it would be said if all of these had missed.
    ``proving`` is what the attempts are worth for "holds" once the queue is known to be kept up with: more than ``independent`` where
    none of them comes near the limits.
    """

    criterion: Criterion
    kept: int
    counted: int
    undetermined: int
    independent: float
    verdict: ShareVerdict
    unknown: int = 0
    proving: float = 0.0

    @property
    def attained(self) -> float | None:
        """The share that kept the limits."""
        return self.kept / self.counted if self.counted else None

    @property
    def interval(self) -> Interval | None:
        """Of that share, with as many trials as the attempts are worth."""
        if not self.counted:
            return None
        trials = max(1, round(self.independent))
        return wilson_interval(round(trials * self.kept / self.counted), trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A level so far: the verdict, why, and the counts. ``good``: the shares are what is asked for, proven or not.

    ``growing``: the queue looks as if the server could not keep up. Limits that nobody misses yet are then no good sign.
    """

    verdict: LevelVerdict
    because: str
    counts: tuple[CriterionCount, ...]
    growing: bool = False

    @property
    def good(self) -> bool:
        """Whether every share that was seen is at least the one asked for, none of it is disproved, and the queue does not seem to grow."""
        seen = all(one.attained is not None and one.attained >= one.criterion.share for one in self.counts)
        return self.verdict is not LevelVerdict.FAILS and seen and not self.growing


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judges one level. ``risk_holds`` and ``risk_fails`` are the chances allowed to a wrong "holds" and to a wrong "fails".

    ``rate_per_s`` is None in a closed loop, whose queue cannot grow. All criteria must hold, so that a wrong "holds" needs one of them
    to be wrong: each has the whole risk (Berger, Technometrics 24, 1982). That an open loop's queue does not grow is one of them: where it
    grows every limit on TTFT is missed in the end, and one on TPOT alone never. A wrong "fails" has several chances, which share it.
    ``variation`` is the arriving gaps' coefficient of variation. With fewer than ``least`` attempts nothing is said: one hiccup makes a
    handful of neighbours late.
    """

    criteria: tuple[Criterion, ...]
    risk_holds: float
    risk_fails: float
    rate_per_s: float | None = None
    variation: float = 1.0
    least: int = 20

    def judgement(self, rows: Sequence[RequestRow], now_ns: int) -> Judgement:
        """The level so far.

        Args:
            rows: all requests in the order in which they were sent; those under way have the outcome ``INTERRUPTED`` and what came so far.
            now_ns: the time of the run's clock, or its end.
        """
        measured = [row for row in rows if not row.warm_up]
        risk_fails = self.risk_fails / (len(self.criteria) + (self.rate_per_s is not None))
        waits = [] if self.rate_per_s is None else _waits(measured, now_ns, self.rate_per_s)
        growing = looks_growing([wait for wait, _ in waits], self.variation)
        known = [wait for wait, _ in itertools.takewhile(lambda wait: wait[1], waits)]
        kept_up = None if self.rate_per_s is None else keeps_up(known, self.variation, risk=self.risk_holds)
        looks = _Looks(
            now_ns=now_ns, risk_holds=self.risk_holds, risk_fails=risk_fails, least=self.least, kept_up=kept_up
        )
        counts = tuple(_count(measured, criterion, looks) for criterion in self.criteria)
        judged = partial(Judgement, counts=counts, growing=growing)
        failed = [one for one in counts if one.verdict is ShareVerdict.FAILS]
        if is_gone(rows):
            return judged(verdict=LevelVerdict.UNDECIDED, because="the server is not there any more")
        if failed:
            return judged(verdict=LevelVerdict.FAILS, because=_missed_words(failed[0]))
        if self.rate_per_s is not None and _behind(measured, rows, self.rate_per_s, self.variation, risk_fails):
            return judged(verdict=LevelVerdict.FAILS, because="it answers fewer requests than arrive: the queue grows")
        if not all(one.verdict is ShareVerdict.HOLDS for one in counts):
            return judged(verdict=LevelVerdict.UNDECIDED, because=_open_words(counts, growing))
        if kept_up is not False:
            return judged(verdict=LevelVerdict.HOLDS, because="")
        because = _GROWING if growing else "the limits hold, and too few attempts tell that the queue does not grow"
        return judged(verdict=LevelVerdict.UNDECIDED, because=because)

    def is_hopeless(self, judged: Judgement, planned: int) -> bool:
        """Whether ``planned`` attempts that go on as those so far would not decide either way, by far.

        Only from a quarter of them on, and not while the queue seems to grow, which more of them prove. Giving up early makes no answer
        wrong: an undecided level is none.
        """
        if judged.growing:
            return False
        if any(4 * (one.counted + one.undetermined) < planned for one in judged.counts):
            return False
        return any(
            max(
                _projected(one, planned, above=True) / -math.log(self.risk_holds),
                _projected(one, planned, above=False) / -math.log(self.risk_fails),
            )
            < _HOPELESS
            for one in judged.counts
        )


def _projected(count: CriterionCount, planned: int, *, above: bool) -> float:
    """The evidence that ``planned`` attempts like those so far would give."""
    if not count.counted:
        return 0.0
    counted = count.counted + (count.unknown if above else 0)
    worth = max(count.independent, count.proving) if above else count.independent
    trials = worth / count.counted * counted * planned / (count.counted + count.undetermined)
    return log_evidence(min(trials, trials * count.kept / counted), trials, count.criterion.share, above=above)


def is_gone(rows: Sequence[RequestRow]) -> bool:
    """Whether the last requests that ended found no server."""
    ended = [row for row in rows if row.outcome is not Outcome.INTERRUPTED][-_GONE:]
    return len(ended) == _GONE and all(row.outcome is Outcome.NO_CONNECTION for row in ended)


def _open_words(counts: Sequence[CriterionCount], growing: bool) -> str:  # noqa: FBT001  # private
    """Why nothing is proven yet."""
    if growing:
        return _GROWING
    lacking = max(counts, key=lambda one: one.unknown)
    if lacking.unknown:
        return (
            f"{lacking.unknown} of {lacking.counted + lacking.undetermined} attempts lack a time that a limit is about"
        )
    return "too few attempts to tell"


def _missed_words(count: CriterionCount) -> str:
    return f"{count.counted - count.kept} of {count.counted} attempts miss the limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looks:
    """How attempts are looked at: when, with which risks, from how many on, and whether the queue is known to be kept up with."""

    now_ns: int
    risk_holds: float
    risk_fails: float
    least: int
    kept_up: bool | None  # None: a closed loop


def _proving_time(scores: Sequence[float], looks: _Looks, time: float) -> float:
    """How many attempts are worth one for the proof that limits hold; ``time``: as a series.

    In a queue that is kept up with, only of those that come near their limit: attempts that are far from it, one and all, are late
    together as little as they are late. Before that is known, quick attempts may be the beginning of a long queue.
    """
    return min(time, correlation_time([max(score, _NEAR) for score in scores])) if looks.kept_up is not None else time


def _count(rows: Sequence[RequestRow], criterion: Criterion, looks: _Looks) -> CriterionCount:
    scores, undetermined, unknown = [], 0, 0
    for row in rows:
        score = score_of(row, criterion.limits, looks.now_ns)
        if score is None:
            break
        if math.isnan(score):
            undetermined += 1
            unknown += row.untimed is not Untimed.ONE_TOKEN
        else:
            scores.append(score)
    kept = sum(score <= 1 for score in scores)
    time = correlation_time(scores)
    near = _proving_time(scores, looks, time)
    used = near if looks.kept_up else time
    above = share_verdict(kept / used, (len(scores) + unknown) / used, criterion.share, risk=looks.risk_holds)
    below = share_verdict(kept / time, len(scores) / time, criterion.share, risk=looks.risk_fails)
    return CriterionCount(
        criterion=criterion,
        kept=kept,
        counted=len(scores),
        undetermined=undetermined,
        independent=len(scores) / time,
        verdict=_verdict(above, below) if len(scores) >= looks.least else ShareVerdict.UNDECIDED,
        unknown=unknown,
        proving=len(scores) / near,
    )


def _verdict(above: ShareVerdict, below: ShareVerdict) -> ShareVerdict:
    """What either of the two tests says: each looks at one side, with its own risk."""
    if above is ShareVerdict.HOLDS:
        return above
    return below if below is ShareVerdict.FAILS else ShareVerdict.UNDECIDED


def score_of(row: RequestRow, limits: Limits, now_ns: int) -> float | None:
    """The attempt's times over their limits, the worst of them: at most 1 keeps all; infinite: failed, or late while under way.

    NaN: it keeps what can be judged and lacks a time that a limit is about. None: under way, and not late yet.
    """
    if row.outcome is Outcome.INTERRUPTED:
        return math.inf if _is_late(row, limits, now_ns) else None
    keeps = keeps_to(row, limits)
    if keeps is None:
        return math.nan
    if not row.succeeded:
        return math.inf
    from_schedule = row.scheduled_ns is not None
    pairs = (
        (limits.ttft_s, row.effective_ttft_s if from_schedule else row.ttft_s),
        (limits.tpot_s, row.tpot_s),
        (limits.e2e_s, row.effective_e2e_s if from_schedule else row.e2e_s),
    )
    return max(value / limit for limit, value in pairs if limit is not None and value is not None)


def _is_late(row: RequestRow, limits: Limits, now_ns: int) -> bool:
    since_ns = row.start_ns if row.scheduled_ns is None else row.scheduled_ns
    if since_ns is None:
        return False
    waited_s = (now_ns - since_ns) / NANOSECONDS_PER_SECOND
    first_s = waited_s if not row.chunk_ns else (row.chunk_ns[0] - since_ns) / NANOSECONDS_PER_SECOND
    return (limits.ttft_s is not None and first_s > limits.ttft_s) or (
        limits.e2e_s is not None and waited_s > limits.e2e_s
    )


def _behind(
    measured: Sequence[RequestRow], rows: Sequence[RequestRow], rate_per_s: float, variation: float, risk: float
) -> bool:
    arrivals = [row.scheduled_ns / NANOSECONDS_PER_SECOND for row in measured if row.scheduled_ns is not None]
    answered = [at_ns / NANOSECONDS_PER_SECOND for row in rows if (at_ns := _answered_ns(row)) is not None]
    return falls_behind(arrivals, answered, rate_per_s, variation=variation, risk=risk)


def _waits(measured: Sequence[RequestRow], now_ns: int, rate_per_s: float) -> list[tuple[float, bool]]:
    """From arrival to first text (or failure) in mean gaps, in the order of arrival, and whether it is known; else what it is so far."""
    found = []
    for row in measured:
        if row.scheduled_ns is not None:
            at_ns = row.end_ns if row.outcome is Outcome.TIMEOUT else _answered_ns(row)
            waited_ns = (now_ns if at_ns is None else at_ns) - row.scheduled_ns
            found.append((waited_ns / NANOSECONDS_PER_SECOND * rate_per_s, at_ns is not None))
    return found


def _answered_ns(row: RequestRow) -> int | None:
    """When the server began to answer, or gave up."""
    if row.chunk_ns:
        return row.chunk_ns[0]
    return None if row.outcome in (Outcome.INTERRUPTED, Outcome.TIMEOUT) else row.end_ns

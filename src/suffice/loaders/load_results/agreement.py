"""Do the numbers of a load tool's file agree with each other? A time or a count that the others contradict is not used.

Requests, their rate and the duration are three numbers of which two give the third. Where the file holds more (the times of requests, the
tokens of all answers, the number of values behind a percentile), they are witnesses: of the count without the duration, and of the duration
by what has to fit into it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.model.served import Mapping
from suffice.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.model.served import ServedTimes

# Tools round, and leave the first or the last request out of a rate: AIPerf 0.13 differs by 0.6 % from itself.
_TOLERANCE: Final = 0.05
_ONE: Final = 1.0
# A Poisson run of 30 requests sends 1.5 times what was asked with a probability of some per mille.
_FASTEST_SENT: Final = 1.5
_LEAST_FOR_RATE: Final = 30
_LATE_END_SHARE, _LATE_END_S = 1.5, 5.0  # how much longer than its requests a run without failures may be
COUNT_DOUBTED: Final = "how many requests stand behind it contradicts other numbers of the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a file says of one load. None: it does not.

    Attributes:
        succeeded: requests with a whole answer.
        duration_s: of the run.
        requests_per_s: of the successes.
        output_tokens_per_s: of these.
        output_tokens: of all answers together.
        counts: other numbers of successes in the file, which do not come from the duration.
        mean_s: of the successes from send to end.
        longest_s: of these the longest.
        span_s: from the first send to the last answer, where every request is in the file.
        lost: requests that failed or were cut off.
        users: of a closed loop.
        rate_per_s: that an open loop was asked for.
    """

    succeeded: int
    duration_s: float | None = None
    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    output_tokens: float | None = None
    counts: tuple[float, ...] = ()
    mean_s: float | None = None
    longest_s: float | None = None
    span_s: float | None = None
    lost: int = 0
    users: float | None = None
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """What of it is used: None where another number contradicts it. ``notes`` say what was not, a sentence each."""

    duration_s: float | None
    requests_per_s: float | None
    output_tokens_per_s: float | None
    is_count_sure: bool
    notes: tuple[str, ...]

    def percentiles(self, times: ServedTimes | None) -> ServedTimes | None:
        """Times whose percentiles are not usable when the count behind them is in doubt; raw values are counted anew anyway."""
        if times is None or self.is_count_sure or times.values_s is not None:
            return times
        return replace(times, mapping=Mapping.UNUSABLE, why=COUNT_DOUBTED)


def believed(said: Said, source: str) -> Believed:
    """What of a file's numbers the others bear out.

    Args:
        said: the numbers.
        source: the file, for the notes.
    """
    miscounts = list(_miscounts(said))
    slips = list(_slips(said))
    in_doubt = bool(miscounts) or (_is_off(said) and not _other_counts(said))
    notes = [f"{source}: {text}: percentiles are not used" for text in miscounts]
    notes += [f"{source}: {text}: duration and throughput are not used" for text in slips]
    unsure = bool(miscounts or slips)
    return Believed(
        duration_s=None if unsure else said.duration_s,
        requests_per_s=None if unsure else said.requests_per_s,
        output_tokens_per_s=None if unsure else said.output_tokens_per_s,
        is_count_sure=not in_doubt,
        notes=tuple(notes),
    )


def _differ(stated: float, seen: float) -> bool:
    return abs(stated - seen) > max(_ONE, _TOLERANCE * max(stated, seen))


def _other_counts(said: Said) -> tuple[float, ...]:
    """The number of successes as other fields give it, without the duration."""
    if said.output_tokens and said.requests_per_s and said.output_tokens_per_s:
        return (*said.counts, said.output_tokens * said.requests_per_s / said.output_tokens_per_s)
    return said.counts


def _miscounts(said: Said) -> Iterator[str]:
    """The first other number of successes that is not the stated one."""
    for seen in _other_counts(said):
        if _differ(said.succeeded, seen):
            yield f"{said.succeeded} requests succeeded, other numbers in it are of {seen:.4g}"
            return


def _is_off(said: Said) -> bool:
    """Whether requests, rate and duration contradict each other."""
    if said.duration_s is None or said.requests_per_s is None:
        return False
    return _differ(said.succeeded, said.requests_per_s * said.duration_s)


def _slips(said: Said) -> Iterator[str]:
    """What cannot be of the duration, or of the rate where there is no duration."""
    duration_s, rate = said.duration_s, said.requests_per_s
    if _is_off(said) and duration_s is not None and rate is not None:
        yield f"{said.succeeded} requests in {format_seconds(duration_s)} are not the {rate:.4g} requests/s that it states"
    if duration_s is not None:
        yield from _too_short(said, duration_s)
        rate = max(rate or 0.0, said.succeeded / duration_s)
    if rate is None:
        return
    if said.users is not None and said.mean_s is not None and rate * said.mean_s > said.users * (1 + _TOLERANCE):
        yield (
            f"{rate:.4g} requests/s of {format_seconds(said.mean_s)} each are more at a time than its "
            f"{said.users:g} users"
        )
    if said.rate_per_s is not None and said.succeeded >= _LEAST_FOR_RATE and rate > _FASTEST_SENT * said.rate_per_s:
        yield f"{rate:.4g} requests/s were answered, and only {said.rate_per_s:.4g} asked for"


def _too_short(said: Said, duration_s: float) -> Iterator[str]:
    """A duration that the requests' own times do not fit into, or of which they fill only a part."""
    for what, own_s in (("its slowest request takes", said.longest_s), ("its requests span", said.span_s)):
        if own_s is not None and own_s > duration_s * (1 + _TOLERANCE):
            yield f"{what} {format_seconds(own_s)}, the whole run {format_seconds(duration_s)}"
            return
    if said.span_s is not None and not said.lost and duration_s > said.span_s * _LATE_END_SHARE + _LATE_END_S:
        yield f"its requests span {format_seconds(said.span_s)}, the whole run {format_seconds(duration_s)}"

"""From simulated runs to percentiles with intervals, throughput, queue and occupancy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.serving.run import Outcome
from suffice.stats.estimate import Estimate
from suffice.stats.intervals import median, median_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from suffice.serving.run import SimulatedRun

    Floats = NDArray[np.float64]

PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0)
# Least samples for a two-sided interval of 95 % by order statistics (binomial); fewer are printed and never decided on.
LEAST_SAMPLES: Final = {50.0: 6, 90.0: 36, 95.0: 72, 99.0: 368}
CLEARLY_ANSWERED: Final = 0.95  # of the requests that come; a smaller share and a growing queue are an overload
DEFAULT_LEAD: Final = 0.1
DEFAULT_TAIL: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which requests count: those that arrived after the first ``lead`` and before the last ``tail`` of all arrivals (shares)."""

    lead: float = DEFAULT_LEAD
    tail: float = DEFAULT_TAIL

    def __post_init__(self) -> None:
        if not (0 <= self.lead < 1 and 0 <= self.tail < 1 and self.lead + self.tail < 1):
            raise ValueError("lead and tail of a window are shares that leave something between them")

    def requests(self, run: SimulatedRun) -> slice:
        """The requests of a run that count, by their order of arrival."""
        return self.places(len(run.arrival_s))

    def places(self, count: int) -> slice:
        """Those of so many requests."""
        return slice(math.floor(count * self.lead), max(1, math.ceil(count * (1 - self.tail))))


STEADY: Final = Window()
WHOLE: Final = Window(lead=0.0, tail=0.0)


def least_samples(percent: float) -> int:
    """Attempts that a run needs for a percentile: the next higher one of those that are known."""
    return LEAST_SAMPLES[min((known for known in LEAST_SAMPLES if known >= percent), default=max(LEAST_SAMPLES))]


def rank_of(attempted: int, percent: float) -> int:
    """Of how many attempts, the smallest first, the last one is their percentile."""
    return max(1, math.ceil(attempted * percent / 100))


def nearest_rank(values: Floats, attempted: int, percent: float) -> float:
    """The smallest value that at least ``percent`` % of the attempts do not exceed; attempts without a value are infinite.

    The order statistic of rank ``ceil(n p)``, NaN without attempts. "P95 is at most the limit" then means just that 95 % of the attempts
    keep it, which is what a limit says of a simulated run; :func:`suffice.stats.percentiles.percentile` estimates a population's
    percentile from measured samples (type 7, which lies between two of them) and gives its interval.
    """
    if attempted == 0:
        return math.nan
    rank = rank_of(attempted, percent)
    ordered = np.sort(values)
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """One percentile of one metric.

    Attributes:
        percent: 50 to 99.
        estimate: the median of the runs' own percentiles with an interval for it; infinite where most runs lost too many requests.
        supported: each run had enough requests for this percentile.
    """

    percent: float
    estimate: Estimate
    supported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """The percentiles of a metric over all attempts, and over those that were served."""

    name: str
    attempted: tuple[Percentile, ...]
    served: tuple[Percentile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What several runs of one load say. Estimates are over runs, which are independent.

    Attributes:
        runs: simulated.
        requests: of each run.
        ttft: from the arrival to the first token.
        tpot: per output token after the first, of answers with two tokens or more.
        e2e: from the arrival to the last token.
        queueing: from the arrival to a slot.
        output_tokens_per_second: of answers, inside the window.
        requests_per_second: answered, inside the window.
        utilisation: share of the time in which the engine worked.
        occupancy: share of places for requests that were taken, on average.
        kv_share: share of the cache that was used, on average.
        most_kv_share: at its fullest.
        queue_length: mean number of requests that wait.
        longest_queue: largest number of them.
        end_s: when the last answer was there: the time to drain a queue that was there at the start.
        rejected: share of requests whose prompt did not fit.
        failed: share of requests that ended with an error.
        truncated: share of requests whose answer was cut by the context.
        preemptions: put back, per request.
        notes: what was asked beyond the curve's measurements.
    """

    runs: int
    requests: int
    ttft: Latencies
    tpot: Latencies
    e2e: Latencies
    queueing: Latencies
    output_tokens_per_second: Estimate
    requests_per_second: Estimate
    utilisation: Estimate
    occupancy: Estimate
    kv_share: Estimate
    most_kv_share: Estimate
    queue_length: Estimate
    longest_queue: Estimate
    end_s: Estimate
    rejected: float
    failed: float
    truncated: float
    preemptions: float
    notes: tuple[str, ...] = ()


def estimate_over(values: Sequence[float]) -> Estimate:
    """Median and interval of one value a run; no interval when a value is not finite, or cannot have one."""
    samples = tuple(values)
    if all(math.isfinite(value) for value in samples):
        return Estimate(point=median(samples), interval=median_interval(samples), samples=samples)
    known = sorted(value for value in samples if not math.isnan(value))
    return Estimate(point=known[len(known) // 2] if known else math.nan, interval=None, samples=samples)


def latency_of(run: SimulatedRun, name: str) -> Floats:
    """A metric of each request: ``ttft_s``, ``tpot_s``, ``e2e_s`` or ``queueing_s``."""
    match name:
        case "ttft_s":
            return run.ttft_s
        case "tpot_s":
            return run.tpot_s
        case "e2e_s":
            return run.e2e_s
        case "queueing_s":
            return run.queueing_s
    raise ValueError(f"{name!r} is none of ttft_s, tpot_s, e2e_s, queueing_s")


def run_percentiles(run: SimulatedRun, name: str, window: Window, percents: Sequence[float]) -> list[tuple[float, int]]:
    """(value, attempts) of a run at each percentile, over all attempts in the window; failures are infinite.

    An answer of one token has no TPOT and is no attempt at one.
    """
    kept = window.requests(run)
    served = run.served[kept]
    values = latency_of(run, name)[kept][served]
    defined = values[~np.isnan(values)]
    attempted = len(served) - (len(values) - len(defined))
    return [(nearest_rank(defined, attempted, percent), attempted) for percent in percents]


def _latencies(runs: Sequence[SimulatedRun], name: str, window: Window) -> Latencies:
    over_all = [run_percentiles(run, name, window, PERCENTILES) for run in runs]
    over_served: list[list[tuple[float, int]]] = []
    for run in runs:
        kept = window.requests(run)
        values = latency_of(run, name)[kept][run.served[kept]]
        values = values[~np.isnan(values)]
        over_served.append([(nearest_rank(values, len(values), percent), len(values)) for percent in PERCENTILES])

    def rows(columns: list[list[tuple[float, int]]]) -> tuple[Percentile, ...]:
        return tuple(
            Percentile(
                percent=percent,
                estimate=estimate_over([column[place][0] for column in columns]),
                supported=all(column[place][1] >= LEAST_SAMPLES[percent] for column in columns),
            )
            for place, percent in enumerate(PERCENTILES)
        )

    return Latencies(name=name, attempted=rows(over_all), served=rows(over_served))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What went through a server between two moments."""

    output_tokens_per_second: float
    requests_per_second: float


def steady_rates(run: SimulatedRun, window: Window) -> Rates:
    """Tokens and answers in the time of a window, those of requests that reach over its edges in part.

    The tokens of an answer are spread evenly between its first and its last. A window over all arrivals lasts until the last answer.
    """
    kept = window.requests(run)
    start = float(run.arrival_s[kept.start]) if window.lead else 0.0
    end = float(run.arrival_s[kept.stop - 1]) if window.tail else run.end_s
    if end <= start:
        return Rates(output_tokens_per_second=math.nan, requests_per_second=math.nan)
    first, last = run.first_token_s[run.served], run.finish_s[run.served]
    later = run.output_tokens[run.served] - 1
    inside = np.clip(np.minimum(last, end) - np.maximum(first, start), 0.0, None)
    share = np.divide(inside, last - first, out=np.zeros(len(first)), where=last > first)
    tokens = float((later * share).sum()) + int(((first >= start) & (first <= end)).sum())
    answers = int(((last >= start) & (last <= end)).sum())
    return Rates(output_tokens_per_second=tokens / (end - start), requests_per_second=answers / (end - start))


def queue_at(run: SimulatedRun, times_s: Floats) -> NDArray[np.int64]:
    """Number of requests that wait at each of some times: those that came less those that were let in."""
    waited = ~np.isnan(run.start_s)
    came = np.searchsorted(np.sort(run.arrival_s[waited]), times_s, side="right")
    started = np.searchsorted(np.sort(run.start_s[waited]), times_s, side="right")
    return np.asarray(came - started, dtype=np.int64)


def is_overloaded(runs: Sequence[SimulatedRun], window: Window) -> bool:
    """Whether in most runs clearly fewer requests were answered in the window than came, and the queue grew by as much."""

    def grew(run: SimulatedRun) -> bool:
        arrivals = run.arrival_s[window.requests(run)]
        if len(arrivals) == 0 or arrivals[-1] <= arrivals[0]:
            return False
        start_s, end_s = float(arrivals[0]), float(arrivals[-1])
        finish_s = run.finish_s[run.served]
        answered = int(((finish_s >= start_s) & (finish_s <= end_s)).sum())
        queue = queue_at(run, np.array([start_s, end_s]))
        behind = len(arrivals) * (1 - CLEARLY_ANSWERED)
        return answered < CLEARLY_ANSWERED * len(arrivals) and int(queue[1] - queue[0]) >= behind

    return 2 * sum(grew(run) for run in runs) > len(runs)


def _mean_queue(run: SimulatedRun) -> float:
    """Time average of the queue, by Little's law exactly: the sum of all waits over the time."""
    return float(np.nansum(run.queueing_s)) / run.end_s if run.end_s else 0.0


def _longest_queue(run: SimulatedRun) -> float:
    """The queue is longest at an arrival."""
    lengths = queue_at(run, run.arrival_s)
    return float(lengths.max(initial=0))


def _occupancy(run: SimulatedRun) -> float:
    inside = float(np.nansum(run.finish_s - run.start_s))
    return inside / (run.end_s * run.most_requests) if run.end_s else 0.0


def summarize(runs: Sequence[SimulatedRun], window: Window, notes: tuple[str, ...] = ()) -> Summary:
    """Percentiles, rates and shares of several runs of one load.

    Raises:
        ValueError: no runs.
    """
    if not runs:
        raise ValueError("there is nothing to summarize without runs")
    rates = [steady_rates(run, window) for run in runs]

    def over(value: Callable[[SimulatedRun], float]) -> Estimate:
        return estimate_over([value(run) for run in runs])

    def share(outcome: Outcome) -> float:
        return sum(run.count(outcome) for run in runs) / sum(len(run.arrival_s) for run in runs)

    def kv_share(run: SimulatedRun) -> float:
        return run.cached_token_seconds / (run.end_s * run.capacity_tokens) if run.end_s else 0.0

    return Summary(
        runs=len(runs),
        requests=len(runs[0].arrival_s),
        ttft=_latencies(runs, "ttft_s", window),
        tpot=_latencies(runs, "tpot_s", window),
        e2e=_latencies(runs, "e2e_s", window),
        queueing=_latencies(runs, "queueing_s", window),
        output_tokens_per_second=estimate_over([rate.output_tokens_per_second for rate in rates]),
        requests_per_second=estimate_over([rate.requests_per_second for rate in rates]),
        utilisation=over(lambda run: run.busy_s / run.end_s if run.end_s else 0.0),
        occupancy=over(_occupancy),
        kv_share=over(kv_share),
        most_kv_share=over(lambda run: run.most_cached_tokens / run.capacity_tokens),
        queue_length=over(_mean_queue),
        longest_queue=over(_longest_queue),
        end_s=over(lambda run: run.end_s),
        rejected=share(Outcome.REJECTED),
        failed=share(Outcome.FAILED),
        truncated=share(Outcome.TRUNCATED),
        preemptions=sum(run.preemptions for run in runs) / sum(len(run.arrival_s) for run in runs),
        notes=notes,
    )

"""How fast one curve works off a queue that is never empty, with how many slots."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.decide.service_rate import KNOWN, doubled
from suffice.serving.capacity import saturated_rate
from suffice.serving.search import drain_time_s
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from suffice.decide.service_load import ServedCase
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import Load

_SAME: Final = 0.01  # rates of a queue that differ by less are the same
DRAIN_RUNS: Final = 3
_QUEUE_REQUESTS: Final = 500
_FEW_REQUESTS: Final = 100


@lru_cache(maxsize=KNOWN)
def queue_end(curve: ServiceCurve, case: ServedCase) -> tuple[int, float]:
    """The slots that answer most, and how many requests/s they answer."""
    if not case.effort.finds_capacity:
        return 1, saturated_rate(curve, case.scheduler(1), case.load())
    slots = fastest_slots(curve, case)
    return slots, saturated_rate(curve, case.scheduler(slots), case.load(_QUEUE_REQUESTS), runs=DRAIN_RUNS)


def fastest_slots(curve: ServiceCurve, case: ServedCase) -> int:
    """The slots that answer most, the fewest among equals."""
    rates = dict(saturated_rates(curve, case))
    most = max(rates.values())
    return next(slots for slots, rate in rates.items() if rate >= most * (1 - _SAME))


@lru_cache(maxsize=KNOWN)
def saturated_rates(curve: ServiceCurve, case: ServedCase) -> tuple[tuple[int, float], ...]:
    """Requests/s of a queue that is never empty, by slots; at a slow end, which gains little by batches, none after the first that answer less."""
    rates: dict[int, float] = {}
    for slots in doubled(case.most_slots):
        rates[slots] = saturated_rate(curve, case.scheduler(slots), case.load())
        if not case.effort.bounds_high and rates[slots] < max(rates.values()):
            break
    return tuple(rates.items())


@lru_cache(maxsize=KNOWN)
def queue_time_s(curve: ServiceCurve, case: ServedCase, requests: int, runs: int = DRAIN_RUNS) -> float:
    """Seconds until a queue of so many requests is worked off, with the slots that answer most."""
    scheduler = case.scheduler(fastest_slots(curve, case))
    return drain_time_s(curve, scheduler, case.load(requests), runs=runs)


def likely_drain_s(curve: ServiceCurve, case: ServedCase, requests: int, token_s: tuple[float, float]) -> float:
    """About that of one slot: a few requests worked off, times how much more all have to read and to write.

    ``token_s``: seconds of a token of a prompt and of an answer, in which both are added up.
    """
    few = min(requests, _FEW_REQUESTS)
    seconds = drain_time_s(curve, case.scheduler(1), case.load(few), runs=1)
    work = median([_work_s(case.load(requests), seed, token_s) for seed in range(DRAIN_RUNS)])
    return seconds * work / _work_s(case.load(few), 0, token_s)


def _work_s(load: Load, seed: int, token_s: tuple[float, float]) -> float:
    prompts, outputs = _tokens_of(load, seed)
    return prompts * token_s[0] + outputs * token_s[1]


@lru_cache(maxsize=KNOWN)
def _tokens_of(load: Load, seed: int) -> tuple[int, int]:
    drawn = load.draw(seed)
    return sum(drawn.prompts), sum(drawn.outputs)

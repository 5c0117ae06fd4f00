"""How fast one curve works off a queue that is never empty, with how many slots."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.decide.service_rate import KNOWN, doubled
from suffice.serving.capacity import saturated_rate
from suffice.serving.search import drain_time_s

if TYPE_CHECKING:
    from suffice.decide.service_load import ServedCase
    from suffice.serving.curve import ServiceCurve

_SAME: Final = 0.01  # rates of a queue that differ by less are the same
_DRAIN_RUNS: Final = 3
_QUEUE_REQUESTS: Final = 500


@lru_cache(maxsize=KNOWN)
def queue_end(curve: ServiceCurve, case: ServedCase) -> tuple[int, float]:
    """The slots that answer most, the fewest among equals, and how many requests/s they answer."""
    load = case.load()
    if not case.effort.finds_capacity:
        return 1, saturated_rate(curve, case.scheduler(1), load)
    rates = [(slots, saturated_rate(curve, case.scheduler(slots), load)) for slots in doubled(case.most_slots)]
    most = max(rate for _, rate in rates)
    slots = next(slots for slots, rate in rates if rate >= most * (1 - _SAME))
    return slots, saturated_rate(curve, case.scheduler(slots), case.load(_QUEUE_REQUESTS), runs=_DRAIN_RUNS)


@lru_cache(maxsize=KNOWN)
def queue_time_s(curve: ServiceCurve, case: ServedCase, requests: int) -> float:
    """Seconds until a queue of so many requests is worked off, with the slots that answer most."""
    scheduler = case.scheduler(queue_end(curve, case)[0])
    return drain_time_s(curve, scheduler, case.load(requests), runs=_DRAIN_RUNS).point

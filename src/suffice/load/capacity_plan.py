"""What a search for the capacity is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.load.capacity_result import CapacitySettings
from suffice.load.settings import Arrivals
from suffice.stats.percentiles import samples_needed

if TYPE_CHECKING:
    from suffice.load.endpoint import Endpoint
    from suffice.load.session import Content
    from suffice.model.capacity import Criterion
    from suffice.model.capacity_search import CapacityOf

_BRIEF_REQUESTS: Final = 60
_BRIEF_SHARE: Final = 0.5  # of a level at length, at most: a look that takes as long as a proof is none


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """What to search for, and how long to stay at a level. ``start`` None: from what one user alone gets.

    ``spawned`` describes a server that is started for the search: what its address cannot say.
    """

    of: CapacityOf
    criteria: tuple[Criterion, ...]
    confidence: float = 0.95
    tolerance: float = 0.1
    most_probes: int = 16
    requests: int = 1200
    duration_s: float = 300.0
    warm_up: int | None = None
    start: float | None = None
    arrivals: Arrivals = Arrivals.POISSON
    burstiness: float = 1.0
    seed: int = 0
    timeout_s: float = 600.0
    spawned: str | None = None


def brief_requests(plan: CapacityPlan) -> int:
    """How many requests a level has that is tried by what it looks like: as many as the highest percentile of its limits needs.

    With fewer its sample cannot even hold the percentile (72 for P95, 368 for P99). No more than half of a level at length, as long as
    that leaves the usual 60: P99.9 would need 3688.
    """
    needed = max(samples_needed(one.share) for one in plan.criteria)
    return min(plan.requests, max(_BRIEF_REQUESTS, min(needed, round(_BRIEF_SHARE * plan.requests))))


def settings_of(plan: CapacityPlan, content: Content, endpoint: Endpoint, salt: str = "") -> CapacitySettings:
    """What decides a search, before the server was looked at."""
    return CapacitySettings(
        url=endpoint.shown,
        api=endpoint.api,
        model=endpoint.model,
        prompts=content.words(plan.seed),
        prompt_salt=salt,
        output_tokens=content.output_tokens,
        accepted=None,
        temperature=content.temperature,
        keep_alive=endpoint.keep_alive,
        of=plan.of,
        criteria=plan.criteria,
        confidence=plan.confidence,
        tolerance=plan.tolerance,
        most_probes=plan.most_probes,
        start=plan.start,
        requests=plan.requests,
        duration_s=plan.duration_s,
        brief_requests=brief_requests(plan),
        warm_up=plan.warm_up,
        arrivals=plan.arrivals,
        burstiness=plan.burstiness,
        seed=plan.seed,
        timeout_s=plan.timeout_s,
        spawned=plan.spawned,
    )

"""Counts how many different experts a decode step touches: what decides how much a mixture of experts reads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError
from suffice.records.schema import ExpertsRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.measure.engine.seam import Session

STEPS: Final = 8
DEPTH: Final = 16  # tokens in the cache meanwhile: a first token alone is no typical one


def count_experts(open_watching: Callable[[], Session], batch: int) -> tuple[ExpertsRecord, ...]:
    """For one sequence, and for ``batch`` when it is more. Empty when the engine cannot tell."""
    records = []
    try:
        with open_watching() as session:
            session.prefill(DEPTH)
            for size in dict.fromkeys((1, batch)):
                if size > 1:
                    session.spread(size)
                record = _record(session, size)
                if record is not None:
                    records.append(record)
    except EngineError:
        return ()  # an engine that cannot be watched; the figures stand without the count
    return tuple(records)


def _record(session: Session, batch: int) -> ExpertsRecord | None:
    uses = session.experts_touched(STEPS, batch=batch)
    if not uses:
        return None
    counts = [distinct for use in uses for distinct in use.distinct_per_step]
    n_expert, n_used = uses[0].n_expert, uses[0].n_used
    return ExpertsRecord(
        batch=batch,
        n_expert=n_expert,
        n_used=n_used,
        distinct_mean=math.fsum(counts) / len(counts),
        expected=n_expert * (1 - (1 - n_used / n_expert) ** batch),
        steps=STEPS,
    )

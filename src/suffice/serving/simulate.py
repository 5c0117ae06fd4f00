"""One run of a server under a load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.serving.blocks_engine import simulate_blocks
from suffice.serving.schedulers import LlamaCppScheduler
from suffice.serving.slots_engine import simulate_slots

if TYPE_CHECKING:
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import Load
    from suffice.serving.run import SimulatedRun
    from suffice.serving.schedulers import Scheduler


def simulate(curve: ServiceCurve, scheduler: Scheduler, load: Load, seed: int = 0) -> SimulatedRun:
    """Serve one realisation of a load; the same seed gives the same run."""
    drawn = load.draw(seed)
    if isinstance(scheduler, LlamaCppScheduler):
        return simulate_slots(curve, scheduler, drawn)
    return simulate_blocks(curve, scheduler, drawn)
